"""A certificate of a real authority at a real gateway: Pebble, with which Let's Encrypt tests clients."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.domains.pebble import TRIES, Pebble
from tests.domains.scene import KEY
from tests.domains.served import SHOP, add, published, read
from tests.fakes.name_server import NameServer, name_server
from tests.free_ports import free_port
from tests.gateway.gateway_town import make_gateway_town
from tests.gateway.routers.town import Caller, Town, request, until
from tests.needs import needs
from tests.world import HandClock, World, make_world
from windlass.control.records.acme_accounts import client_of
from windlass.store import CertificateRow

pytestmark = [needs("pebble"), pytest.mark.slow]

RECORD = "_acme-challenge.apps.example.com"


async def visit(port: int, root: str, host: str = SHOP) -> dict[str, Any]:
    """Returns the certificate that a visitor gets, once it was verified."""
    context = ssl.create_default_context(cadata=root)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
    found = writer.get_extra_info("peercert")
    writer.close()
    return dict(found)


async def redirect(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /page HTTP/1.1\r\nHost: {SHOP}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read(4096)
    writer.close()
    return answer


class Shop:
    """A domain at a real gateway, for which a real authority issues certificates."""

    def __init__(self, world: World, town: Town, pebble: Pebble, https: int, dns: NameServer) -> None:
        self.world, self.town, self.pebble, self.https, self.dns = world, town, pebble, https, dns
        self.app, self.id = "", ""

    async def add(self) -> None:
        self.app = await published(self.world)
        document = await add(self.world, self.app, generate_certificate=True)
        self.id = document["id"]
        self.dns.set(SHOP, ("CNAME", document["validation_domain"]))
        self.world.clock.turn(60)

    async def revoke(self, row: CertificateRow) -> None:
        """The authority revokes a certificate, as after it was issued wrongly."""
        ctx = self.world.installation.ctx
        client = await client_of(ctx, ctx.authority)
        url = f"https://127.0.0.1:{self.pebble.port}/revoke-cert"
        (leaf, *_) = x509.load_pem_x509_certificates(row.chain.encode())
        der = base64.urlsafe_b64encode(leaf.public_bytes(Encoding.DER)).rstrip(b"=").decode()
        await client._post(url, {"certificate": der})

    async def live(self, before: str = "") -> Any:
        """Waits for a certificate other than that with the given fingerprint."""
        for _ in range(TRIES):
            await self.world.settle()
            self.world.clock.turn(2)
            now = await read(self.world, self.app, self.id)
            row = await self.world.installation.ctx.store.reads.certificates.get(self.id)
            if row and row.fingerprint != before:
                assert now["certificate_state"] == "LIVE"
                await self.world.installation.certificates.deliver_changes()
                return row
            await asyncio.sleep(0.1)
        raise AssertionError((now, self.pebble.log()))


@contextlib.asynccontextmanager
async def shop(folder: Path, *, has_http: bool = True) -> AsyncIterator[Shop]:
    """`has_http`: whether the authority reaches the gateway at its port for HTTP."""
    https = free_port()
    async with make_gateway_town(folder, https) as town, name_server() as dns:
        http = town.router.port if has_http else free_port()
        pebble = Pebble(folder, http, https, dns.address)
        dns.set("*.apps.example.com", ("A", "127.0.0.1"))
        dns.key = KEY, b"secret of the key"
        dns.serve_zone("apps.example.com")
        async with (
            pebble.running(),
            make_world(
                router=cast(Any, town.router),
                clock=HandClock(round(time.time() * 1000)),
                dns_servers=(dns.address,),
                public_domain="apps.example.com",
                acme_directory=f"https://127.0.0.1:{pebble.port}/dir",
                acme_ca_file=str(pebble.own.file),
                acme_email="ops@example.com",
                https_port=https,
                dns_provider="rfc2136",
                dns_update_server=dns.address,
                dns_credentials=f"{KEY}:{base64.b64encode(dns.key[1]).decode()}",
            ) as world,
        ):
            world.installation.ctx.dns.zone_port = dns.port
            world.engine.answers_at = (await town.instance()).port
            there = Shop(world, town, pebble, https, dns)
            await there.add()
            yield there


async def test_a_real_authority_issues_and_renews_what_a_real_gateway_serves(tmp_path):
    async with shop(tmp_path) as there:
        world, town = there.world, there.town
        first = await there.live()
        world.installation.routes.note([there.app])
        await world.installation.routes.catch_up(10)
        root = await there.pebble.root()
        assert (await visit(there.https, root))["subjectAltName"] == (("DNS", SHOP),)
        for _ in range(TRIES):
            await world.settle()
            world.clock.turn(2)
            await world.installation.certificates.deliver_changes()
            if len(await town.router.certificates()) == 2 and not there.dns.texts(RECORD):
                break
            await asyncio.sleep(0.1)
        (shared,) = [id for id in await town.router.certificates() if id != there.id]
        shown = await visit(there.https, root, "any.apps.example.com")
        assert shown["subjectAltName"] == (("DNS", shared),)
        assert there.dns.texts(RECORD) == []
        assert (await redirect(town.router.port)).startswith(b"HTTP/1.1 308 ")
        world.clock.ms = first.renew + 1
        renewed = await there.live(first.fingerprint)
        assert (await visit(there.https, root))["subjectAltName"] == (("DNS", SHOP),)
        assert (await town.router.certificates())[there.id] == renewed.fingerprint


class Visitors:
    """They load the page over HTTPS again and again, some with a connection that they keep."""

    def __init__(self, port: int, root: str) -> None:
        self._port, self._trust = port, ssl.create_default_context(cadata=root)
        self._over = asyncio.Event()
        self.pages = 0
        self.serials: list[str] = []
        """The certificates that they have got, in order."""

    @contextlib.asynccontextmanager
    async def coming(self) -> AsyncIterator[None]:
        visits = [asyncio.create_task(self._visit(pages)) for pages in (1, 1, 20, 1000)]
        try:
            yield
        finally:
            self._over.set()
            await asyncio.gather(*visits)

    async def _visit(self, pages: int) -> None:
        while not self._over.is_set():
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self._port, ssl=self._trust, server_hostname=SHOP
            )
            caller = Caller(reader, writer)
            self.serials.append(dict(writer.get_extra_info("peercert"))["serialNumber"])
            for _ in range(pages):
                said = await caller.ask(request(host=SHOP))
                assert (said.status, said.body) == (200, b"one"), said
                self.pages += 1
                await asyncio.sleep(0.002)
                if self._over.is_set():
                    break
            await caller.close()


async def test_a_revoked_certificate_is_replaced_within_hours_and_no_request_fails_meanwhile(tmp_path):
    async with shop(tmp_path) as there:
        world = there.world
        first = await there.live()
        world.installation.routes.note([there.app])
        await world.installation.routes.catch_up(10)
        visitors = Visitors(there.https, await there.pebble.root())
        async with visitors.coming():
            world.clock.turn(7 * 3600)
            await world.settle()
            same = await world.installation.ctx.store.reads.certificates.get(there.id)
            assert same
            assert same.fingerprint == first.fingerprint, "the control"
            await there.revoke(first)
            world.clock.turn(7 * 3600)
            await there.live(first.fingerprint)
            before = visitors.pages
            await until(lambda: visitors.pages >= before + 100)
    assert len(set(visitors.serials)) == 2


async def test_a_real_authority_takes_a_proof_over_tls_where_port_80_does_not_lead_here(tmp_path):
    async with shop(tmp_path, has_http=False) as there:
        await there.live()
        assert (await visit(there.https, await there.pebble.root()))["subjectAltName"] == (("DNS", SHOP),)
