"""Outgoing requests are sent as given, and any answer is one."""

from __future__ import annotations

import asyncio

import pytest

from tests.base.http_out.failures import failure
from tests.loopback import OK, receiver
from windlass.base.version import VERSION


async def test_a_request_arrives_as_it_was_given(free):
    async with receiver() as there:
        await free.send(
            "POST", there.url(path="/a%2Fb/../c?d=e%20f&g=[1]#h"), b'{"a": 1}', {"webhook-id": "7"}
        )
    head, _, body = there.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert first == "POST /a%2Fb/../c?d=e%20f&g=[1] HTTP/1.1"
    assert body == b'{"a": 1}'
    assert headers["Host"] == f"127.0.0.1:{there.port}"
    assert headers["User-Agent"] == f"Windlass/{VERSION}"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["webhook-id"] == "7"
    assert "Cookie" not in headers


async def test_letters_that_urls_do_not_have_are_encoded(free):
    async with receiver() as there:
        await free.send("POST", there.url(path='/é?q="<>'))
    assert there.requests[0].startswith(b"POST /%C3%A9?q=%22%3C%3E HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("name", "value"), [("x", "a\r\nEvil: 1"), ("x\r\nEvil", "1"), ("x", "a\nb"), ("x", "a\0b")]
)
async def test_a_header_with_a_line_break_is_refused_before_sending(free, name, value):
    async with receiver() as there:
        with pytest.raises(ValueError, match="header"):
            await free.send("POST", there.url(), b"x", {name: value})
    assert there.requests == []


@pytest.mark.parametrize("status", [200, 204, 304, 400, 404, 410, 429, 500, 503, 599])
async def test_any_http_status_is_returned_as_an_answer(free, status):
    length = "" if status in {204, 304} else "Content-Length: 0\r\n"
    async with receiver(f"HTTP/1.1 {status} So\r\n{length}Retry-After: 5\r\n\r\n".encode()) as there:
        answer = await free.send("POST", there.url())
    assert (answer.status, answer.body, answer.cut) == (status, b"", False)
    assert answer.headers["retry-after"] == "5"
    assert answer.milliseconds >= 0


async def test_headers_have_lower_case_names_and_can_always_be_written_down(free):
    said = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nX-Odd: \xff\r\nContent-Length: 0\r\n\r\n"
    async with receiver(said) as there:
        headers = (await free.send("POST", there.url())).headers
    assert headers["x-a"] == "1, 2"
    assert headers["x-odd"].encode()


async def test_cookies_of_an_answer_are_not_sent_with_the_next_request(free):
    said = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    async with receiver(said, at=["127.0.0.1"]) as there:
        for _ in range(2):
            await free.send("POST", there.url("localhost"))
    assert all(b"ookie" not in each for each in there.requests)


async def test_consecutive_requests_to_a_receiver_reuse_its_connection(free):
    async with receiver() as there:
        for _ in range(5):
            await free.send("POST", there.url(), b"x")
        assert len(there.requests) == 5
        assert there.connections == 1


async def test_a_request_is_sent_again_if_the_idle_connection_was_closed_by_the_receiver(free):
    async def once(reader, writer):
        """Answers one request as if the connection stayed, and ends it when the next one is heard."""
        await there.request(reader)
        writer.write(OK)
        await reader.read(1)

    async with receiver(once) as there:
        for _ in range(4):
            assert (await free.send("POST", there.url(), b"x")).status == 200
        assert there.connections == 4


async def test_a_closed_sender_refuses_requests(free):
    async with receiver() as there:
        await free.send("POST", there.url())
        await free.close()
        assert "stopping" in await failure(free, there.url())
        await free.close()


async def test_requests_in_flight_fail_at_the_close(free):
    heard = asyncio.Event()

    async def silent(reader, writer):
        heard.set()
        await asyncio.Event().wait()

    async with receiver(silent) as there:
        sending = asyncio.ensure_future(failure(free, there.url(), seconds=30))
        await heard.wait()
        await free.close()
        assert "127.0.0.1" in await sending
