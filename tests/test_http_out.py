"""Outgoing HTTP: it reaches only what it may, and every receiver ends within time and memory."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator
from ipaddress import ip_address

import pytest

from tests.certificates import authority, serves
from tests.forbidden_urls import NO_URL, NOT_PUBLIC
from tests.loopback import OK, Receiver, receiver
from tests.world import make_world
from windlass import __version__
from windlass.base.http_out import MOST_READ, AddressRefused, NoAnswer, Outgoing
from windlass.config import BadSetting
from windlass.control.context.context import OutgoingHttp

LOOPBACK = ("127.0.0.0/8", "::1/128")
SOON = 0.3
"""Seconds that are given to receivers that never end."""


def leads_to(*found: str):
    async def resolve(name, port):
        return [ip_address(each) for each in found]

    return resolve


@pytest.fixture
async def free() -> AsyncIterator[Outgoing]:
    """Which may also call the machine itself."""
    made = Outgoing(LOOPBACK)
    yield made
    await made.close()


@pytest.fixture
async def everywhere() -> AsyncIterator[Receiver]:
    """On every address of the machine."""
    addresses = ["0.0.0.0", *(["::"] if socket.has_dualstack_ipv6() else [])]
    async with receiver(at=addresses) as made:
        yield made


async def refusal(out: Outgoing, url: str) -> str:
    with pytest.raises(AddressRefused) as caught:
        await out.send("POST", url, b"x", seconds=5)
    await out.close()
    return str(caught.value)


async def failure(out: OutgoingHttp, url: str, seconds: float = 5.0) -> str:
    with pytest.raises(NoAnswer) as caught:
        await out.send("POST", url, b"x", seconds=seconds)
    return str(caught.value)


# Where it goes


def test_the_corpus_is_large():
    assert len({*NO_URL, *NOT_PUBLIC}) >= 80


async def test_an_ambiguous_url_is_refused_despite_allowed_networks(everywhere):
    for text in NO_URL:
        url = text.replace("{port}", str(everywhere.port))
        for allowed in ((), ("0.0.0.0/0", "::/0")):
            assert "outbound_allow" not in await refusal(Outgoing(allowed), url), url
    assert everywhere.connections == 0


async def test_a_private_address_is_refused_without_a_connection(everywhere):
    for text in NOT_PUBLIC:
        said = await refusal(Outgoing(), text.replace("{port}", str(everywhere.port)))
        assert said.endswith("allow its network with the setting outbound_allow."), text
    assert everywhere.connections == 0


async def test_an_allowed_network_is_called(everywhere):
    out = Outgoing((*LOOPBACK, "0.0.0.0/32", "::/128", "::ffff:127.0.0.0/104"))
    hosts = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost", "LOCALHOST."]
    if socket.has_dualstack_ipv6():
        hosts += ["[::1]", "[::]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]"]
    for host in hosts:
        assert (await out.send("POST", everywhere.url(host))).status == 200, host
    assert everywhere.connections >= len(hosts) - 2
    await out.close()


@pytest.mark.parametrize(
    "found",
    [
        ["127.0.0.1"],
        ["::1"],
        ["0.0.0.0"],
        ["::"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["10.1.2.3", "169.254.169.254", "fe80::1%1"],
    ],
)
async def test_a_name_that_leads_only_to_addresses_that_are_not_public_is_refused(everywhere, found):
    out = Outgoing(resolve=leads_to(*found))
    said = await refusal(out, everywhere.url("hooks.example"))
    assert said.startswith("hooks.example has no public address."), said
    assert everywhere.connections == 0


async def test_of_the_addresses_of_a_name_only_admitted_ones_are_called():
    async with receiver(at=["127.0.0.1"]) as hidden:
        out = Outgoing(["127.0.0.2/32"], resolve=leads_to("127.0.0.1", "::1", "127.0.0.2"))
        assert "hooks.example:" in await failure(out, hidden.url("hooks.example"))
        await out.close()
        assert hidden.connections == 0
        out = Outgoing(LOOPBACK, resolve=leads_to("::1", "127.0.0.2", "127.0.0.1"))
        assert (await out.send("POST", hidden.url("hooks.example"))).status == 200
        await out.close()


async def test_a_name_that_leads_elsewhere_a_moment_later_is_judged_again(everywhere):
    answers = iter([["127.0.0.2"], ["127.0.0.1"]])

    async def resolve(name, port):
        return [ip_address(each) for each in next(answers)]

    async with receiver(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", at=["127.0.0.2"]
    ) as first:
        out = Outgoing(["127.0.0.2/32"], resolve=resolve)
        assert (await out.send("POST", first.url("hooks.example"))).status == 200
        assert "has no public address" in await refusal(out, first.url("hooks.example"))


async def test_a_name_with_thousands_of_addresses_is_not_a_way_to_call_them_all():
    many = [f"127.0.{high}.{low}" for high in range(8) for low in range(1, 251)]

    async def reset(reader, writer):
        """Nobody speaks TLS here, so that the next address is tried."""

    async with receiver(reset, at=["0.0.0.0"]) as there:
        out = Outgoing(LOOPBACK, resolve=leads_to(*many))
        await failure(out, there.url("hooks.example", scheme="https"))
        await out.close()
        assert 1 <= there.connections <= 40


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_is_not_followed(free, everywhere, status):
    to = f"HTTP/1.1 {status} Away\r\nLocation: {everywhere.url()}\r\nContent-Length: 0\r\n\r\n"
    async with receiver(to.encode()) as away:
        answer = await free.send("POST", away.url(), b"x")
    assert (answer.status, answer.headers["location"]) == (status, everywhere.url())
    assert everywhere.connections == 0


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "https_proxy"])
async def test_proxy_variables_of_the_environment_are_ignored(everywhere, monkeypatch, name):
    monkeypatch.setenv(name, everywhere.url())
    async with receiver() as right:
        out = Outgoing(LOOPBACK)
        assert (await out.send("POST", right.url())).status == 200
        assert "no machine named" in await failure(out, "http://hooks.invalid/")
        await out.close()
    assert everywhere.connections == 0


# What is sent, and what comes back


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
    assert headers["User-Agent"] == f"Windlass/{__version__}"
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
async def test_a_header_that_would_be_two_is_not_sent(free, name, value):
    async with receiver() as there:
        with pytest.raises(ValueError, match="header"):
            await free.send("POST", there.url(), b"x", {name: value})
    assert there.requests == []


@pytest.mark.parametrize("status", [200, 204, 304, 400, 404, 410, 429, 500, 503, 599])
async def test_any_answer_is_an_answer(free, status):
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


async def test_no_cookie_comes_back(free):
    said = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    async with receiver(said, at=["127.0.0.1"]) as there:
        for _ in range(2):
            await free.send("POST", there.url("localhost"))
    assert all(b"ookie" not in each for each in there.requests)


async def test_a_receiver_is_called_over_one_connection(free):
    async with receiver() as there:
        for _ in range(5):
            await free.send("POST", there.url(), b"x")
        assert len(there.requests) == 5
        assert there.connections == 1


async def test_a_connection_that_ended_while_it_was_idle_costs_no_request(free):
    async def once(reader, writer):
        """Answers one request as if the connection stayed, and ends it when the next one is heard."""
        await there.request(reader)
        writer.write(OK)
        await reader.read(1)

    async with receiver(once) as there:
        for _ in range(4):
            assert (await free.send("POST", there.url(), b"x")).status == 200
        assert there.connections == 4


async def test_after_the_close_nothing_leaves(free):
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


# Receivers that mean harm, or are broken


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
async def test_a_broken_receiver_ends_in_time_and_is_described(free, name):
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
async def test_of_a_gigabyte_the_beginning_is_read_and_the_connection_ended(free, name):
    async with receiver(ENDLESS[name]) as there:
        await free.send("POST", there.url(), b"x")
        tracemalloc.start()
        try:
            answer = await free.send("POST", there.url(), b"x")
            used = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (answer.cut, len(answer.body)) == (True, MOST_READ)
        assert there.connections == 2
    assert used < 4 * 1024 * 1024


async def test_an_unrequested_change_of_protocol_ends_the_connection(free):
    switched = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    async with receiver(endlessly(switched, BIG)) as there:
        for _ in range(2):
            assert (await free.send("POST", there.url(), b"x")).status == 101
        assert there.connections == 2


async def test_an_answer_of_just_the_most_is_not_cut(free):
    said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MOST_READ + b"a" * MOST_READ
    async with receiver(said) as there:
        answer = await free.send("POST", there.url())
        assert (answer.cut, len(answer.body)) == (False, MOST_READ)


async def test_a_receiver_that_takes_nothing_ends_in_time(free):
    async with receiver(hangs) as there:
        with pytest.raises(NoAnswer, match="did not answer in full"):
            await free.send("POST", there.url(), b"x" * (1024 * 1024 - 1), seconds=SOON)


async def test_hundreds_that_hang_delay_no_other(free):
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

    out = Outgoing(resolve=resolve)
    assert "hooks.example did not answer" in await failure(out, "https://hooks.example/", SOON)
    await out.close()


# TLS


async def test_the_certificate_must_be_of_the_name_and_of_an_authority_that_is_trusted(tmp_path):
    ours, other = authority(tmp_path / "ours"), authority(tmp_path / "other")
    trust = ssl.create_default_context(cafile=ours.file)
    async with (
        receiver(tls=serves(ours, "hooks.example")) as right,
        receiver(tls=serves(ours, "else.example")) as misnamed,
        receiver(tls=serves(other, "hooks.example")) as stranger,
    ):
        out = Outgoing(LOOPBACK, resolve=leads_to("127.0.0.1"), trust=trust)
        assert (await out.send("POST", right.url("hooks.example.", scheme="https"))).status == 200
        for wrong in (misnamed, stranger):
            said = await failure(out, wrong.url("hooks.example", scheme="https"))
            assert "shows a certificate that is not valid" in said
        assert (misnamed.requests, stranger.requests) == ([], [])
        await out.close()
        out = Outgoing(LOOPBACK, resolve=leads_to("127.0.0.1"))
        assert "not valid" in await failure(out, right.url("hooks.example", scheme="https"))
        await out.close()


async def test_a_server_without_tls_is_reported_as_such(free):
    async def plain(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with receiver(plain) as there:
        said = await failure(free, there.url(scheme="https"))
    assert said == f"127.0.0.1:{there.port} does not speak TLS, or none that is safe."


# A proxy


async def test_with_a_proxy_only_the_proxy_is_called_and_it_looks_names_up():
    async def never(name, port):
        raise AssertionError("names are the proxy's to look up")

    async with receiver() as proxy:
        out = Outgoing(proxy=f"http://user:secret@127.0.0.1:{proxy.port}", resolve=never)
        assert (await out.send("POST", "http://hooks.example/x", b"hello")).status == 200
        head = proxy.requests[0]
        assert head.startswith(b"POST http://hooks.example/x HTTP/1.1\r\n")
        assert b"\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n" in head
        await out.close()


async def test_with_a_proxy_addresses_are_judged_all_the_same():
    async with receiver() as proxy:
        for text in (*NO_URL, *NOT_PUBLIC, "http://shop.localhost/"):
            out = Outgoing(proxy=proxy.url(path=""))
            await refusal(out, text.replace("{port}", "80"))
        assert proxy.connections == 0
        out = Outgoing(["10.0.0.0/8"], proxy=proxy.url(path=""))
        assert (await out.send("POST", "http://10.1.2.3/")).status == 200
        await out.close()


async def test_a_proxy_that_does_not_connect_is_described():
    async with receiver(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as proxy:
        out = Outgoing(proxy=proxy.url(path=""))
        said = await failure(out, "https://hooks.example/")
        assert said == "The proxy (outbound_proxy) does not connect to hooks.example: it answers 403."
        assert proxy.requests[0].startswith(b"CONNECT hooks.example:443 HTTP/1.1\r\n")
        await out.close()
    out = Outgoing(proxy=proxy.url(path=""))
    assert await failure(out, "https://hooks.example/") == "The proxy (outbound_proxy) cannot be reached."
    await out.close()


# Documents that the operator named, and settings


async def test_a_document_that_the_operator_named_is_fetched_wherever_it_is():
    async with receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as issuer:
        assert await Outgoing().fetch(issuer.url()) == b"{}"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 302 Away\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "answered 302"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "answered 500"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n" + b"a" * 1_048_577, "more than 1048576 bytes"),
    ],
)
async def test_a_document_that_is_none_is_described(said, words):
    async with receiver(said) as issuer:
        with pytest.raises(OSError, match=words):
            await Outgoing().fetch(issuer.url())


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"outbound_allow": ("10.0.0.0/99",)}, "outbound_allow: 10.0.0.0/99: not a network"),
        ({"outbound_proxy": "proxy.example.com:3128"}, "outbound_proxy: must be like http://"),
        ({"outbound_proxy": "socks5://proxy:1080"}, "outbound_proxy: must be like http://"),
        ({"outbound_proxy": "http://proxy:port"}, "outbound_proxy: must be like http://"),
    ],
)
async def test_a_setting_that_leads_nowhere_is_said_at_the_start(setting, words):
    with pytest.raises(BadSetting, match=words):
        async with make_world(out=None, **setting):
            pass


async def test_an_installation_has_one_http_client_that_closes_with_it():
    async with receiver() as there:
        async with make_world(outbound_allow=LOOPBACK, out=None) as world:
            out = world.installation.ctx.out
            assert (await out.send("POST", there.url())).status == 200
        assert "stopping" in await failure(out, there.url())
