"""Opens a domain as a visitor does, by HTTP and by TLS, and finds out whether the gateway of this server
answers.

The gateway gets the answer to a challenge that nobody else knows. By TLS, this is a certificate for the
protocol of tls-alpn-01, which it shows before the name has a certificate of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import ssl
from typing import Final

from msgspec import UNSET, Struct

from windlass.base.certificates import challenge_certificate
from windlass.base.dns import DnsFailure
from windlass.base.http_out import AddressRefused, HttpResult, NoAnswer
from windlass.control.context.context import Context
from windlass.control.services.domain_proxies import problem_of_status, proxy_of_answer
from windlass.control.services.domain_records import DomainRecords, asked_name
from windlass.core.declare.fields import Maybe
from windlass.families.domain import PortAnswer, Proxy
from windlass.routers.router import CHECK_PREFIX, Certificate, Challenge, RouteError

_PATH: Final = "/.well-known/acme-challenge/windlass-"
"""The path at which the gateway answers, followed by a random word. Challenges come before all routes."""
_TIMEOUT: Final = 5.0
_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_MAX_ADDRESSES: Final = 4
"""The number of addresses of a name that are opened by TLS."""
_PROTOCOL: Final = "acme-tls/1"
BY_TLS: Final = "tls-alpn-01"
"""The type of the challenges that the gateway answers by the same means."""
_NO_ADDRESS_PROBLEM: Final = "It has no address that can be opened."


class DomainVisits(Struct, frozen=True):
    """What the ports of a domain answer."""

    http: PortAnswer
    https: Maybe[PortAnswer] = UNSET
    """Missing if the gateway has no port for HTTPS."""
    proxy: Proxy = ""
    """The provider whose proxy has passed the answer on."""


async def visit(ctx: Context, records: DomainRecords, *, by_tls: bool) -> DomainVisits:
    """Opens a domain at its port for HTTP, and at that for HTTPS if there is one and `by_tls` is given. Only
    this gateway answers rightly."""
    has_https = by_tls and bool(ctx.settings.https_port)
    if not records.addresses:
        return _failed(ctx, _NO_ADDRESS_PROBLEM, has_https=has_https)
    word, answer = secrets.token_hex(8), secrets.token_hex(16).encode()
    host, path, id = asked_name(records.name), f"{_PATH}{word}", f"{CHECK_PREFIX}{word}"
    chain, key = challenge_certificate(host, answer, ctx.clock.now())
    certificate = Certificate((host,), chain.encode(), key) if has_https else None
    router = ctx.places.local.router
    try:
        await router.put_challenge(id, Challenge(host, path, answer, certificate))
        try:
            opening = _Visit(ctx, records, host, path, answer, chain)
            http, proxy = await opening.by_http()
            https: Maybe[PortAnswer] = await opening.by_tls() if has_https else UNSET
        finally:
            await router.drop_challenge(id)
    except RouteError as error:
        return _failed(ctx, f"The gateway does not answer: {error}", has_https=has_https)
    return DomainVisits(http, https, proxy)


def _failed(ctx: Context, problem: str, *, has_https: bool) -> DomainVisits:
    http, https = (
        PortAnswer(port=port, reached=False, problem=problem)
        for port in (ctx.visits.port, ctx.visits.https_port)
    )
    return DomainVisits(http, https if has_https else UNSET)


class _Visit:
    def __init__(
        self, ctx: Context, records: DomainRecords, host: str, path: str, answer: bytes, chain: str
    ) -> None:
        self._ctx, self._records = ctx, records
        self._host, self._path, self._answer = host, path, answer
        self._certificate = hashlib.sha256(ssl.PEM_cert_to_DER_cert(chain)).digest()

    async def by_http(self) -> tuple[PortAnswer, Proxy]:
        port = self._ctx.visits.port
        try:
            answer = await self._fetch("http", port)
        except (NoAnswer, AddressRefused, DnsFailure) as error:
            return self._missed(port, str(error)), ""
        proxy = proxy_of_answer(answer.headers)
        if self._is_ours(answer):
            return PortAnswer(port=port, reached=True), proxy
        return self._missed(port, _other_server(answer)), proxy

    async def by_tls(self) -> PortAnswer:
        """Begins TLS at the addresses of the domain. If another server answers there, it may be a proxy that
        passes requests on to this gateway."""
        port = self._ctx.visits.https_port
        found = await asyncio.gather(
            *(self._shows_ours(address, port) for address in self._records.addresses[:_MAX_ADDRESSES])
        )
        if not (problems := [problem for problem in found if problem]):
            return PortAnswer(port=port, reached=True)
        try:
            answer = await self._fetch("https", port)
            if self._is_ours(answer):
                loops = await self._redirects_to_itself(port)
                return PortAnswer(port=port, reached=True, is_proxied=True, redirects_to_itself=loops)
            if words := problem_of_status(answer):
                return self._missed(port, words)
        except (NoAnswer, AddressRefused, DnsFailure):
            pass  # the first problem says more
        return self._missed(port, problems[0])

    async def _redirects_to_itself(self, port: int) -> bool:
        """Returns whether a proxy passes requests by HTTPS on by HTTP, so that the gateway redirects them to
        HTTPS again. Challenges are never redirected, so another path is asked for."""
        path = f"/windlass-check-{secrets.token_hex(8)}"
        try:
            answer = await self._fetch("https", port, path)
        except (NoAnswer, AddressRefused, DnsFailure):
            return False
        here = {f"https://{self._host}{path}", f"https://{self._host}:{port}{path}"}
        return answer.status in _REDIRECTS and answer.headers.get("location") in here

    async def _shows_ours(self, address: str, port: int) -> str:
        """Returns why the gateway was not reached at an address; empty if it was."""
        try:
            shown = await self._ctx.visits.tls.certificate(
                address, port, self._host, _PROTOCOL, seconds=_TIMEOUT
            )
        except (NoAnswer, AddressRefused) as error:
            return str(error)
        is_ours = hashlib.sha256(shown).digest() == self._certificate
        return "" if is_ours else f"another server answers at {address}, or a proxy that ends TLS."

    async def _fetch(self, scheme: str, port: int, path: str = "") -> HttpResult:
        url = f"{scheme}://{self._host}:{port}{path or self._path}"
        return await self._ctx.visits.http.send("GET", url, seconds=_TIMEOUT)

    def _is_ours(self, answer: HttpResult) -> bool:
        return answer.status == 200 and answer.body == self._answer

    def _missed(self, port: int, reason: str) -> PortAnswer:
        advice = f"Let port {port} of {self._host} lead to this gateway"
        return PortAnswer(port=port, reached=False, problem=f"{advice}: {reason}")


def _other_server(answer: HttpResult) -> str:
    name = answer.headers.get("server", "")[:60]
    named = f"{name}, " if name.isprintable() and name else ""
    return f"another server answers there ({named}{answer.status})."
