"""To compress the answers of one service delays requests to other services by little."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.routers.test_compression import GZIP, PACKED
from tests.gateway.routers.town import SHOP, Heard, Town, reply, request, until
from windlass.base.http_in.bounds import Bounds
from windlass.routers.builtin.client_socket import GatewaySocket
from windlass.routers.builtin.compression import (
    MAX_BYTES_AT_ONCE,
    AnswerCompression,
    CompressedBody,
    Compressors,
)

CLIENTS = 20
TEXT = b"a line of text that repeats\n" * 1000


async def stream(heard: Heard) -> None:
    """Never ends."""
    heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        heard.out.write(b"%x\r\n%b\r\n" % (len(TEXT), TEXT))
        await heard.out.drain()
        await asyncio.sleep(0)


async def pieces_in_one_turn(town: Town, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns the most pieces that were compressed between two looks of another task."""
    packed, most = 0, 0
    pack = CompressedBody.pack

    def count(self: CompressedBody, data: bytes) -> bytes:
        nonlocal packed
        packed += 1
        return pack(self, data)

    await town.shop(await town.instance(answer=stream), rules=PACKED)
    for _ in range(CLIENTS):
        await (await town.caller()).send(request("/", "GET", SHOP, GZIP))
    await until(lambda: town.router._shared.compressors.count == CLIENTS)
    monkeypatch.setattr(CompressedBody, "pack", count)
    for _ in range(300):
        packed = 0
        await asyncio.sleep(0)
        most = max(most, packed)
    return most


async def test_clients_take_turns_with_the_pieces_of_their_answers(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < await pieces_in_one_turn(town, monkeypatch) <= CLIENTS // 4


async def test_without_turns_pieces_of_all_clients_are_compressed_at_once(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the test above would show nothing."""
    monkeypatch.setattr(GatewaySocket, "yield_turn", lambda self: None)
    assert await pieces_in_one_turn(town, monkeypatch) > CLIENTS // 4


def compression_of(compressors: Compressors) -> AnswerCompression:
    def nothing(*_: object) -> None:
        pass

    return AnswerCompression(Bounds(), compressors, nothing, nothing, is_wanted=True)


async def test_answers_that_arrive_whole_are_compressed_up_to_a_size_in_one_turn() -> None:
    compressors = Compressors()
    answer = reply(b"x" * (MAX_BYTES_AT_ONCE // 2), "200 OK", "Content-Type: text/plain")

    def compress() -> bytes:
        return compression_of(compressors).packed(answer, None)

    assert [b"Content-Encoding: gzip" in compress() for _ in range(4)] == [True, True, False, False]
    whole = compress()
    assert whole.endswith(answer.partition(b"\r\n\r\n")[2])
    assert b"\r\nVary: Accept-Encoding\r\n" in whole
    for _ in range(3):
        await asyncio.sleep(0)
    assert b"Content-Encoding: gzip" in compress()
