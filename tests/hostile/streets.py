"""Organizations on one gateway: what they make, who holds each name, and which service answers under it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.fakes.engine import FakeEngine
from tests.gateway.routers.town import calling
from tests.world import HandClock, World, make_world
from windlass.base.ids import new_id
from windlass.control.deploying.routes import catch_up
from windlass.control.records.names import _HeldNames
from windlass.control.records.served_names import INSIDE_PREFIX
from windlass.engines.workload import Instance, Workload, WorkloadPort
from windlass.gateway.messages import ServiceTraffic, ServiceUses
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.builtin.table import Backend, Paths, RoutingTable
from windlass.store import ROUTE_PREFIX, NameRow, Tx

LATER = float("inf")
REPOSITORY = {"url": "https://git.example/acme/shop.git"}


class AnsweringEngine(FakeEngine):
    """Its instances answer HTTP with the id of their service."""

    def __init__(self) -> None:
        super().__init__("image")
        self._servers: list[asyncio.Server] = []

    async def run(self, wanted: Workload, index: int) -> Instance:
        made = await super().run(wanted, index)
        key = (wanted.service, wanted.generation, index)
        if made.address != "localhost" and wanted.ports:
            server = await asyncio.start_server(_answering(wanted.service), "127.0.0.1", 0)
            self._servers.append(server)
            number = int(server.sockets[0].getsockname()[1])
            ports = dict.fromkeys((port.internal for port in wanted.ports), number)
            made = self.instances[key] = replace(made, ports=ports)
        return made

    def close(self) -> None:
        for server in self._servers:
            server.close()


def _answering(service: str) -> Any:
    async def answer(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            out.write(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 36\r\n\r\n" + service.encode()
            )
        out.close()

    return answer


class Organization:
    """One tenant, with an Admin token of its own."""

    def __init__(self, world: World, id: str, token: str) -> None:
        self.world = world
        self.id = id
        self.token = token

    async def environment(self, name: str) -> str:
        body = {"name": f"project-{new_id()}"}
        project = await self.world.made(f"/organization/{self.id}/project", body, token=self.token)
        return await self.world.made(f"/project/{project}/environment", {"name": name}, token=self.token)

    async def application(self, environment: str, name: str, ports: Sequence[Mapping[str, Any]]) -> str:
        body = {"name": name, "git_repository": REPOSITORY, "ports": [*ports]}
        return await self.world.made(f"/environment/{environment}/application", body, token=self.token)

    async def deployed(self, environment: str, name: str, *ports: Mapping[str, Any]) -> str:
        app = await self.application(environment, name, ports)
        await self.deploy(app)
        return app

    async def deploy(self, app: str, action: str = "deploy") -> None:
        answer = await self.world.post(f"/application/{app}/{action}", token=self.token)
        assert answer.status == 202, answer
        await self.world.settle()

    async def links(self, app: str) -> list[str]:
        answer = await self.world.get(f"/application/{app}/link", token=self.token)
        return [str(link["url"]) for link in answer["results"]]


class StreetRouter(BuiltinRouter):
    """The real router, in the process of its server."""

    async def service_traffic(self) -> Sequence[ServiceTraffic]:
        return ()

    async def service_uses(self) -> ServiceUses:
        return ServiceUses(1e9, {})

    def hear_wakes(self, hear: Callable[[Sequence[str]], None]) -> None:
        """Nothing sleeps here."""


class Street:
    """A Windlass with the real router, closed and opened again as often as a test likes."""

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self._folder, self._url = folder, database_url
        self._clock, self.engine = HandClock(), AnsweringEngine()
        self._stack = contextlib.AsyncExitStack()
        self._told: set[str] = set()
        self.organizations: list[Organization] = []

    async def open(self) -> None:
        self.router = StreetRouter("127.0.0.1", 0)
        await self.router.start()
        self.world = await self._stack.enter_async_context(
            make_world(
                self._url, folder=self._folder, clock=self._clock, engine=self.engine, router=self.router
            )
        )
        self.ctx = self.world.installation.ctx
        self.ctx.store.listen(lambda word: self._told.add(word) if word.startswith(ROUTE_PREFIX) else None)
        for organization in self.organizations:
            organization.world = self.world

    async def close(self) -> None:
        await self._stack.aclose()

    async def restart(self, first: Sequence[str] = (), seed: int = 0) -> None:
        """Closed and opened again; routes are found in any order, those of some services first."""
        await self.close()
        await self.open()
        services = sorted(await self.ctx.store.reads.statuses.services())
        random.Random(seed).shuffle(services)
        for service in (*first, *services):
            await catch_up(self.ctx, service, LATER)
        await self.settle()

    async def settle(self) -> None:
        """Does what is due, and what the loop that keeps routes up to date would do."""
        await self.world.settle()
        told, self._told = self._told, set()
        for word in sorted(told):
            await catch_up(self.ctx, word.removeprefix(ROUTE_PREFIX), LATER)

    async def two_organizations(self) -> tuple[Organization, Organization]:
        for _ in range(2):
            self.organizations.append(Organization(self.world, *await self.world.organization()))
        return self.organizations[0], self.organizations[1]

    async def ask(self, host: str, path: str = "/") -> str:
        """The service that answers over HTTP, or the status of the router's own answer."""
        async with calling(self.router.port) as caller:
            said = await caller.ask(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return said.body.decode() if said.status == 200 else str(said.status)

    def led(self, label: str, path: str) -> str | None:
        """The service to which the table leads."""
        paths = self.router._table.host(f"{label}.localhost".encode())
        backend = paths.match(path.encode()) if paths else None
        return backend.route.service if backend else None

    async def holders(self) -> dict[str, str]:
        """The service that holds each name of a host or a port."""
        rows = [
            row
            for id in await self.ctx.store.reads.statuses.services()
            for row in await self.ctx.store.reads.names.of(id)
            if not row.name.startswith(INSIDE_PREFIX)
        ]
        assert len({row.name for row in rows}) == len(rows)
        return {row.name: row.service for row in rows}


@contextlib.asynccontextmanager
async def make_street(folder: Path, database_url: str = "") -> AsyncIterator[Street]:
    street = Street(folder, database_url)
    await street.open()
    try:
        yield street
    finally:
        await street.close()
        street.engine.close()


# How it was: for negative controls


_reserve = _HeldNames.reserve


async def compose(held: _HeldNames, tx: Tx, key: str, wish: str) -> NameRow:
    """As names were made before: what is reserved is not asked for."""
    return replace(await _reserve(held, tx, key, wish), name=wish)


def hold_anything(port: WorkloadPort, rows: Sequence[NameRow]) -> NameRow | None:
    return NameRow(port.host, "", "", port.host) if port.host else None


def merge_services(table: RoutingTable, key: bytes | int, claims: dict[str, list[Backend]]) -> None:
    """As the table was before: services of one host shared it by path."""
    by_path: dict[bytes, Backend] = {}
    for backends in claims.values():
        for backend in backends:
            if backend.route.kind == "http":
                by_path.setdefault(backend.path, backend)
    if by_path:
        table._found[key] = Paths(list(by_path.values()))
    else:
        table._found.pop(key, None)
    if not claims:
        del table._claims[key]
