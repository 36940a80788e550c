"""Floods of frames that cost a client of HTTP/2 nothing. As a control, each goes on without its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.gateway.routers.http2_caller import (
    ACK,
    CALM,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Http2Caller,
    caller_of,
    frame,
    head_of,
    make_http2_town,
)
from tests.gateway.routers.town import Heard, Town, reply, until
from windlass.routers.builtin.http2_limits import Http2Limits

FREE = 10**9
TIMES = 3000
RESETS = {"resets": FREE}
CONTROL = {"control_frames": FREE}


async def hang(heard: Heard) -> None:
    await heard.reader.read()
    raise ConnectionError


async def reset_rapidly(caller: Http2Caller) -> int:
    """CVE-2023-44487."""
    for stream in range(1, 2 * TIMES, 2):
        await caller.send(caller.head(stream, head_of()))
        await caller.reset(stream)
    return 2 * TIMES + 1


def provoke_resets(fault: Callable[[int], bytes], *, ends: bool) -> Callable[[Http2Caller], Awaitable[int]]:
    """CVE-2025-8671: the client makes the server reset the streams."""

    async def attack(caller: Http2Caller) -> int:
        for stream in range(1, 2 * TIMES, 2):
            await caller.send(caller.head(stream, head_of("/", "POST"), ends=ends) + fault(stream))
        return 2 * TIMES + 1

    return attack


async def send_malformed_heads(caller: Http2Caller) -> int:
    for stream in range(1, 2 * TIMES, 2):
        await caller.send(caller.head(stream, head_of("no path")))
    return 2 * TIMES + 1


def repeat(data: bytes) -> Callable[[Http2Caller], Awaitable[int]]:
    async def attack(caller: Http2Caller) -> int:
        for _ in range(TIMES // 100):
            await caller.send(data * 100)
        return 1

    return attack


async def send_empty_data(caller: Http2Caller) -> int:
    await caller.send(caller.head(1, head_of("/", "POST"), ends=False))
    for _ in range(TIMES // 100):
        await caller.send(frame(DATA, 0, 1) * 100)
    await caller.reset(1)
    return 3


async def continue_with_nothing(caller: Http2Caller) -> int:
    whole = caller.block(head_of())
    await caller.send(frame(HEADERS, END_STREAM, 1, whole))
    for _ in range(TIMES // 100):
        await caller.send(frame(CONTINUATION, 0, 1) * 100)
    await caller.send(frame(CONTINUATION, END_HEADERS, 1))
    return 3


async def cost_much(caller: Http2Caller) -> int:
    """One frame may have thousands of entries."""
    for _ in range(TIMES // 100):
        await caller.send(frame(SETTINGS, content=bytes((0, 99, 0, 0, 0, 0)) * 2000))
    return 1


def send_after_reset(data: Callable[[Http2Caller], bytes]) -> Callable[[Http2Caller], Awaitable[int]]:
    """Frames for a stream that the server has reset may be on their way. They are read and ignored."""

    async def attack(caller: Http2Caller) -> int:
        await caller.send(caller.head(1, head_of("/", "POST"), ends=False))
        await caller.grant(1, 0)
        await caller.said(1)
        for _ in range(TIMES):
            await caller.send(data(caller))
        return 3

    return attack


FLOODS: dict[str, tuple[Callable[[Http2Caller], Awaitable[int]], dict[str, Any]]] = {
    "rapid reset": (reset_rapidly, RESETS),
    "resets by empty window updates": (
        provoke_resets(lambda stream: frame(WINDOW_UPDATE, 0, stream, bytes(4)), ends=False),
        RESETS | CONTROL,
    ),
    "resets by windows that are too large": (
        provoke_resets(lambda stream: frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff"), ends=False),
        RESETS | CONTROL,
    ),
    "resets by DATA after the end": (
        provoke_resets(lambda stream: frame(DATA, 0, stream, b"x"), ends=True),
        RESETS,
    ),
    "resets by a wrong size of PRIORITY": (
        provoke_resets(lambda stream: frame(PRIORITY, 0, stream, b"x"), ends=False),
        RESETS | CONTROL,
    ),
    "malformed heads": (send_malformed_heads, RESETS),
    "SETTINGS": (repeat(frame(SETTINGS)), CONTROL),
    "acknowledgements of SETTINGS": (repeat(frame(SETTINGS, ACK)), CONTROL),
    "entries of SETTINGS": (cost_much, CONTROL),
    "PING": (repeat(frame(PING, content=bytes(8))), CONTROL),
    "answers to PING": (repeat(frame(PING, ACK, content=bytes(8))), CONTROL),
    "priority churn": (repeat(frame(PRIORITY, 0, 1, b"\0\0\0\x03\x10")), CONTROL),
    "unknown frames": (repeat(frame(0x77, 0, 1, b"x")), CONTROL),
    "window updates": (repeat(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")), CONTROL),
    "empty DATA": (send_empty_data, CONTROL),
    "empty CONTINUATION": (continue_with_nothing, CONTROL),
    "heads after a reset": (send_after_reset(lambda caller: caller.head(1, head_of())), CONTROL),
    "empty DATA after a reset": (send_after_reset(lambda caller: frame(DATA, END_STREAM, 1)), CONTROL),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_ends_its_connection(name: str) -> None:
    attack, _ = FLOODS[name]
    async with make_http2_town() as town:
        shop = await town.instance(answer=hang)
        await town.shop(shop)
        async with caller_of(town) as caller:
            await attack(caller)
            assert await caller.end() == CALM
        assert len(shop.heard) <= 250, "the instance hears of a few requests only"
        await is_served(town)


@pytest.mark.parametrize("name", FLOODS)
async def test_without_its_limit_a_flood_goes_on(name: str) -> None:
    """The control of the test above."""
    attack, lifted = FLOODS[name]
    async with make_http2_town(Http2Limits(**lifted)) as town:
        await town.shop(await town.instance())
        async with caller_of(town) as caller:
            next_stream = await attack(caller)
            await caller.send(frame(PING, content=b"are you?"))
            await caller.until(lambda: b"are you?" in caller.pings)
            assert (await caller.ask(next_stream)).status == 200


async def is_served(town: Town) -> None:
    await town.shop(await town.instance())
    async with caller_of(town) as caller:
        assert (await caller.ask(1)).status == 200


@pytest.mark.parametrize("limits", [Http2Limits(), Http2Limits(**CONTROL)])
async def test_windows_that_grow_byte_by_byte_end_the_connection(limits: Http2Limits) -> None:
    """Each of them would permit further ones, because DATA follows. The second is the control."""
    async with make_http2_town(limits) as town:

        async def much(heard: Heard) -> None:
            heard.out.write(reply(b"x" * 1_000_000))

        await town.shop(await town.instance(answer=much))
        async with caller_of(town, takes=False) as caller:
            await caller.send(caller.head(1, head_of()))
            await caller.grant(1, 1_000_000)
            await caller.until(lambda: len(caller.so_far(1).body) == 65_535)
            for _ in range(TIMES):
                await caller.grant(0, 1)
            if limits.control_frames != FREE:
                assert await caller.end() == CALM
            else:
                await caller.until(lambda: len(caller.so_far(1).body) == 65_535 + TIMES)


async def test_clients_with_small_windows_get_large_answers() -> None:
    async with make_http2_town() as town:

        async def much(heard: Heard) -> None:
            heard.out.write(reply(b"x" * 1_000_000))

        await town.shop(await town.instance(answer=much))
        async with caller_of(town, settings={4: 500}) as caller:
            assert len((await caller.ask(1)).body) == 1_000_000


async def test_goaways_are_no_way_to_go_on() -> None:
    async with make_http2_town() as town, caller_of(town) as caller:
        await caller.send(frame(GOAWAY, content=bytes(8)) * TIMES)
        await caller.end()
        await is_served(town)


async def test_browsers_may_cancel_streams_as_often_as_they_get_answers() -> None:
    async with make_http2_town() as town:

        async def answer(heard: Heard) -> None:
            await (hang(heard) if heard.target == "/hang" else shop.say_name(heard))

        shop = await town.instance(answer=answer)
        await town.shop(shop)
        async with caller_of(town) as caller:
            for stream in range(1, 1200, 4):
                await caller.send(caller.head(stream, head_of("/hang")))
                await caller.reset(stream)
                assert (await caller.ask(stream + 2)).status == 200


# Streams


async def test_more_streams_than_permitted_are_refused() -> None:
    async with make_http2_town(Http2Limits(streams=10)) as town:
        shop = await town.instance(answer=hang)
        await town.shop(shop)
        async with caller_of(town) as caller:
            heads = [caller.head(stream, head_of()) for stream in range(1, 41, 2)]
            await caller.send(b"".join(heads))
            for stream in range(21, 41, 2):
                assert (await caller.said(stream)).reset == REFUSED_STREAM
            await until(lambda: len(shop.heard) == 10)
            await caller.reset(1)
            await caller.send(caller.head(41, head_of()))
            await until(lambda: len(shop.heard) == 11)


async def test_refused_streams_are_no_way_to_go_on() -> None:
    for limits, is_ended in ((Http2Limits(streams=1), True), (Http2Limits(streams=1, **RESETS), False)):
        async with make_http2_town(limits) as town:
            await town.shop(await town.instance(answer=hang))
            async with caller_of(town) as caller:
                for stream in range(1, 800, 2):
                    await caller.send(caller.head(stream, head_of()))
                if is_ended:
                    assert await caller.end() == CALM
                else:
                    assert (await caller.said(799)).reset == REFUSED_STREAM


# Header blocks


@pytest.mark.parametrize("head_bytes", [64 * 1024, FREE])
async def test_a_header_block_without_an_end_is_bounded(head_bytes: int) -> None:
    """The second is the control."""
    async with make_http2_town(head_bytes=head_bytes) as town, caller_of(town) as caller:
        await caller.send(frame(HEADERS, END_STREAM, 1, caller.block(head_of())))
        for _ in range(40):
            await caller.send(frame(CONTINUATION, 0, 1, b"\0\x01a\x7f\xad\x7e" + b"x" * 16_300))
        if head_bytes != FREE:
            assert await caller.end() == CALM
        else:
            await caller.send(frame(CONTINUATION, END_HEADERS, 1))
            assert (await caller.said(1)).status in {404, 431}


@pytest.mark.parametrize("head_bytes", [64 * 1024, FREE])
async def test_a_small_block_cannot_become_a_large_head(head_bytes: int) -> None:
    """An HPACK bomb: 5,000 bytes name an entry of 4,000 bytes 1,000 times. The second is the control."""
    async with make_http2_town(head_bytes=head_bytes, fields=FREE) as town, caller_of(town) as caller:
        head = caller.block(head_of())
        entry = b"\x40\x01a" + b"\x7f\xa1\x1e" + b"x" * 4000
        await caller.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head + entry + b"\xbe" * 1000))
        if head_bytes != FREE:
            assert await caller.end() == CALM
        else:
            assert (await caller.said(1)).status == 404


async def test_answers_need_no_table_however_large_a_client_wants_it() -> None:
    async with make_http2_town() as town:

        async def answer(heard: Heard) -> None:
            heard.out.write(reply(b"", "200 OK", f"X-{heard.target[1:]}: {heard.target * 100}"))

        await town.shop(await town.instance(answer=answer))
        async with caller_of(town, settings={1: 2**32 - 1}) as caller:
            for stream in range(1, 100, 2):
                assert (await caller.ask(stream, head_of(f"/{stream}"))).status == 200
            (connection,) = (
                member for member in town.router._shared.connections.members if hasattr(member, "_decoder")
            )
            assert not hasattr(connection, "_encoder")


# Windows


async def test_windows_beyond_their_limit_are_refused() -> None:
    async with make_http2_town() as town:
        await town.shop(await town.instance(answer=hang))
        async with caller_of(town) as caller:
            await caller.grant(0, 2**31 - 1)
            assert await caller.end() == FLOW_CONTROL_ERROR
        async with caller_of(town) as caller:
            await caller.send(caller.head(1, head_of()))
            await caller.grant(1, 2**31 - 1)
            assert (await caller.said(1)).reset == FLOW_CONTROL_ERROR
            await caller.send(caller.head(3, head_of()))
            await caller.grant(3, 2**31 - 1 - 65_535)
            await caller.send(frame(SETTINGS, content=b"\0\x04\x7f\xff\xff\xff"))
            assert await caller.end() == FLOW_CONTROL_ERROR
        async with caller_of(town) as caller:
            await caller.grant(0, 0)
            assert await caller.end() == PROTOCOL_ERROR


async def test_bodies_beyond_their_windows_are_refused() -> None:
    async with make_http2_town() as town:
        await town.shop(await town.instance(answer=hang, reads_bodies=False))
        async with caller_of(town) as caller:
            await caller.send(caller.head(1, head_of("/", "POST"), ends=False))
            for _ in range(600):
                await caller.send(frame(DATA, 0, 1, b"x" * 16_384))
            await caller.until(lambda: caller.so_far(1).reset is not None or caller.goaways)
            assert FLOW_CONTROL_ERROR in {caller.so_far(1).reset, *(code for _, code in caller.goaways)}


async def test_clients_that_take_nothing_use_bounded_memory() -> None:
    """With a window of zero, answers pile up. Those that wait longest are given up."""
    async with make_http2_town(unsent_bytes=2_000_000) as town:

        async def much(heard: Heard) -> None:
            heard.out.write(reply(b"x" * 1_000_000))

        await town.shop(await town.instance(answer=much))
        async with caller_of(town, settings={4: 0}) as caller:
            await caller.send(b"".join(caller.head(stream, head_of()) for stream in range(1, 81, 2)))
            await caller.until(lambda: any(caller.is_done(stream) for stream in range(1, 81, 2)))
            connections = town.router._shared.connections
            assert sum(connections._unsent.values()) <= 2_000_000
            await is_served(town)


async def test_small_answers_that_nobody_takes_are_given_up_too() -> None:
    """None of them is so large that its instance has to wait. One connection has a hundred of them."""
    async with make_http2_town(unsent_bytes=1_000_000, stall_seconds=3600) as town:

        async def some(heard: Heard) -> None:
            heard.out.write(reply(b"x" * 60_000))

        await town.shop(await town.instance(answer=some))
        async with caller_of(town, settings={4: 0}) as caller:
            await caller.send(b"".join(caller.head(stream, head_of()) for stream in range(1, 81, 2)))
            await caller.until(lambda: sum(caller.is_done(stream) for stream in range(1, 81, 2)) >= 24)
            members: list[Any] = [*town.router._shared.connections.members]
            (connection,) = (member for member in members if hasattr(member, "_streams"))
            unsent = [len(stream._unsent) for stream in connection._streams.values()]
            assert sum(unsent) == sum(town.router._shared.connections._unsent.values()) <= 1_000_000
            await is_served(town)


async def test_a_client_that_reads_nothing_is_not_read_either() -> None:
    """Its answers to PING would pile up, even if it may send any number."""
    async with make_http2_town(Http2Limits(**CONTROL)) as town, caller_of(town) as caller:
        caller._reading.cancel()
        caller.out.transport.pause_reading()  # type: ignore[attr-defined]
        members = town.router._shared.connections.members
        await until(lambda: members)
        (connection,) = members
        sent = asyncio.ensure_future(caller.send(frame(PING, content=bytes(8)) * 2_000_000))
        await until(lambda: connection.is_blocked)  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)
        assert connection.transport.get_write_buffer_size() < 500_000  # type: ignore[attr-defined]
        assert len(connection._received._data) < 500_000, "of 34 megabytes"  # type: ignore[attr-defined]
        sent.cancel()


async def test_heads_of_answers_count_too_if_a_client_reads_nothing() -> None:
    """They have no windows. The client leaves so much of an answer unread that the connection is full."""
    async with make_http2_town(stall_seconds=3600) as town:
        is_full = asyncio.Event()

        async def answer(heard: Heard) -> None:
            if heard.target == "/much":
                heard.out.write(reply(b"x" * 50_000_000))
            else:
                await is_full.wait()
                heard.out.write(reply(b"", "200 OK", "X-Long: " + "x" * 60_000))

        shop = await town.instance(answer=answer)
        await town.shop(shop)
        async with caller_of(town, settings={4: 2**31 - 1}) as caller:
            caller._reading.cancel()
            caller.out.transport.pause_reading()  # type: ignore[attr-defined]
            await caller.grant(0, 2**30)
            await caller.send(b"".join(caller.head(stream, head_of()) for stream in range(1, 101, 2)))
            await until(lambda: len(shop.heard) == 50)
            await caller.send(caller.head(101, head_of("/much")))
            connections = town.router._shared.connections
            members: list[Any] = [*connections.members]
            (connection,) = (member for member in members if hasattr(member, "_streams"))
            await until(lambda: connection.is_blocked)
            is_full.set()
            await until(lambda: len(connection._streams) == 1)
            unsent = connection.transport.get_write_buffer_size()
            assert unsent > 3_000_000
            assert connections._unsent[connection] == unsent


async def test_others_are_served_while_a_client_floods() -> None:
    async with make_http2_town(Http2Limits(**CONTROL)) as town:
        await town.shop(await town.instance())
        async with caller_of(town) as flooding, caller_of(town) as other:
            assert (await other.ask(1)).status == 200
            flood = asyncio.ensure_future(flooding.send(frame(PRIORITY, 0, 1, b"\0\0\0\x03\x10") * 500_000))
            members: list[Any] = list(town.router._shared.connections.members)
            await until(lambda: any(member._is_continuing for member in members))
            assert (await other.ask(3)).status == 200
            assert any(member._is_continuing for member in members), "the flood has still to be read"
            flood.cancel()
