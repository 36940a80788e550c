"""Requests whose bodies never end: one organization fills only a part of the memory for bodies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.hostile.test_lying_runs import begun, state
from tests.world import World
from windlass.api.body_memory import BodyMemory

KIB = 1024
PIECE = b" " * KIB


class SlowRequest:
    """A request whose body arrives piece by piece."""

    def __init__(self, world: World, path: str, token: str | None, address: str = "203.0.113.7") -> None:
        """`token` is the whole header if it has a blank in it."""
        self.status = 0
        self._pieces: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        headers = [(b"content-type", b"application/json")]
        if token:
            header = token if " " in token else f"Token {token}"
            headers.append((b"authorization", header.encode()))
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "client": (address, 50_000),
        }
        self.task = asyncio.create_task(world.installation.app(scope, self._pieces.get, self._note))

    async def _note(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._pieces.put_nowait({"type": "http.request", "body": piece, "more_body": True})
        for _ in range(10_000):
            if self.status or self._pieces.empty():
                break
            await asyncio.sleep(0.001)

    async def end(self, piece: bytes = b"") -> int:
        self._pieces.put_nowait({"type": "http.request", "body": piece, "more_body": False})
        await self.task
        return self.status

    async def leave(self) -> None:
        self._pieces.put_nowait({"type": "http.disconnect"})
        await self.task


@pytest.fixture
async def memory(world: World) -> AsyncIterator[BodyMemory]:
    app = world.installation.app
    memory, of_accounts = app.body_memory, app.account_body_memory
    memory.most = of_accounts.most = 32 * KIB
    yield memory
    assert memory.held == of_accounts.held == 0


@pytest.mark.parametrize("is_limited", [True, False], ids=["limited", "without the limit"])
async def test_incomplete_bodies_of_an_organization_leave_memory_to_others(
    world: World, memory: BodyMemory, is_limited: bool
):
    if not is_limited:
        memory.most = 2**40
    other, admin = await world.organization()
    mine, theirs = f"/organization/{world.org}/project", f"/organization/{other}/project"
    requests = [SlowRequest(world, mine, await world.new_token("Write")) for _ in range(10)]
    for request in requests:
        await request.send(*[PIECE] * 4)
    assert {request.status for request in requests} == ({0, 503} if is_limited else {0})
    assert memory.held == (12 if is_limited else 40) * KIB
    body = json.dumps({"name": "shop"}).encode()
    assert (await world.post(mine, {"name": "shop"})).status == 200  # it arrives at once
    neighbour = SlowRequest(world, theirs, admin)
    await neighbour.send(*[PIECE] * 4)
    assert await neighbour.end(body) == 200
    for request in requests:
        if not request.status:
            await request.leave()


async def test_incomplete_bodies_of_a_token_leave_memory_to_others_of_its_organization(
    world: World, memory: BodyMemory
):
    path = f"/organization/{world.org}/project"
    greedy = await world.new_token("Write")
    requests = [SlowRequest(world, path, greedy) for _ in range(10)]
    for request in requests:
        await request.send(*[PIECE] * 4)
    assert [request.status for request in requests] == [0] * 2 + [503] * 8
    colleague = SlowRequest(world, path, world.token)
    await colleague.send(*[PIECE] * 4)
    assert await colleague.end(json.dumps({"name": "shop"}).encode()) == 200
    for request in requests:
        if not request.status:
            await request.leave()


async def test_a_request_gives_its_memory_back_once_it_is_answered(world: World, memory: BodyMemory):
    path = f"/organization/{world.org}/project"
    for number in range(10):
        request = SlowRequest(world, path, world.token)
        await request.send(*[PIECE] * 7)
        assert await request.end(json.dumps({"name": f"p{number}"}).encode()) == 200
        assert memory.held == 0


async def test_incomplete_sign_ins_of_an_address_leave_memory_to_others(world: World, memory: BodyMemory):
    requests = [SlowRequest(world, "/account/browserSession", None) for _ in range(6)]
    for request in requests:
        await request.send(*[PIECE] * 4)
    assert {request.status for request in requests} == {0, 503}
    elsewhere = SlowRequest(world, "/account/browserSession", None, "198.51.100.9")
    await elsewhere.send(*[PIECE] * 4)
    assert elsewhere.status == 0
    for request in (*requests, elsewhere):
        if not request.status:
            await request.leave()


async def test_incomplete_sign_ins_of_many_addresses_leave_memory_to_other_requests(
    world: World, memory: BodyMemory
):
    path, address = "/account/browserSession", "203.0.113.{}"
    requests = [SlowRequest(world, path, None, address.format(number)) for number in range(1, 41)]
    for request in requests:
        await request.send(*[PIECE] * 4)
    assert world.installation.app.account_body_memory.held > 24 * KIB
    assert memory.held == 0
    signed_in = SlowRequest(world, f"/organization/{world.org}/project", world.token)
    await signed_in.send(*[PIECE] * 7)
    assert await signed_in.end(json.dumps({"name": "shop"}).encode()) == 200
    for request in requests:
        if not request.status:
            await request.leave()


async def test_incomplete_states_of_a_terraform_run_leave_memory_to_others(world: World, memory: BodyMemory):
    run = await begun(world)
    requests = [SlowRequest(world, f"/terraform-run/{run.service}/state", run.header) for _ in range(6)]
    for request in requests:
        await request.send(*[PIECE] * 4)
    assert [request.status for request in requests] == [0, 0, 503, 503, 503, 503]
    assert memory.held == 8 * KIB
    assert (await run.send("POST", "state", state({}))).status == 200
    for request in requests[:2]:
        await request.leave()
