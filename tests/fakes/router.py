"""A router for tests: listens on nothing, and remembers where everything leads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from windlass.base.metrics import Metric
from windlass.routers.router import Endpoint, IsKnown, Listen, Route, RouteError


class FakeRouter:
    def __init__(self, port: int = 8081) -> None:
        self.port = port
        self.runs = False
        self.listening: dict[str, tuple[Listen, ...]] = {}
        self.routes: dict[str, tuple[Route, ...]] = {}
        self.drained: list[Endpoint] = []
        self.is_complete = False

    async def start(self) -> None:
        self.runs = True

    async def stop(self) -> None:
        self.runs = False

    async def retire(self, patience: float) -> None:
        self.runs = False

    async def reserve(self, service: str, ports: Sequence[Listen]) -> None:
        wanted = {one.port for one in ports}
        for other, held in self.listening.items():
            if other != service and (both := wanted & {one.port for one in held}):
                raise RouteError(f"port {min(both)} is in use by another service: choose another one")
        self.listening[service] = tuple(ports)

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        self.routes[service] = tuple(routes)

    async def drain(self, endpoints: Sequence[Endpoint], patience: float) -> None:
        self.drained.extend(endpoints)

    async def forget(self, service: str) -> None:
        self.listening.pop(service, None)
        self.routes.pop(service, None)

    async def complete(self) -> None:
        self.is_complete = True

    async def metrics(self) -> Sequence[Metric]:
        return ()

    async def services(self) -> Collection[str]:
        return self.listening.keys() | self.routes.keys()

    async def close_others(self, is_known: IsKnown, patience: float) -> None:
        """There are none: each fake router is alone."""
