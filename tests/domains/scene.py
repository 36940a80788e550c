"""A world with its name server and its authority."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ObjectIdentifier

from tests.domains.served import add, published
from tests.fakes.authority import FakeAuthority, fake_authority
from tests.fakes.name_server import NameServer, name_server
from tests.world import HandClock, World, make_world

KEY = "acme.example.net"
"""The name of the key for updates."""


class Scene:
    """A world with its name server and its authority, which looks at challenges at the gateway."""

    def __init__(self, world: World, dns: NameServer, authority: FakeAuthority) -> None:
        self.world, self.dns, self.authority = world, dns, authority
        authority.look = self.visit
        authority.look_at_texts = self.texts
        world.installation.ctx.dns.zone_port = dns.port
        authority.look_by_tls = self.visit_by_tls

    def visit(self, host: str, path: str) -> bytes | None:
        return next(
            (
                challenge.answer
                for challenge in self.world.router.held_challenges.values()
                if (challenge.host, challenge.path) == (host, path)
            ),
            None,
        )

    def texts(self, name: str) -> list[str]:
        """The TXT records of a name, as the world sees them."""
        for _ in range(5):
            alias = next((value for kind, value in self.dns.records.get(name, []) if kind == "CNAME"), "")
            name = alias or name
        return self.dns.texts(name)

    def visit_by_tls(self, host: str) -> bytes | None:
        """Returns the digest in the certificate for `acme-tls/1`, as RFC 8737 has it."""
        for challenge in self.world.router.held_challenges.values():
            if challenge.certificate and challenge.host == host:
                (leaf,) = x509.load_pem_x509_certificates(challenge.certificate.chain)
                found = leaf.extensions.get_extension_for_oid(ObjectIdentifier("1.3.6.1.5.5.7.1.31"))
                assert found.critical
                names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
                assert names.get_values_for_type(x509.DNSName) == [host]
                assert isinstance(found.value, x509.UnrecognizedExtension)
                return found.value.value.removeprefix(b"\x04\x20")
        return None

    async def proved(self, **fields: Any) -> tuple[str, str]:
        """A proved domain that is to have a certificate: the application and the domain."""
        app = await published(self.world)
        document = await add(self.world, app, **({"generate_certificate": True} | fields))
        self.dns.set(document["domain"], ("CNAME", document["validation_domain"]))
        self.world.clock.turn(60)
        return app, document["id"]

    async def pass_time(self, seconds: float, step: float = 2) -> None:
        for _ in range(round(seconds / step)):
            await self.world.settle()
            self.world.clock.turn(step)
        await self.world.settle()

    async def held(self) -> dict[str, Any]:
        """The certificates of the gateway."""
        await self.world.installation.certificates.deliver_changes()
        return dict(self.world.router.held_certificates)


@contextlib.asynccontextmanager
async def scene(database_url: str = "", *, with_zone: bool = False, **settings: Any) -> AsyncIterator[Scene]:
    """`with_zone`: Windlass may update the zone apps.example.com at its name server."""
    clock = settings.pop("clock", None) or HandClock()
    async with name_server() as dns, fake_authority(clock.now) as authority:
        dns.set("*.apps.example.com", ("A", "203.0.113.10"))
        if with_zone:
            dns.key = KEY, b"secret of the key"
            dns.serve_zone("apps.example.com")
            settings |= {
                "dns_provider": "rfc2136",
                "dns_update_server": dns.address,
                "dns_credentials": f"{KEY}:{base64.b64encode(dns.key[1]).decode()}",
            }
        given: dict[str, Any] = {
            "dns_servers": (dns.address,),
            "public_domain": "apps.example.com",
            "acme_directory": f"{authority.url}/directory",
            "https_port": 443,
            "public_domain_certificates": False,
        } | settings
        async with make_world(database_url, clock=clock, **given) as world:
            yield Scene(world, dns, authority)
