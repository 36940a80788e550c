"""Looks at the domains of one organization leave questions to name servers for those of another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.domains.served import add, published, read
from tests.fakes.name_server import NameServer as FakeNameServer
from tests.world import World
from windlass.base.dns import NameServer, RecordType
from windlass.base.dns.client import Records
from windlass.control.context import domain_checks
from windlass.control.services import domains

DOMAINS, ROOM, LOOKS = 8, 20, 2
PATIENCE = 20


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110 (the fakes do not notify)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("asks", ["the worker", "a request"])
@pytest.mark.parametrize("most", [LOOKS, DOMAINS])
async def test_domains_whose_name_servers_are_silent_leave_questions_for_another_organization(
    world: World, dns: FakeNameServer, monkeypatch: pytest.MonkeyPatch, most: int, asks: str
):
    """With a limit as large as the number of domains, they take all questions: the control."""
    monkeypatch.setattr(domain_checks, "MAX_LOOKS_OF_ORG", most)
    monkeypatch.setattr(domains, "CHECK_TIMEOUT", 1.0)
    ctx, room, waiting = world.installation.ctx, asyncio.Semaphore(ROOM), list[str]()
    plain = ctx.dns.ask

    async def ask(server: NameServer, name: str, type: RecordType) -> Records:
        async with room:
            if "silent" in name:
                waiting.append(name)
                await asyncio.Event().wait()
            return await plain(server, name, type)

    app = await published(world)
    for number in range(DOMAINS):
        await add(world, app, f"shop.silent-{number}.example")
    owner = str(world.token)
    world.org, world.token = await world.organization()
    other = await published(world)
    document = await add(world, other)
    dns.set(document["domain"], ("CNAME", document["validation_domain"]))
    monkeypatch.setattr(ctx.dns, "ask", ask)
    busy = [asyncio.create_task(_ask_for_checks(world, app, owner))] if asks == "a request" else []
    if asks == "the worker":
        world.clock.turn(3600)
        await world.installation.worker.start_due()
    await until(lambda: len(waiting) >= (3 * LOOKS if most == LOOKS else ROOM - DOMAINS))
    answer = asyncio.create_task(world.get(f"/application/{other}/customDomain/{document['id']}/check"))
    done, _ = await asyncio.wait([answer], timeout=PATIENCE if most == LOOKS else 0.5)
    assert bool(done) is (most == LOOKS)
    if done:
        assert (await answer)["proved_by"] == "CNAME"
    for task in [*busy, answer]:
        task.cancel()
    await asyncio.gather(*busy, answer, return_exceptions=True)
    await world.installation.worker.stop()


async def _ask_for_checks(world: World, app: str, token: str) -> Any:
    return await world.get(f"/application/{app}/checkCustomDomain", token=token)


async def test_a_check_of_all_domains_ends_although_their_name_servers_are_silent(
    world: World, dns: FakeNameServer, monkeypatch: pytest.MonkeyPatch
):
    app = await published(world)
    document = await add(world, app)

    async def ask(*_: Any) -> Records:
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(domains, "CHECK_TIMEOUT", 0.1)
        patch.setattr(world.installation.ctx.dns, "ask", ask)
        (found,) = (await world.get(f"/application/{app}/checkCustomDomain"))["results"]
    assert (found["status"], "too long" in found["error_details"]) == ("GENERIC_FAILURE", True)
    (found,) = (await world.get(f"/application/{app}/checkCustomDomain"))["results"]
    assert found["status"] == "DOMAIN_NOT_CONFIGURED", "the control"
    assert (await read(world, app, document["id"]))["state"] == "UNPROVED"
