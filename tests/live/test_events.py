"""Events of an organization, followed through a socket while they happen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from typing import Any

import pytest

from tests.logs.streams import Client, Event, asked, settled
from tests.schemathesis.serving import served
from tests.world import ADMIN, World
from windlass.base.clock import DAY
from windlass.control.context.shared_readers import SharedReaders


def path(world: World, query: str = "", org: str = "") -> str:
    return f"/organization/{org or world.org}/events/stream{query}"


def readers(world: World) -> SharedReaders:
    return world.installation.ctx.readers


async def listed(world: World) -> list[Any]:
    """All events, the oldest first."""
    answer = await world.get(f"/organization/{world.org}/events?pageSize=1000")
    assert answer.status == 200, answer
    return list(answer["events"][::-1])


async def happen(world: World, times: int) -> list[str]:
    return [await world.project() for _ in range(times)]


def subjects(events: list[Event]) -> list[str]:
    return [event.data["target_id"] for event in events]


async def ended(world: World, last: str | None = None, **options: Any) -> bytes:
    """A stream that ends with what is there."""
    headers = {"last-event-id": last} if last is not None else {}
    answer = await world.get(path(world, "?follow=false"), headers=headers, **options)
    assert answer.status == 200
    return answer.body


async def forget(world: World, before: int) -> None:
    """Lets the events from before go, as their age would."""
    await world.installation.ctx.store.write(lambda tx: tx.events.delete_older(before, 1000))


async def test_an_event_stream_begins_with_new_events_in_the_form_of_the_list(world: World, address: str):
    await happen(world, 2)
    async with asked(address, path(world)) as client:
        assert (client.status, client.headers["content-type"]) == (200, "text/event-stream")
        app = await world.application()
        await world.post(f"/application/{app}/deploy")
        events = await client.events(4)
    assert [event.data for event in events] == (await listed(world))[-4:]
    assert [event.data["event_type"] for event in events] == [*["CREATE"] * 3, "DEPLOY_QUEUED"]
    assert all(event.id == str(event.data["number"]) and event.kind == "" for event in events)


async def test_a_stream_uses_the_vocabulary_of_its_base_path(world: World, address: str):
    app = await world.application()
    async with asked(address, path(world)) as plain, asked(address, "/compat" + path(world)) as full:
        await world.post(f"/application/{app}/deploy")
        await world.settle()
        said = [event.data["event_type"] for event in await plain.events(3)]
        assert said == ["DEPLOY_QUEUED", "DEPLOYMENT_STARTED", "DEPLOYED"]
        said = [event.data["event_type"] for event in await full.events(3)]
        assert said == ["DEPLOY_QUEUED", "TRIGGER_DEPLOY", "DEPLOYED"]


async def test_nothing_is_lost_between_a_page_of_the_list_and_the_stream(world: World, address: str):
    await happen(world, 3)
    seen = await listed(world)
    missed = await happen(world, 3)
    async with asked(address, path(world), last_event_id=str(seen[-1]["number"])) as client:
        coming = await happen(world, 3)
        assert subjects(await client.events(6)) == missed + coming


async def test_a_client_disconnected_before_the_first_event_resumes_at_its_position(
    world: World, address: str
):
    async with asked(address, path(world)) as client:
        await settled(lambda: len(readers(world)) == 1)
        assert await client.mark()
    made = await happen(world, 2)
    async with asked(address, path(world), last_event_id=client.place) as client:
        assert subjects(await client.events(2)) == made


@pytest.mark.parametrize("seed", range(3))
async def test_with_reconnects_at_any_byte_every_event_is_delivered_once_and_in_order(
    world: World, address: str, seed: int
):
    dice, seen, made = random.Random(seed), list[tuple[str, str]](), list[str]()
    last = str((await listed(world))[-1]["number"])
    for _ in range(25):
        made += await happen(world, 2)
        making = asyncio.create_task(happen(world, 1))
        async with asked(address, path(world), last_event_id=last) as client:
            seen += whole_events(await client.raw(dice.randrange(1, 2000)))
        made += await making
        last = seen[-1][0] if seen else last
    seen += whole_events(await ended(world, last))
    assert [subject for _, subject in seen] == made


def whole_events(text: bytes) -> list[tuple[str, str]]:
    """Returns the events that arrived before the stream broke off: the id and the subject of each."""
    found = re.findall(rb"id: ([0-9]+)\ndata: (\{.*\})\n\n", text)
    return [(id.decode(), json.loads(data)["target_id"]) for id, data in found]


async def test_all_clients_of_an_event_stream_share_one_reader_that_ends_with_the_last_client(
    world: World, address: str
):
    assert len(readers(world)) == 0
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(asked(address, path(world))) for _ in range(20)]
        await settled(lambda: len(readers(world)) == 1)
        made = await happen(world, 3)
        for client in clients:
            assert subjects(await client.events(3)) == made
    await settled(lambda: len(readers(world)) == 0)


async def test_an_event_stream_with_follow_false_ends_after_the_existing_events(world: World):
    made = await happen(world, 3)
    body = (await ended(world, "0")).decode()
    assert [id for id in made if f'"target_id":"{id}"' in body] == made
    assert body.endswith('event: end\ndata: {"message":"Nothing more comes"}\n\n')
    newest = (await listed(world))[-1]["number"]
    assert (await ended(world)).startswith(f"id: {newest}\n\n".encode())
    assert b"target_id" not in await ended(world)
    assert len(readers(world)) == 0


# The past that is gone


async def test_a_client_resuming_before_the_oldest_kept_event_gets_a_gone_notice(world: World, address: str):
    await happen(world, 3)
    last = (await listed(world))[0]["number"]
    world.clock.turn(DAY / 1000)
    made = await happen(world, 3)
    assert b"event: gone" not in await ended(world, str(last))  # the control
    await forget(world, world.clock.now())
    async with asked(address, path(world), last_event_id=str(last)) as client:
        gone, *rest = await client.events(4)
        assert gone.kind == "gone"
        assert "no longer be kept" in gone.data["message"]
        assert subjects(rest) == made
        assert (
            subjects(await _next(world, client)) == [event["target_id"] for event in await listed(world)][-1:]
        )


async def _next(world: World, client: Client) -> list[Event]:
    await world.project()
    return await client.events(1)


async def test_a_client_resuming_exactly_after_the_last_deleted_event_gets_no_gone_notice(world: World):
    await happen(world, 3)
    last = (await listed(world))[-1]["number"]
    world.clock.turn(DAY / 1000)
    await happen(world, 1)
    await forget(world, world.clock.now())
    assert b"event: gone" not in await ended(world, str(last))
    assert b"event: gone" in await ended(world, str(last - 1))


@pytest.mark.parametrize("id", ["never", "-1", "1e3", "9" * 18, "9" * 30, " ", "0x1", "1.0", "²"])
async def test_an_invalid_last_event_id_gets_a_gone_notice(world: World, id: str):
    made = await happen(world, 1)
    body = await ended(world, id)
    assert body.count(b"event: gone") == 1
    assert made[0].encode() in body


async def test_a_client_that_does_not_read_uses_no_server_memory_and_misses_no_event(
    world: World, address: str
):
    """The client finds the missed events in the database: no copy is kept in memory."""
    reading, said = asyncio.Event(), list[bytes]()
    async with asked(address, path(world)) as other:
        await settled(lambda: len(readers(world)) == 1)
        sleeper = asyncio.create_task(slowly_read(world, reading, said))
        made = list[str]()
        for _ in range(4):
            made += await asyncio.gather(*(world.project() for _ in range(100)))
            assert set(subjects(await other.events(100))) == set(made[-100:])
        (shared,) = readers(world)._shared.values()
        assert len(shared.reader._recent) < len(made)  # type: ignore[attr-defined]
        assert b"target_id" not in b"".join(said)
        reading.set()
        await settled(lambda: b"".join(said).count(b"data: ") == len(made))
        numbers = [int(id) for id, _ in whole_events(b"".join(said))]
        assert numbers == sorted(set(numbers))
        assert {subject for _, subject in whole_events(b"".join(said))} == set(made)
        world.installation.app.stop_streams()
        await sleeper


async def slowly_read(world: World, reading: asyncio.Event, said: list[bytes]) -> None:
    """The server as a client sees it who takes the head, and nothing more for a while."""
    head = {"type": "http", "method": "GET", "query_string": b"", "client": ("203.0.113.7", 50_000)}
    headers = [(b"authorization", f"Token {ADMIN}".encode())]

    async def send(message: Any) -> None:
        if message.get("body"):
            said.append(message["body"])
            await reading.wait()

    async def receive() -> Any:
        return await asyncio.Event().wait()

    await world.installation.app({**head, "path": path(world), "headers": headers}, receive, send)


async def test_the_position_of_an_idle_stream_is_advanced_past_deleted_events(world: World, address: str):
    """Events of other organizations are deleted with those of this one, whose stream had merely no events."""
    foreign, token = await world.organization()
    async with asked(address, path(world)) as client:
        await settled(lambda: len(readers(world)) == 1)
        await client.mark()
        world.clock.turn(3 * DAY / 1000)
        elsewhere = f"/organization/{foreign}/project"
        for _ in range(3):
            await world.made(elsewhere, {"name": world.name("p")}, token=token)
        (shared,) = readers(world)._shared.values()
        shared.reader._called.set()  # it looks by itself once a minute
        await client.mark()
    await forget(world, world.clock.now())
    assert b"event: gone" not in await ended(world, client.place)


# Who may


async def test_events_of_another_organization_cannot_be_followed(world: World):
    foreign, stranger = await world.organization()
    never = "00000000-0000-4000-8000-000000000000"
    for org, token, status in (
        (world.org, stranger, 404),
        (foreign, world.token, 404),
        (never, world.token, 404),
        (world.org, None, 401),
    ):
        assert (await world.get(path(world, org=org), token=token)).status == status


async def test_a_limited_token_receives_only_events_of_resources_inside_its_limits(
    world: World, address: str
):
    project, other = await happen(world, 2)
    here, there = await world.environment(project), await world.environment(other)
    token = await world.new_token("Read", limited_to=[project])
    service = await world.application(here)
    of_service = await world.new_token("Read", limited_to=[service])
    async with (
        asked(address, path(world), token=token) as client,
        asked(address, path(world), token=of_service) as narrow,
    ):
        await world.application(there)
        app = await world.application(here)
        await happen(world, 1)
        await world.post(f"/application/{service}/environmentVariable", {"key": "A", "value": "1"})
        await world.delete(f"/application/{service}")
        await world.delete(f"/project/{other}")
        await world.delete(f"/project/{project}")
        kinds = [(event.data["event_type"], event.data["target_id"]) for event in await client.events(4)]
        assert kinds == [("CREATE", app), ("CREATE", service), ("DELETE", service), ("DELETE", project)]
        kinds = [(event.data["event_type"], event.data["target_id"]) for event in await narrow.events(2)]
        assert kinds == [("CREATE", service), ("DELETE", service)]


async def test_event_streams_contain_no_hidden_fields(world: World, address: str):
    env = await world.environment()
    async with asked(address, path(world)) as client:
        await world.made(f"/environment/{env}/secret", {"key": "PASSWORD", "value": "canary-7f3a"})
        (event,) = await client.events(1)
    assert event.data["sub_target_type"] == "SECRET"
    assert "canary" not in str(event)


async def test_an_event_stream_ends_when_its_token_is_revoked(world: World, address: str):
    token = await world.new_token("Read")
    made = (await world.get(f"/organization/{world.org}/apiToken"))["results"][-1]["id"]
    async with asked(address, path(world), token=token) as client, asked(address, path(world)) as other:
        before = await happen(world, 1)
        assert subjects(await client.events(1)) == subjects(await other.events(1)) == before
        await world.delete(f"/organization/{world.org}/apiToken/{made}")
        assert [event.kind for event in await client.rest()] == ["refused"]
        assert client.ended
        after = await happen(world, 1)
        assert subjects(await other.events(2))[1:] == after


# Ends


async def test_all_streams_end_cleanly_when_the_server_stops(world: World):
    app = await world.application()
    env = (await world.get(f"/application/{app}"))["environment"]["id"]
    paths = [path(world), f"/environment/{env}/status/stream", f"/application/{app}/log?follow=true"]
    async with contextlib.AsyncExitStack() as stack:
        async with served(world) as address:
            clients = [await stack.enter_async_context(asked(address, one)) for one in paths * 5]
            await settled(lambda: len(readers(world)) == 2)
        for client in clients:
            assert all(event.kind == "" for event in await client.rest())
            assert client.ended
    await settled(lambda: len(readers(world)) == 0)


async def test_a_disconnected_reader_is_forgotten(world: World, address: str):
    async with asked(address, path(world)) as client:
        await settled(lambda: len(readers(world)) == 1)
        client.hang_up()
        await settled(lambda: len(readers(world)) == 0)


async def test_a_head_request_for_a_stream_gets_no_stream(world: World, address: str):
    async with asked(address, path(world), "HEAD", connection="close") as client:
        assert (client.status, client.headers["content-type"]) == (200, "text/event-stream")
        assert await client.rest_of_body() == b""
    assert len(readers(world)) == 0


# Several replicas


async def test_events_of_one_replica_reach_readers_of_the_other(replicas: tuple[World, World]):
    one, other = replicas
    async with served(other) as address, asked(address, path(other)) as client:
        made = []
        for _ in range(5):
            made += [await one.project(), await other.project(name=other.name("other"))]
        assert subjects(await client.events(10)) == made
        other.installation.app.stop_streams()


async def test_a_reader_that_moves_to_another_replica_misses_nothing(replicas: tuple[World, World]):
    one, other = replicas
    async with served(one) as here, served(other) as there:
        async with asked(here, path(one)) as client:
            first = await happen(one, 3)
            events = await client.events(2)
        missed = await happen(one, 2)
        async with asked(there, path(one), last_event_id=events[-1].id) as client:
            assert subjects(await client.events(3)) == [first[2], *missed]
        one.installation.app.stop_streams()
        other.installation.app.stop_streams()
