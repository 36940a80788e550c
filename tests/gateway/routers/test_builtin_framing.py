"""However the bytes of requests and answers are cut, the same arrives."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise

import uvloop
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.gateway.routers.town import SHOP, make_town
from tests.marks import examples
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.chunks import Chunks

_BODY = st.binary(max_size=300)
_CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
_FIELDS = st.lists(
    st.sampled_from(["A: b", "Accept: */*", "X-Long: " + "y" * 200, "Cookie: a=b"]), max_size=3
)
_CUTS = st.lists(st.floats(0, 1), max_size=12)


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@st.composite
def requests(draw):
    """The bytes of one, and what of it an application should find."""
    method = draw(st.sampled_from(["GET", "POST", "PUT", "DELETE"]))
    target = "/" + draw(st.text("abc/?&=%20", max_size=12))
    lines = [f"{method} {target} HTTP/1.1", f"Host: {SHOP}", *draw(_FIELDS)]
    if draw(st.booleans()):
        pieces = draw(_CHUNKS)
        lines.append("Transfer-Encoding: chunked")
        sent, body = chunked(pieces), b"".join(pieces)
    else:
        sent = body = draw(_BODY)
        lines += [f"Content-Length: {len(body)}"] if body or draw(st.booleans()) else []
    return "\r\n".join([*lines, "", ""]).encode() + sent, (method, target, body)


def cut(data: bytes, cuts: list[float]) -> list[bytes]:
    places = sorted({0, len(data), *(int(at * len(data)) for at in cuts)})
    return [data[begin:end] for begin, end in pairwise(places)]


@examples(30, suppress_health_check=list(HealthCheck))
@given(st.lists(requests(), min_size=1, max_size=5), _CUTS, _CUTS)
def test_requests_and_answers_arrive_unchanged_however_their_bytes_are_split(sent, cuts, answer_cuts):
    async def echo(heard):
        answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(
            [b"<", heard.body, b">"][:3]
        )
        if not heard.body:
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\n<>"
        for piece in cut(answer, answer_cuts):
            heard.out.write(piece)
            await asyncio.sleep(0)

    async def story():
        async with make_town() as town:
            shop = await town.instance(answer=echo)
            await town.shop(shop)
            caller = await town.caller()
            for piece in cut(b"".join(data for data, _ in sent), cuts):
                caller.out.write(piece)
                await asyncio.sleep(0)
            answers = [(await caller.said()).body for _ in sent]
            return [each[:2] + each[3:4] for each in shop.heard], answers

    heard, answers = uvloop.run(story())
    assert heard == [wanted for _, wanted in sent]
    assert answers == [b"<%b>" % body for _, (_, _, body) in sent]


@given(
    _CHUNKS,
    st.binary(max_size=20),
    st.lists(st.floats(0, 1), max_size=30),
    st.sampled_from([1, 2, 5, sys.maxsize]),
)
def test_the_end_of_a_chunked_body_is_found_however_its_bytes_are_split(pieces, after, cuts, at_once):
    body = chunked(pieces)
    raw, plain = Chunks(Bounds(), at_once=at_once), Chunks(Bounds(), plain=True, at_once=at_once)
    passed = payload = b""
    rest: bytes | None = None
    for piece in cut(body + after, cuts):
        if rest is not None:
            rest += piece
            continue
        more, rest = raw.feed(piece)
        passed += more
        payload += plain.feed(piece)[0]
        while raw.is_behind:
            more, rest = raw.feed(b"")
            passed += more
            payload += plain.feed(b"")[0]
    assert (passed, payload, rest) == (body, b"".join(pieces), after)
