"""Requests that are like the one before but for a value: only that is judged, and to the same verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.routers.town import SHOP, parsed, request, route
from tests.marks import examples
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.wire import Bad
from windlass.routers.builtin.requests import Fields, check_headers

_FIRST = b"GET / HTTP/1.1"
_ADDRESS = b"10.0.0.1"
_MEANT = ["Host", "Content-Length", "Connection", "X-Forwarded-For", "X_Forwarded_For", "X-Request-Id", "TE"]
_NAMES = st.sampled_from(
    [*_MEANT, "Upgrade", "Transfer-Encoding", "Forwarded", "X", "x", "Cookie", "X-Trace"]
)
_HARMLESS = [
    "",
    "a",
    "b",
    "0",
    "5",
    "x",
    "chunked",
    "close",
    "upgrade",
    "trailers",
    SHOP,
    "10.0.0.1",
    " a ",
    "a:b",
]
_DOUBTFUL = ["a\r", "a\n", "a\0", "a\r\nHost: evil", "a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x"]
_VALUES = st.sampled_from([*_HARMLESS, "cookie", *_DOUBTFUL])
_LINES = st.lists(st.tuples(_NAMES, _VALUES, st.sampled_from([": ", ":", " : "])), max_size=5)


def head(lines) -> bytes:
    text = "".join(f"\r\n{name}{colon}{value}" for name, value, colon in lines)
    return f"\r\nHost: {SHOP}{text}\r\n\r\n".encode()


@st.composite
def heads(draw) -> list[bytes]:
    """Each differs from the one before in a line or two."""
    lines = draw(_LINES)
    made = [head(lines)]
    for _ in range(draw(st.integers(1, 4))):
        for place in draw(st.sets(st.integers(0, 4), max_size=2)):
            if place < len(lines):
                name, _, colon = lines[place]
                lines[place] = (name, draw(_VALUES), colon)
                if draw(st.integers(0, 5)) == 0:
                    lines[place] = draw(st.tuples(_NAMES, _VALUES, st.just(": ")))
        made.append(head(lines))
    return made


def verdict(fields: Fields) -> dict[str, object]:
    return {name: getattr(fields, name) for name in Fields.__slots__ if not name.startswith("_")}


@examples(300, nightly=6000)
@given(heads())
def test_a_reused_verdict_equals_a_full_check_of_the_request(made):
    try:
        fields = check_headers(made[0], False, _ADDRESS, Bounds())
    except Bad:
        return
    for raw in made[1:]:
        before = verdict(fields)
        if fields.vary(_FIRST + raw, len(_FIRST)):
            assert verdict(fields) == verdict(check_headers(raw, False, _ADDRESS, Bounds()))
        else:
            assert verdict(fields) == before


@pytest.mark.parametrize("varied", ["Cookie: n={}", "X-Trace: {}", "If-None-Match: {}"])
def test_changing_the_value_of_an_irrelevant_header_reuses_the_earlier_check(varied):
    fields = check_headers(_head(varied, 0), False, _ADDRESS, Bounds())
    for number in range(1, 5):
        assert fields.vary(_FIRST + _head(varied, number), len(_FIRST))
        assert varied.format(number).encode() + b"\r\nB: 2\r\nX-Forwarded-For: 10.0.0.1" in fields.passed


@pytest.mark.parametrize(
    "varied", ["Host: h{}", "X-Request-Id: {}", "Content-Length: {}", "X-Forwarded-For: {}"]
)
def test_changing_the_value_of_a_relevant_header_checks_the_request_again(varied):
    fields = check_headers(_head("Z: {}", 0), False, _ADDRESS, Bounds())
    assert not fields.vary(_FIRST + _head(varied, 1), len(_FIRST))
    if not varied.startswith("Host"):
        fields = check_headers(_head(varied, 1), False, _ADDRESS, Bounds())
        assert not fields.vary(_FIRST + _head(varied, 2), len(_FIRST))


def _head(varied: str, number: int) -> bytes:
    return f"\r\nHost: {SHOP}\r\nA: 1\r\n{varied.format(number)}\r\nB: 2\r\n\r\n".encode()


async def test_the_instance_receives_the_headers_of_each_request_in_their_order(town):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    said = [("1", "a"), ("2", "a"), ("3", "a"), ("3", "b"), ("4", "c"), ("5", "c"), ("", "c")]
    for number, other in said:
        answer = await caller.ask(request("/", "GET", SHOP, f"X: {number}", "Y: same", f"Z: {other}"))
        assert answer.status == 200
    assert [(each.fields["x"], each.fields["y"], each.fields["z"]) for each in shop.heard] == [
        (number, "same", other) for number, other in said
    ]
    heads_heard = bytes(shop.raw[0]).split(b"\r\n\r\n")[:-1]
    names = [list(parsed(one)[1]) for one in heads_heard]
    assert names == [names[0]] * len(said)
    assert len({each.fields["x-request-id"] for each in shop.heard}) == len(said)


async def test_a_changed_host_is_routed_correctly_even_if_another_header_changed_too(town):
    shop, blog = await town.instance("shop"), await town.instance("blog")
    await town.shop(shop)
    await town.router.set("blog", [route([blog.endpoint], "blog", ["blog.localhost"])])
    caller = await town.caller()
    asked = [(SHOP, 1), (SHOP, 2), ("blog.localhost", 3), ("blog.localhost", 4), (SHOP, 5), (SHOP, 6)]
    said = [(await caller.ask(request("/", "GET", host, f"X: {number}"))).body for host, number in asked]
    assert said == [b"shop", b"shop", b"blog", b"blog", b"shop", b"shop"]


HOSTILE = {
    "a lone line feed": "y\nContent-Length: 36",
    "a lone carriage return": "y\rContent-Length: 36",
    "a zero byte": "y\0",
    "a folded line": "y\r\n Content-Length: 36",
    "a field without a name": "y\r\n: 36",
}


@pytest.mark.parametrize("title", HOSTILE)
async def test_a_hostile_header_value_is_refused_even_after_many_harmless_ones(town, title):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    for number in range(3):
        assert (await caller.ask(request("/", "GET", SHOP, f"X: {number}"))).status == 200
    await caller.send(request("/doubtful", "GET", SHOP, f"X: {HOSTILE[title]}"))
    assert (await caller.rest()).startswith(b"HTTP/1.1 400")
    assert [each.target for each in shop.heard] == ["/"] * 3


async def test_two_pipelined_requests_are_not_mistaken_for_one(town):
    """Together they have as many lines as the one before, so that they might be taken for one like it."""
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    for number in range(3):
        fields = [f"X: {number}", "A: 1", "B: 2", "C: 3"]
        assert (await caller.ask(request("/long", "GET", SHOP, *fields))).status == 200
    await caller.send(request("/first") + request("/second"))
    assert [(await caller.said()).status for _ in range(2)] == [200, 200]
    assert [each.target for each in shop.heard] == ["/long"] * 3 + ["/first", "/second"]
