"""A receiver that hangs, floods or lies costs a bounded time and memory."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc

import pytest

from tests.base.http_out.failures import failure
from tests.loopback import receiver
from windlass.base.http_out import MAX_BODY_BYTES, HttpSender, NoAnswer

SOON = 0.3
"""Seconds that are given to receivers that never end."""


async def hangs(reader, writer):
    await asyncio.Event().wait()


async def closes(reader, writer):
    await reader.readuntil(b"\r\n\r\n")


async def breaks_off(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    await writer.drain()


def endlessly(beginning: bytes, more: bytes, pause: float = 0):
    async def behave(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(beginning)
        while True:
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(pause)

    return behave


BIG = b"a" * 65_536


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


TOO_SLOW = "did not answer in full within 0.3 seconds"


NOT_HTTP = "something that is not HTTP"


BROKEN = {
    "hangs": (hangs, TOO_SLOW),
    "closes": (closes, "ended the connection without an answer"),
    "breaks off": (breaks_off, "broke off in the middle"),
    "byte by byte": (endlessly(b"", b"H", 0.02), NOT_HTTP),
    "headers byte by byte": (endlessly(b"HTTP/1.1 200 OK\r\nX: ", b"a", 0.02), TOO_SLOW),
    "a body byte by byte": (endlessly(b"HTTP/1.1 200 OK\r\n\r\n", b"a", 0.02), TOO_SLOW),
    "a status line without end": (endlessly(b"HTTP/1.1 200 ", BIG), NOT_HTTP),
    "a header without end": (endlessly(b"HTTP/1.1 200 OK\r\nX: ", BIG), NOT_HTTP),
    "a name without end": (endlessly(b"HTTP/1.1 200 OK\r\n", BIG), NOT_HTTP),
    "headers without end": (endlessly(b"HTTP/1.1 200 OK\r\n", b"X: a\r\n" * 1000), NOT_HTTP),
    "promises without end": (endlessly(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 10, 0.001), TOO_SLOW),
    "trailers without end": (endlessly(CHUNKED + b"2\r\nok\r\n0\r\n", b"X: a\r\n" * 1000), "127.0.0.1"),
    "a chunk's remark without end": (endlessly(CHUNKED + b"2;", BIG), "127.0.0.1"),
    "a chunk's length without end": (endlessly(CHUNKED, b"0" * 1000), "127.0.0.1"),
    "not HTTP": (endlessly(b"SSH-2.0-OpenSSH\r\n", b"\r\n", 0.02), NOT_HTTP),
    "another version": (endlessly(b"HTTP/9.9 200 OK\r\n\r\n", b"", 0.02), NOT_HTTP),
    "a broken status": (endlessly(b"HTTP/1.1 -1 OK\r\n\r\n", b"", 0.02), NOT_HTTP),
    "two lengths": (
        endlessly(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"", 1),
        NOT_HTTP,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_request_to_a_broken_receiver_fails_within_its_timeout_with_a_clear_message(free, name):
    behave, words = BROKEN[name]
    async with receiver(behave) as there, asyncio.timeout(20):
        said = await failure(free, there.url(), SOON)
    assert said.startswith(f"127.0.0.1:{there.port} "), said
    assert words in said, said
    assert "Error" not in said
    assert "aiohttp" not in said


ENDLESS = {
    "until the end": endlessly(b"HTTP/1.1 200 OK\r\n\r\n", BIG),
    "a gigabyte": endlessly(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", BIG),
    "in chunks": endlessly(CHUNKED, b"10000\r\n" + BIG + b"\r\n"),
    "compressed": endlessly(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", BIG),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_only_the_beginning_of_an_answer_of_a_gigabyte_is_read(free, name):
    async with receiver(ENDLESS[name]) as there:
        await free.send("POST", there.url(), b"x")
        tracemalloc.start()
        try:
            answer = await free.send("POST", there.url(), b"x")
            used = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (answer.cut, len(answer.body)) == (True, MAX_BODY_BYTES)
        assert there.connections == 2
    assert used < 4 * 1024 * 1024


async def test_an_unrequested_change_of_protocol_ends_the_connection(free):
    switched = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    async with receiver(endlessly(switched, BIG)) as there:
        for _ in range(2):
            assert (await free.send("POST", there.url(), b"x")).status == 101
        assert there.connections == 2


async def test_an_answer_of_exactly_the_size_limit_is_not_truncated(free):
    said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MAX_BODY_BYTES + b"a" * MAX_BODY_BYTES
    async with receiver(said) as there:
        answer = await free.send("POST", there.url())
        assert (answer.cut, len(answer.body)) == (False, MAX_BODY_BYTES)


async def test_a_receiver_that_reads_no_request_body_causes_a_timeout(free):
    async with receiver(hangs) as there:
        with pytest.raises(NoAnswer, match="did not answer in full"):
            await free.send("POST", there.url(), b"x" * (1024 * 1024 - 1), seconds=SOON)


async def test_150_hanging_requests_do_not_delay_a_request_to_another_receiver(free):
    heard = asyncio.Semaphore(0)

    async def dies(reader, writer):
        heard.release()
        await asyncio.Event().wait()

    async with receiver(dies) as dead, receiver() as well:
        waiting = [asyncio.ensure_future(failure(free, dead.url(), 60)) for _ in range(150)]
        for _ in range(100):
            await heard.acquire()
        assert (await free.send("POST", well.url(), seconds=10)).status == 200
        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_closed_port_is_reported_as_refused(free):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        assert await failure(free, f"http://127.0.0.1:{port}/") == f"127.0.0.1:{port} refuses connections."


async def test_an_unknown_host_name_is_reported(free):
    assert "no machine named hooks.invalid" in await failure(free, "https://hooks.invalid/")


async def test_a_resolver_that_is_slow_ends_in_time():
    async def resolve(name, port):
        await asyncio.Event().wait()

    out = HttpSender(resolve=resolve)
    assert "hooks.example did not answer" in await failure(out, "https://hooks.example/", SOON)
    await out.close()
