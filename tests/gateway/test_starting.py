"""A gateway that was not told all routes yet says so: an unknown name may be one of a service."""

from __future__ import annotations

import os
import signal

from tests.gateway.gateway_town import GatewayTown
from tests.gateway.routers.town import request, until
from windlass.gateway.files import JOURNAL

UNKNOWN = request(host="unknown.localhost")


async def restarted(town: GatewayTown, *, with_journal: bool) -> None:
    """A server finds a gateway that was killed."""
    process = await town.process()
    await town.router.stop()
    os.kill(process, signal.SIGKILL)
    if not with_journal:
        (town.folder / JOURNAL).unlink()
    await town.new_server()


async def test_a_gateway_answers_503_to_unknown_hosts_until_it_has_all_routes(town: GatewayTown):
    said = await town.ask(UNKNOWN)
    assert (said.status, said.fields["retry-after"]) == (503, "1")
    assert b"Windlass is starting" in said.body
    await town.shop(await town.instance("one"))
    assert (await town.ask(request())).body == b"one"
    assert (await town.ask(UNKNOWN)).status == 503
    await town.router.complete()
    assert (await town.ask(UNKNOWN)).status == 404


async def test_a_gateway_remembers_across_a_crash_that_its_routes_are_complete(town: GatewayTown):
    await town.router.complete()
    await restarted(town, with_journal=True)
    assert (await town.ask(UNKNOWN)).status == 404


async def test_a_gateway_that_lost_its_journal_starts_again(town: GatewayTown):
    await town.router.complete()
    await restarted(town, with_journal=False)
    assert (await town.ask(UNKNOWN)).status == 503


async def test_a_server_tells_a_gateway_that_lost_its_journal_all_routes_again(town: GatewayTown):
    await town.shop(await town.instance("one"))
    await town.router.complete()
    (town.folder / JOURNAL).write_bytes(b"")
    await town.kill()
    await until(lambda: not town.link._is_ready.is_set())
    await town.process()
    assert (await town.ask(UNKNOWN)).status == 404
    assert (await town.ask(request())).body == b"one"


async def test_a_successor_inherits_that_the_gateway_has_all_routes(town: GatewayTown):
    await town.router.complete()
    await town.replace()
    assert (await town.ask(UNKNOWN)).status == 404
