"""The same hostile heads, trailers and targets against both public ports."""

import re
from typing import Any

import pytest

from tests.hostile.corpus import BEYOND, CHUNKED, REFUSED, SMUGGLED, TAKEN, WITHIN, post
from tests.hostile.ports import ASK, LAST, PORTS, opened
from tests.world import ADMIN

ANSWER = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")
LIFTED: dict[str, Any] = dict.fromkeys(("head_bytes", "target_bytes", "fields", "trailer_bytes"), 10**9)
BY_LIMIT = [title for title, (status, _) in BEYOND.items() if status in {414, 431}]


@pytest.fixture(params=PORTS)
async def port(request):
    async with opened(request.param) as made:
        yield made


def statuses(answers):
    return [int(status) for status in ANSWER.findall(answers)]


def check_refusal(port, answer):
    """On the API port it is an error as all others are, with the limit of the caller."""
    head, _, body = answer.lower().partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    if port.name == "api":
        assert {b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset"} <= {
            line.partition(b":")[0] for line in head.split(b"\r\n")
        }
        assert body.startswith(b'{"status":')


async def test_an_ambiguous_request_is_refused_on_both_ports_and_closes_the_connection(port):
    for title, sent in REFUSED.items():
        caller = await port.caller()
        await caller.send(sent)
        answers = await caller.rest()
        assert len(statuses(answers)) == 1, title
        assert statuses(answers)[0] in {400, 405, 414, 431, 501, 505}, title
        check_refusal(port, answers)
        await caller.close()


async def test_an_accepted_request_ends_at_the_same_byte_on_both_ports(port):
    for title, sent in {**TAKEN, **WITHIN}.items():
        caller = await port.caller()
        await caller.send(sent + LAST)
        answered = statuses(await caller.rest())
        assert len(answered) == 2, title
        assert answered[0] in {200, 401, 404, 405}, title
        assert answered[1] == 200, title
        await caller.close()


async def test_a_request_over_a_limit_is_refused_before_more_is_read(port):
    for title, (status, sent) in BEYOND.items():
        caller = await port.caller()
        await caller.send(sent)
        answers = await caller.rest()
        assert statuses(answers) == [status], title
        check_refusal(port, answers)
        await caller.close()


async def test_a_refused_request_head_is_refused_however_its_bytes_are_split(port):
    for title in ("too many fields", "a target that is too long", "another coding", "no host"):
        status, sent = BEYOND[title]
        caller = await port.caller()
        for at in range(0, len(sent), 3):
            caller.out.write(sent[at : at + 3])
        assert statuses(await caller.rest()) == [status], title
        await caller.close()


@pytest.mark.parametrize("name", PORTS)
async def test_without_limits_the_same_requests_are_served(name):
    """Otherwise the tests above would show nothing."""
    async with opened(name, **LIFTED) as port:
        for title in BY_LIMIT:
            if name == "gateway" and len(BEYOND[title][1]) > 60_000:
                continue  # the instance behind it has limits of its own
            caller = await port.caller()
            await caller.send(BEYOND[title][1])
            if title.endswith("without an end"):
                await caller.send(b" HTTP/1.1\r\nHost: x\r\nA: b" if "target" in title else b"")
                await caller.send(b"" if "method" in title else b"\r\n\r\n")
            if "method" not in title:  # has a limit of its own, and only says it later
                assert (await caller.said()).status in {200, 401, 404, 405}, title
            await caller.close()


async def test_pipelined_requests_are_counted_one_by_one(port):
    caller = await port.caller()
    await caller.send(ASK * 3000 + LAST)  # more bytes than one head may have
    assert statuses(await caller.rest()) == [200] * 3001


async def test_pipelined_requests_before_a_bad_one_are_answered(port):
    caller = await port.caller()
    await caller.send(ASK * 3 + b"GET / HTTP/1.1\r\n\r\n" + SMUGGLED)
    assert statuses(await caller.rest()) == [200, 200, 200, 400]


async def test_a_trailer_field_is_not_treated_as_a_header():
    authorization = f"Authorization: Token {ADMIN}\r\n".encode()
    body = b"2\r\n{}\r\n0\r\n%b\r\n"
    async with opened("api") as port:
        sent = post(CHUNKED, body % authorization).replace(b"POST /", b"POST /organization")
        assert await port.status(sent) == 401
        sent = post(CHUNKED + authorization, body % b"").replace(b"POST /", b"POST /organization")
        assert await port.status(sent) == 400  # the control: for any caller, the body lacks a name


async def test_a_request_with_a_huge_declared_body_is_answered_without_reading_the_body(port):
    caller = await port.caller()
    huge = b"POST /nowhere HTTP/1.1\r\nHost: nobody.localhost\r\nContent-Length: 9999999999\r\n\r\n"
    await caller.send(huge + b"x" * 100_000)
    answers = await caller.rest()
    assert statuses(answers)[0] in {401, 404, 413}


@pytest.mark.parametrize(
    ("most", "refused"), [(4096, True), (10_000, False)], ids=["limit of 4096", "limit of 10000"]
)
async def test_a_request_body_with_too_many_chunks_is_refused(most, refused):
    for piece in (b"1\r\nx\r\n", b"01\r\nx\r\n", b"1;a\r\nx\r\n"):
        async with opened("api", body_chunks=most) as port:
            status = await port.status(post(CHUNKED, piece * 5000 + b"0\r\n\r\n"))
            assert (status == 400) is refused
