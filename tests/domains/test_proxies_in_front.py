"""The diagnosis says how a proxy in front of a domain connects to the gateway, and what to change there."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.certificates import authority, serves
from tests.domains.scene import Scene, scene
from tests.domains.served import SHOP, add, published
from windlass.base.http_out import HttpSender


class Mode(Struct, frozen=True):
    """How a proxy connects."""

    by_http: bool = False
    status: int = 0
    """What it answers itself; 0: it passes requests on."""
    server: str = "cloudflare"


class Front:
    """A proxy that ends TLS with a certificate that visitors trust."""

    def __init__(self, there: Scene, mode: Mode) -> None:
        self._there, self._mode, self.port = there, mode, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            status, headers, body = self._answer(path)
            lines = [f"HTTP/1.1 {status} {HTTPStatus.OK.phrase}", f"Content-Length: {len(body)}", *headers]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
        writer.close()

    def _answer(self, path: str) -> tuple[int, list[str], bytes]:
        own = [f"Server: {self._mode.server}"]
        if self._mode.status:
            return self._mode.status, own, b""
        if answer := self._there.visit(SHOP, path):
            return 200, own, answer
        if self._mode.by_http:  # as the gateway redirects, once there is a certificate
            return 308, [*own, f"Location: https://{SHOP}:{self.port}{path}"], b""
        return 200, own, b"the page"


@contextlib.asynccontextmanager
async def checked(folder: Path, mode: Mode) -> AsyncIterator[Any]:
    """The diagnosis of a domain behind a proxy, and what it advises."""
    own = authority(folder / "public")
    async with scene(outbound_allow=("127.0.0.0/8",)) as there:
        front = Front(there, mode)
        server = await asyncio.start_server(front.serve, "127.0.0.1", 0, ssl=serves(own, SHOP))
        async with server:
            ctx = there.world.installation.ctx
            front.port = ctx.visits.https_port = server.sockets[0].getsockname()[1]
            await ctx.visits.http.close()
            trust = ssl.create_default_context(cafile=str(own.file))
            ctx.visits.http = HttpSender(("127.0.0.0/8",), trust=trust, resolve=ctx.dns.addresses)
            app = await published(there.world)
            document = await add(there.world, app)
            there.dns.set("*.apps.example.com", ("A", "127.0.0.1"))
            there.dns.set(SHOP, ("CNAME", document["validation_domain"]))
            path = f"/application/{app}/customDomain/{document['id']}/check"
            found = (await there.world.get(path)).json
            yield found["https"], [one["message"] for one in found["findings"] if not one["good"]]


async def test_a_proxy_that_connects_by_http_is_found_by_its_redirects_without_end(tmp_path: Path):
    async with checked(tmp_path, Mode(by_http=True)) as (https, advice):
        assert (https["reached"], https["redirects_to_itself"]) == (True, True)
        assert any("Full (strict)" in message for message in advice)


async def test_a_proxy_that_connects_by_https_is_found_good(tmp_path: Path):
    async with checked(tmp_path, Mode()) as (https, advice):
        assert (https["reached"], https["is_proxied"], https["redirects_to_itself"]) == (True, True, False)
        assert not any("Full (strict)" in message for message in advice)


@pytest.mark.parametrize(
    ("status", "words"),
    [(525, "there is no certificate for this name here yet"), (526, "does not trust the certificate")],
)
async def test_cloudflare_tells_by_its_status_why_it_does_not_connect(tmp_path: Path, status, words):
    async with checked(tmp_path, Mode(status=status)) as (https, advice):
        assert not https["reached"]
        assert any(words in message for message in advice)
    async with checked(tmp_path / "other", Mode(status=status, server="nginx")) as (https, advice):
        assert not https["reached"]
        assert not any(words in message for message in advice), "the status means this at Cloudflare only"
