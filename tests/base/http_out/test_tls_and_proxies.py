"""Certificates are checked, and proxies judge nothing for us."""

from __future__ import annotations

import ssl

import pytest

from tests.base.http_out.failures import LOOPBACK, failure, leads_to, refusal
from tests.certificates import authority, serves
from tests.forbidden_urls import NO_URL, NOT_PUBLIC
from tests.loopback import receiver
from windlass.base.http_out import HttpSender


async def test_the_certificate_must_be_of_the_name_and_of_an_authority_that_is_trusted(tmp_path):
    ours, other = authority(tmp_path / "ours"), authority(tmp_path / "other")
    trust = ssl.create_default_context(cafile=ours.file)
    async with (
        receiver(tls=serves(ours, "hooks.example")) as right,
        receiver(tls=serves(ours, "else.example")) as misnamed,
        receiver(tls=serves(other, "hooks.example")) as stranger,
    ):
        out = HttpSender(LOOPBACK, resolve=leads_to("127.0.0.1"), trust=trust)
        assert (await out.send("POST", right.url("hooks.example.", scheme="https"))).status == 200
        for wrong in (misnamed, stranger):
            said = await failure(out, wrong.url("hooks.example", scheme="https"))
            assert "shows a certificate that is not valid" in said
        assert (misnamed.requests, stranger.requests) == ([], [])
        await out.close()
        out = HttpSender(LOOPBACK, resolve=leads_to("127.0.0.1"))
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


async def test_with_a_proxy_only_the_proxy_is_called_and_resolves_names():
    async def never(name, port):
        raise AssertionError("names are the proxy's to look up")

    async with receiver() as proxy:
        out = HttpSender(proxy=f"http://user:secret@127.0.0.1:{proxy.port}", resolve=never)
        assert (await out.send("POST", "http://hooks.example/x", b"hello")).status == 200
        head = proxy.requests[0]
        assert head.startswith(b"POST http://hooks.example/x HTTP/1.1\r\n")
        assert b"\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n" in head
        await out.close()


async def test_addresses_are_checked_behind_a_proxy_too():
    async with receiver() as proxy:
        for text in (*NO_URL, *NOT_PUBLIC, "http://shop.localhost/"):
            out = HttpSender(proxy=proxy.url(path=""))
            await refusal(out, text.replace("{port}", "80"))
        assert proxy.connections == 0
        out = HttpSender(["10.0.0.0/8"], proxy=proxy.url(path=""))
        assert (await out.send("POST", "http://10.1.2.3/")).status == 200
        await out.close()


async def test_a_proxy_that_refuses_or_is_unreachable_is_reported_by_its_setting():
    async with receiver(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as proxy:
        out = HttpSender(proxy=proxy.url(path=""))
        said = await failure(out, "https://hooks.example/")
        assert said == "The proxy (outbound_proxy) does not connect to hooks.example: it answers 403."
        assert proxy.requests[0].startswith(b"CONNECT hooks.example:443 HTTP/1.1\r\n")
        await out.close()
    out = HttpSender(proxy=proxy.url(path=""))
    assert await failure(out, "https://hooks.example/") == "The proxy (outbound_proxy) cannot be reached."
    await out.close()


# Documents that the operator named, and settings


async def test_an_issuer_document_named_by_the_operator_may_be_at_a_private_address():
    async with receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as issuer:
        assert await HttpSender().fetch(issuer.url()) == b"{}"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 302 Away\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "answered 302"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "answered 500"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n" + b"a" * 1_048_577, "more than 1048576 bytes"),
    ],
)
async def test_an_invalid_json_document_is_described(said, words):
    async with receiver(said) as issuer:
        with pytest.raises(OSError, match=words):
            await HttpSender().fetch(issuer.url())
