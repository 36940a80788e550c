"""One deployment, followed through a socket to its end."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tests.logs.streams import asked
from tests.world import ADMIN, World


async def begun(world: World) -> tuple[str, str]:
    """An application, and the path of its deployment, which waits."""
    app = await world.application()
    deployment = (await world.post(f"/application/{app}/deploy"))["id"]
    return app, f"/application/{app}/deployment/{deployment}"


async def test_a_deployment_stream_sends_each_status_from_queued_to_its_end(world: World, address: str):
    _, path = await begun(world)
    async with asked(address, f"{path}/stream") as client:
        assert (client.status, client.headers["content-type"]) == (200, "text/event-stream")
        [first] = await client.events(1)
        assert first.data == (await world.get(path)).json
        await world.settle()
        told = await client.events(100)
    assert client.ended
    assert told[-1].kind == "end"
    assert told[-2].data == (await world.get(path)).json
    assert (first.data["status"], told[-2].data["status"]) == ("QUEUED", "SUCCEEDED")


async def test_a_slow_reader_gets_the_last_event_too(world: World, address: str):
    _, path = await begun(world)
    received: list[bytes] = []
    goes_on = asyncio.Event()

    async def send(message: Any) -> None:
        received.append(message.get("body", b""))
        if b"QUEUED" in received[-1]:
            await goes_on.wait()

    headers = [(b"authorization", f"Token {ADMIN}".encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{path}/stream",
        "query_string": b"",
        "headers": headers,
    }
    scope["client"] = ("203.0.113.7", 50_000)
    stays: Any = asyncio.Event().wait
    reading = asyncio.ensure_future(world.installation.app(scope, stays, send))
    async with asked(address, f"{path}/stream") as other:
        await other.events(1)
        await world.settle()
        await other.events(100)  # both share what reads for them: it has seen the end
    goes_on.set()
    await reading
    assert b"SUCCEEDED" in b"".join(received)


async def test_the_stream_of_an_ended_deployment_sends_its_status_once_and_ends(world: World, address: str):
    _, path = await begun(world)
    await world.settle()
    async with asked(address, f"{path}/stream") as client:
        told = await client.events(100)
    assert [one.kind for one in told] == ["", "end"]


async def test_a_deployment_stream_sends_a_status_only_if_it_changed(world: World, address: str):
    _, path = await begun(world)
    other = await world.application()
    async with asked(address, f"{path}/stream") as client:
        await client.events(1)
        await world.patch(f"/application/{other}", {"description": "somebody else's"})
        await world.settle()
        told = await client.events(100)
    data = [one.data for one in told if one.kind == ""]
    assert all(one != following for one, following in itertools.pairwise(data))


async def test_the_stream_of_a_deployment_ends_with_its_service(world: World, address: str):
    app, path = await begun(world)
    async with asked(address, f"{path}/stream") as client:
        await client.events(1)
        await world.delete(f"/application/{app}")
        await world.settle()
        async with asyncio.timeout(20):
            told = await client.events(100)
    assert told[-1].kind == "end"


async def test_a_deployment_stream_of_another_organization_is_not_found(world: World, address: str):
    _, path = await begun(world)
    _, token = await world.organization()
    assert (await world.get(f"{path}/stream", token=token)).status == 404


@pytest.mark.parametrize("family", ["application", "database"])
async def test_the_path_must_name_the_service_of_the_deployment(world: World, family: str):
    _, path = await begun(world)
    other = await (world.application() if family == "application" else world.database())
    assert (await world.get(f"/{family}/{other}/deployment/{path.rpartition('/')[2]}/stream")).status == 404
