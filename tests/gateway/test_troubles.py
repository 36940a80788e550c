"""The gateway among taken ports, hung processes and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.gateway.gateway_town import GatewayTown, processes_of
from tests.gateway.routers.town import calling, request, route, until
from windlass.gateway import link
from windlass.gateway.files import JOURNAL, LOG
from windlass.gateway.link import AskGateway
from windlass.routers.router import Listen, RouteError


async def test_a_gateway_whose_port_was_taken_opens_the_port_when_it_is_free_again(
    town: GatewayTown, monkeypatch
):
    monkeypatch.setattr(link, "_RESEND_SECONDS", 0.05)
    await town.shop(await town.instance("one"))
    port = town.router.port
    os.kill(await town.process(), signal.SIGSTOP)
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for process in processes_of(town.folder):
        os.kill(process, signal.SIGKILL)
    with taken:
        await until(lambda: _is_bound(taken, port))
        await until(lambda: not town.link._is_ready.is_set())
        await town.process()
    async with asyncio.timeout(20):
        while not _is_reached(port):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await town.ask(request())).body == b"one"


async def test_a_hanging_gateway_is_reported_with_the_command_that_kills_it(town: GatewayTown, monkeypatch):
    process = await town.process()
    monkeypatch.setattr(link, "_ANSWER_TIMEOUT", 0.2)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(RouteError, match=f"^end the gateway with `kill -9 {process}`"):
            await town.shop(await town.instance("one"))
    finally:
        os.kill(process, signal.SIGCONT)


async def test_a_gateway_that_hangs_is_replaced_and_serves_the_same_routes(
    town: GatewayTown, monkeypatch, caplog
):
    await town.shop(await town.instance("one"))
    process = await town.process()
    for name in ("_ANSWER_TIMEOUT", "_LIVENESS_INTERVAL"):
        monkeypatch.setattr(link, name, 0.2)
    await town.new_server()
    os.kill(process, signal.SIGSTOP)
    try:
        await until(lambda: "the gateway hangs" in caplog.text)
        monkeypatch.undo()
        assert await town.process() != process
        assert (await town.ask(request())).body == b"one"
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


async def test_sigterm_ends_a_gateway_only_after_its_server_and_starts_no_new_one(town: GatewayTown):
    """As a stop of a whole control group does, which ends both at once."""
    await town.shop(await town.instance("one"))
    process = await town.process()
    os.kill(process, signal.SIGTERM)
    await town.shop(await town.instance("two"))
    assert (await town.ask(request())).body == b"two"
    assert processes_of(town.folder) == [process]
    await town.router.stop()
    await until(lambda: not processes_of(town.folder))


async def test_a_replaced_gateway_ends_without_logging_an_error(town: GatewayTown):
    await town.shop(await town.instance("one"))
    await town.replace()
    await until(lambda: len(processes_of(town.folder)) == 1)
    assert '"error"' not in (town.folder / LOG).read_text()


def _is_bound(taken: socket.socket, port: int) -> bool:
    try:
        taken.bind(("127.0.0.1", port))
    except OSError:
        return False
    taken.listen()
    return True


def _is_reached(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


async def test_a_service_whose_external_port_was_taken_is_still_reached_by_host_name(
    town: GatewayTown, free_port: int
):
    one = await town.instance("one")
    await town.router.reserve("shop", [Listen(free_port)])
    await town.shop(one, external=free_port)
    process = await town.process()
    await town.router.stop()
    os.kill(process, signal.SIGKILL)
    with _taken(free_port):
        await town.new_server()
        assert (await town.ask(request())).body == b"one"
        assert "shop" not in await town.router.services()
    await town.router.reserve("shop", [Listen(free_port)])
    await town.shop(one, external=free_port)
    async with calling(free_port) as caller:
        assert (await caller.ask(request())).body == b"one"


async def test_a_taken_service_port_is_reopened_when_it_is_free_also_by_a_server_that_did_not_reserve_it(
    town: GatewayTown, free_port: int, monkeypatch, caplog
):
    monkeypatch.setattr(link, "_RESEND_SECONDS", 0.05)
    one = await town.instance("one")
    await town.router.reserve("shop", [Listen(free_port)])
    await town.new_server()
    await town.shop(one, external=free_port)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        os.kill(await town.process(), signal.SIGSTOP)
        for process in processes_of(town.folder):
            os.kill(process, signal.SIGKILL)
        await until(lambda: _is_bound(taken, free_port))
        await until(lambda: "services are not reached" in caplog.text)
    reasons = [str(vars(record)["reason"]) for record in caplog.records if "reason" in vars(record)]
    assert f"port {free_port}" in reasons[-1]
    assert "reserved" not in reasons[-1]
    await until(lambda: "services are reached again" in caplog.text)
    async with calling(free_port) as caller:
        assert (await caller.ask(request())).body == b"one"


async def test_the_reason_why_services_are_unreachable_is_logged_once(
    town: GatewayTown, free_port: int, monkeypatch, caplog
):
    monkeypatch.setattr(link, "_RESEND_SECONDS", 0.01)
    await town.router.reserve("base", [Listen(free_port)])
    (town.folder / JOURNAL).write_bytes(b"")
    tries = []
    greet = town.router._restore_door  # type: ignore[attr-defined]

    async def count(ask: AskGateway) -> None:
        tries.append(ask)
        await greet(ask)

    town.link.forget_greeting(greet)
    town.link.greet_with(count)
    os.kill(await town.process(), signal.SIGKILL)
    with _taken(free_port):
        await until(lambda: len(tries) > 3)
    town.link.forget_greeting(count)
    town.link.greet_with(greet)
    assert caplog.text.count("services are not reached") == 1


async def test_a_port_number_out_of_range_is_refused(town: GatewayTown):
    for port in (70_000, -1):
        with pytest.raises(RouteError):
            await town.router.reserve("shop", [Listen(port)])


async def test_a_taken_port_of_one_service_does_not_make_other_services_unreachable(
    town: GatewayTown, free_port: int
):
    await town.router.reserve("base", [Listen(free_port)])
    await town.router.set("shop", [route([(await town.instance("one")).endpoint])])
    (town.folder / JOURNAL).write_bytes(b"")
    os.kill(await town.process(), signal.SIGKILL)
    with _taken(free_port):
        await until(lambda: not town.link._is_ready.is_set())
        await town.process()
        assert (await town.ask(request())).body == b"one"


@contextmanager
def _taken(port: int) -> Iterator[None]:
    """Binds a port as soon as the gateway that had it has ended."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while not _is_bound(taken, port):
            time.sleep(0.001)
        yield


async def test_a_gateway_whose_folder_was_away_for_a_moment_is_started_again(town: GatewayTown):
    await town.shop(await town.instance("one"))
    process = await town.process()
    away = town.folder.with_name("away")
    town.folder.rename(away)
    os.kill(process, signal.SIGKILL)
    await until(lambda: not town.link._is_ready.is_set())
    await asyncio.sleep(0.1)  # It was tried meanwhile: without its folder it cannot be started.
    away.rename(town.folder)
    await town.process()
    assert (await town.ask(request())).body == b"one"


async def test_a_call_on_a_closed_gateway_connection_is_repeated_on_a_new_one(town: GatewayTown):
    process = await town.process()
    assert town.link._writer
    town.link._writer.transport.abort()
    assert await town.process() == process
