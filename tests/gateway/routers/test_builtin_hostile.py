"""Requests that mean one thing to one server and another to the next.

Each is judged by what an instance saw, read in all the ways in which servers are known to read. None may ever
find two requests where the client sent one.
"""

import asyncio
import re

import pytest

from tests.gateway.routers.town import Instance, make_town, request
from tests.hostile.corpus import REFUSED, TAKEN


@pytest.mark.parametrize("title", REFUSED)
async def test_an_ambiguous_request_is_refused_and_closes_the_connection(town, title):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    await caller.send(REFUSED[title])
    answers = await caller.rest()
    assert answers.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert len(re.findall(rb"HTTP/1\.1 [0-9]", answers)) == 1, "nothing after it is answered either"
    assert b"Connection: close" in answers
    assert not [each for each in shop.heard if each.target == "/smuggled"]
    assert max(readings(shop)) <= 1


@pytest.mark.parametrize("title", TAKEN)
async def test_an_accepted_request_is_parsed_alike_by_several_http_parsers(town, title):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    said = await caller.ask(TAKEN[title], head_only=TAKEN[title].startswith(b"HEAD"))
    assert said.status == 200
    assert (await caller.ask(request("/next"))).status == 200
    assert [each.target for each in shop.heard][-1] == "/next"
    assert readings(shop) == [2] * len(READERS)


@pytest.mark.parametrize("size", [1, 7])
async def test_an_ambiguous_request_is_refused_however_its_bytes_are_split(size):
    async def story(title):
        caller = await town.caller()
        data = REFUSED[title]
        # Reading begins before writing: what is sent after the answer resets the connection.
        reading = asyncio.ensure_future(caller.rest())
        for at in range(0, len(data), size):
            if caller.out.is_closing() or reading.done():
                break
            caller.out.write(data[at : at + size])
            await asyncio.sleep(0)
        assert (await reading).startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")), title

    async with make_town() as town:
        shop = await town.instance()
        await town.shop(shop)
        await asyncio.gather(*(story(title) for title in REFUSED if len(REFUSED[title]) < 1000))
        for raw in shop.raw:
            assert max(count(bytes(raw), read) for read in READERS) <= 1


def test_without_the_guard_parsers_disagree_about_the_requests():
    """Otherwise the tests above would show nothing."""
    found = [title for title, data in REFUSED.items() if max(count(data, read) for read in READERS) > 1]
    assert len(found) >= 30


# How servers are known to read


def _coding_first(fields):
    return not any("chunked" in value.lower() for name, value in fields if name == "transfer-encoding")


def _length_first(fields):
    return any(name == "content-length" for name, value in fields) or _coding_first(fields)


READERS = [
    (length, pick, separator)
    for length in (_coding_first, _length_first)
    for pick in (0, -1)
    for separator in (re.compile(rb"\r\n\r\n"), re.compile(rb"\r?\n\r?\n"))
]


def readings(instance: Instance) -> list[int]:
    """Returns the number of requests that each parser finds in the bytes of all connections of an
    instance."""
    return [sum(count(bytes(raw), read) for raw in instance.raw) for read in READERS]


def count(data: bytes, reader) -> int:
    by_length, pick, separator = reader
    found = 0
    while True:
        data = data.lstrip(b"\r\n")
        end = separator.search(data)
        if not end or not re.match(rb"[A-Z]+ ", data):
            return found
        found += 1
        fields = _fields(data[: end.start()])
        rest = data[end.end() :]
        lengths = [value for name, value in fields if name == "content-length"]
        if by_length(fields):
            digits = re.findall(r"\d+", lengths[pick]) if lengths else ["0"]
            data = rest[int(digits[pick]) if digits else 0 :]
        else:
            data = _after_chunks(rest)


def _fields(head: bytes) -> list[tuple[str, str]]:
    text = re.sub(r"\r?\n[ \t]+", " ", head.decode("latin-1")).replace("\0", "")
    pairs = [line.partition(":") for line in re.split(r"\r?\n|\r", text)[1:]]
    return [(name.strip().lower().replace("_", "-"), value.strip()) for name, _, value in pairs]


def _after_chunks(data: bytes) -> bytes:
    while size := re.match(rb"\s*(?:0x|\+)?([0-9A-Fa-f]+)[^\n]*\n", data):
        length = int(size[1], 16)
        data = data[size.end() + length :]
        if not length:
            while (line := re.match(rb"[^\n]*\n", data)) and line[0].strip() and b":" in line[0]:
                data = data[line.end() :]
            return data
    return b""
