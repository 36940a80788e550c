"""Receivers with bad manners, and two replicas that share the work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.faults.inside import until
from tests.webhooks.receivers import Receivers, Sent
from tests.world import HandClock, World, make_world
from windlass.base.clock import SECOND
from windlass.base.http_out import HttpResult
from windlass.control.background.worker import LEASE_TIME

EVENTS = ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]
LOOPBACK = ["127.0.0.0/8"]
URL = "https://receiver.example/hook"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[str]:
    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def webhook(world: World, url: str, events: list[str]) -> str:
    body = {"target_url": url, "events": events, "enabled": True}
    return await world.made(f"/organization/{world.org}/webhook", body)


async def told(world: World, talk: Talk) -> Any:
    """Returns the outcome of one delivery to a receiver that answers in this way."""
    async with listening(talk) as url:
        id = await webhook(world, url, ["DEPLOYMENT_STARTED"])
        app = await world.application()
        await world.post(f"/application/{app}/deploy")
        await world.settle()
        (delivery,) = (await world.get(f"/organization/{world.org}/webhook/{id}/event"))["results"]
        return delivery


@pytest.fixture
async def outside():
    """A world with a real way out."""
    async with make_world(outbound_allow=LOOPBACK, out=None) as made:
        yield made


async def test_an_answer_of_a_gigabyte_acknowledges_and_is_not_read(outside: World):
    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")
        for _each in range(1024):
            writer.write(b"a" * (1 << 20))
            await writer.drain()

    delivery = await told(outside, endless)
    assert delivery["status"] == "DELIVERED"
    assert delivery["target_response_body"] == "a" * 4096


async def test_a_redirect_is_a_failure_and_is_not_followed(outside: World):
    followed = []

    async def elsewhere(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        followed.append(1)
        writer.write(b"HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\n")
        writer.write(f"location: {target}\r\n\r\n".encode())

    async def there(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        followed.append(2)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async with listening(there) as target:
        delivery = await told(outside, elsewhere)
    assert (delivery["status"], delivery["target_response_status_code"]) == ("WAITING", 307)
    assert followed == [1]


@pytest.mark.parametrize(
    "says", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort"], ids=repr
)
async def test_a_broken_http_answer_does_not_acknowledge_a_delivery(outside: World, says: bytes):
    async def broken(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)

    delivery = await told(outside, broken)
    assert (delivery["status"], delivery["target_response_status_code"]) == ("WAITING", 0)
    assert delivery["attempts"][0]["error"]
    assert delivery["target_response_body"] == delivery["attempts"][0]["error"]


async def test_an_address_that_is_not_public_is_not_called_unless_it_is_allowed():
    called = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.append(1)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async with make_world(out=None) as world:
        delivery = await told(world, take)
    assert delivery["status"] == "WAITING"
    assert "outbound_allow" in delivery["attempts"][0]["error"]
    assert not called
    async with make_world(outbound_allow=LOOPBACK, out=None) as world:
        assert (await told(world, take))["status"] == "DELIVERED"
    assert called


# Two replicas


class Slow(Receivers):
    """Answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def send(self, *given: Any, **named: Any) -> HttpResult:
        self.asked.set()
        await self.may_answer.wait()
        return await super().send(*given, **named)


async def test_two_replicas_deliver_everything_once_and_in_order(postgres_url: str):
    receivers, clock = Receivers(), HandClock()
    async with (
        make_world(postgres_url, out=receivers, clock=clock) as one,
        make_world(postgres_url, folder=one.folder, out=receivers, clock=clock) as other,
    ):
        ids = [await webhook(one, f"{URL}/{number}", EVENTS) for number in range(4)]
        apps = [await one.application() for _ in range(3)]
        for _ in range(5):
            for app in apps:
                await other.post(f"/application/{app}/deploy")
            await asyncio.gather(one.settle(), other.settle())
        await one.settle()
    assert len(ids) == len(receivers.got)
    for sent in receivers.got.values():
        assert len({each.id for each in sent}) == len(sent) == 30
        for app in apps:
            assert numbers(sent, app) == sorted(numbers(sent, app))


def numbers(sent: list[Sent], app: str) -> list[int]:
    return [each.payload["deployment_number"] for each in sent if each.payload["service_id"] == app]


async def only_delivers(world: World) -> None:
    """Waits until the deployment is over: turning the clock would take its lease as well."""

    async def deployed() -> bool:
        return world.installation.worker.running == 1

    await until(deployed)


async def test_a_replica_paused_past_its_lease_records_no_delivery_of_another(postgres_url: str):
    slow, quick, clock = Slow(), Receivers(), HandClock()
    async with (
        make_world(postgres_url, out=slow, clock=clock) as one,
        make_world(postgres_url, folder=one.folder, out=quick, clock=clock) as other,
    ):
        id = await webhook(one, URL, ["DEPLOYMENT_STARTED"])
        app = await one.application()
        await one.post(f"/application/{app}/deploy")
        settling = asyncio.create_task(one.settle())
        await slow.asked.wait()
        await only_delivers(one)
        clock.turn(LEASE_TIME / SECOND + 1)
        await other.settle()
        assert len(quick.got[URL]) == 1
        slow.answers[URL] = lambda sent: 500
        slow.may_answer.set()
        await settling
        (delivery,) = (await one.get(f"/organization/{one.org}/webhook/{id}/event"))["results"]
        assert delivery["status"] == "DELIVERED"
        assert [each["status_code"] for each in delivery["attempts"]] == [200]
        assert slow.tried[URL][0].id == quick.got[URL][0].id
