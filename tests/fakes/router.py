"""A router for tests: listens on nothing, and remembers where everything leads."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence

from windlass.base.metrics import Metric
from windlass.gateway.messages import ServiceTraffic, ServiceUses
from windlass.routers.router import (
    Certificate,
    Challenge,
    Endpoint,
    IsKnown,
    Listen,
    Route,
    RouteError,
)


class FakeRouter:
    def __init__(self, port: int = 8081) -> None:
        self.port = port
        self.runs = False
        self.listening: dict[str, tuple[Listen, ...]] = {}
        self._holders: dict[int, str] = {}
        """The services that have ports, by port."""
        self.routes: dict[str, tuple[Route, ...]] = {}
        self.drained: list[Endpoint] = []
        self.is_complete = False
        self.held_certificates: dict[str, Certificate] = {}
        self.held_challenges: dict[str, Challenge] = {}
        self.answers: dict[str, int] = {}
        """How often each challenge was answered, as the test says."""
        self.told: dict[str, ServiceTraffic] = {}
        """By service: the requests that it has counted."""
        self.age = 1e9
        """How long it has counted them, in seconds."""
        self.ask_wakes: Callable[[Sequence[str]], None] = lambda services: None
        """Tells the server that requests wait for services."""
        self.problem = ""
        """If set, it does not tell what it has counted, for this reason."""

    async def start(self) -> None:
        self.runs = True

    async def stop(self) -> None:
        self.runs = False

    async def retire(self, timeout: float) -> None:
        self.runs = False

    async def reserve(self, service: str, ports: Sequence[Listen]) -> None:
        wanted = {one.port for one in ports}
        if taken := [port for port in wanted if self._holders.get(port, service) != service]:
            raise RouteError(f"Choose another external_port: port {min(taken)} is in use by another service")
        self._give_back(service)
        self._holders |= dict.fromkeys(wanted, service)
        self.listening[service] = tuple(ports)

    def _give_back(self, service: str) -> None:
        for one in self.listening.pop(service, ()):
            del self._holders[one.port]

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        self.routes[service] = tuple(routes)

    async def drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        self.drained.extend(endpoints)

    async def forget(self, service: str) -> None:
        self._give_back(service)
        self.routes.pop(service, None)

    async def complete(self) -> None:
        self.is_complete = True

    async def keep(self, *, stays: bool) -> None:
        """Does nothing, because this router keeps no ports of the server."""

    async def metrics(self) -> Sequence[Metric]:
        return ()

    async def service_traffic(self) -> Sequence[ServiceTraffic]:
        if self.problem:
            raise RouteError(self.problem)
        return tuple(self.told.values())

    async def service_uses(self) -> ServiceUses:
        return ServiceUses(self.age, {row.service: row for row in await self.service_traffic()})

    def hear_wakes(self, hear: Callable[[Sequence[str]], None]) -> None:
        self.ask_wakes = hear

    async def services(self) -> Collection[str]:
        return self.listening.keys() | self.routes.keys()

    async def put_certificate(self, id: str, certificate: Certificate) -> None:
        self.held_certificates[id] = certificate

    async def drop_certificate(self, id: str) -> None:
        self.held_certificates.pop(id, None)

    async def certificates(self) -> Mapping[str, str]:
        return {id: _leaf_hash(one.chain.decode()) for id, one in self.held_certificates.items()}

    async def put_challenge(self, id: str, challenge: Challenge) -> None:
        self.held_challenges[id] = challenge

    async def drop_challenge(self, id: str) -> None:
        self.held_challenges.pop(id, None)

    async def challenges(self) -> Mapping[str, int]:
        return {id: self.answers.get(id, 0) for id in self.held_challenges}

    async def close_others(self, is_known: IsKnown, timeout: float) -> None:
        """There are none: each fake router is alone."""


def _leaf_hash(chain: str) -> str:
    leaf, end, _ = chain.partition("-----END CERTIFICATE-----")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(leaf + end)).hexdigest()
