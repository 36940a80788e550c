"""The cost of a long queue: of a claim among many waiting pieces, and of deployments among many.

In one process: stores with work that is never done, and two installations with engines that do nothing, so
that the control plane is all that is measured. All sides take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import uvloop
from msgspec import Struct

from bench.machine import SERVER_CORE, run_module
from tests.engines.servers import server
from tests.fakes.builder import FakeBuilder, FakeRepositories, FakeServers
from tests.fakes.engine import FakeEngine
from tests.fakes.router import FakeRouter
from windlass.base.clock import SystemClock
from windlass.base.http_out import HttpSender
from windlass.config import Settings
from windlass.control.background.worker import LEASE_TIME, Worker
from windlass.engines.workload import Instance, Workload
from windlass.gateway.link import GatewayLink
from windlass.install.composition import open_store
from windlass.install.connecting import ClusterConnector
from windlass.install.installation import Installation, install
from windlass.install.parts import Parts
from windlass.serve.server import tune_interpreter
from windlass.store import Queue, Store, Tx, builds_beside

ADMIN = "admin-token-of-the-bench-0123456789abcdef"
AT_ONCE = 4
"""Pieces in a claim: as many as deployments run at once."""
ORGANIZATIONS = 30
REPOSITORY = {"url": "https://git.example/acme/shop.git"}
_EACH = 100
"""Services of an environment."""
_BETWEEN = 0.005
"""Seconds between reads."""


class Waiting(Struct, frozen=True):
    folder: str
    postgres: str
    """The address of a server, for databases of its own."""
    counts: Sequence[int]
    """How many pieces wait."""
    claims: int
    """In each turn."""
    few: int
    many: int
    """Services that are deployed at once."""
    slice: int
    """Deployments in each turn."""
    rounds: int


class Found(Struct, frozen=True):
    """Round by round: milliseconds of a claim by database and count; deployments per second and the 95th of a
    hundred reads meanwhile, in milliseconds, by the number of services."""

    claims: Mapping[str, Mapping[str, Sequence[float]]]
    rates: Mapping[str, Sequence[float]]
    reads: Mapping[str, Sequence[float]]


def found(given: Waiting) -> Found:
    return msgspec.json.decode(
        run_module("bench.backlog", msgspec.json.encode(given), SERVER_CORE), type=Found
    )


# Claims


async def _claims(given: Waiting) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for database in ("SQLite", "PostgreSQL"):
        async with contextlib.AsyncExitStack() as stack:
            stores = {}
            for count in given.counts:
                url = await _database(given.postgres, count) if database == "PostgreSQL" else ""
                folder = Path(given.folder) / f"{database}-{count}"
                stores[str(count)] = await stack.enter_async_context(_filled(folder, url, count))
            found[database] = {name: [] for name in stores}
            for _ in range(given.rounds):
                for name, store in stores.items():
                    found[database][name].append(await _claim(store, given.claims))
    return found


async def _database(server: str, count: int) -> str:
    name = f"backlog_{count}"
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return server.replace("/postgres?", f"/{name}?")


@contextlib.asynccontextmanager
async def _filled(folder: Path, url: str, count: int) -> AsyncIterator[Store]:
    folder.mkdir()
    store = await open_store(Settings(data_dir=str(folder), database_url=url), SystemClock())

    async def change(tx: Tx) -> None:
        for number in range(count):
            await tx.work.schedule(
                "reconcile", f"service-{number}", tx.now - number, f"org-{number % ORGANIZATIONS}"
            )

    try:
        await store.write(change)
        yield store
    finally:
        await store.close()


async def _claim(store: Store, times: int) -> float:
    """Milliseconds of a claim, without its commit; what was claimed waits again."""
    took: list[float] = []

    async def change(tx: Tx) -> None:
        began = time.perf_counter()
        claims = await tx.work.claim(LEASE_TIME, AT_ONCE)
        took.append((time.perf_counter() - began) * 1000)
        assert len(claims) == AT_ONCE
        for claim in claims:
            await tx.work.reschedule(claim, tx.now)

    for _ in range(times):
        await store.write(change)
    return statistics.median(took)


# Deployments


class IdleEngine(FakeEngine):
    """Finds its instances at once, however many there are of other services."""

    def __init__(self) -> None:
        super().__init__("image")
        self.start_seconds = 0.0
        self._own: dict[str, dict[int, Instance]] = {}
        self.starts = 0

    async def run(self, wanted: Workload, index: int) -> Instance:
        own = self._own.setdefault(wanted.service, {})
        if wanted.generation not in own:
            await asyncio.sleep(self.start_seconds)
            own[wanted.generation] = await super().run(wanted, index)
            self.instances.clear()
            self.starts += 1
        return own[wanted.generation]

    async def copies(self, service: str) -> list[Instance]:
        return [*self._own.get(service, {}).values()]

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = 10.0,
    ) -> None:
        own = self._own.get(service, {})
        for gone in [one for one in own if generation in (None, one)]:
            del own[gone]


class Deployer:
    """An installation that deploys new services, so many at once, a slice of them at a time."""

    def __init__(self, installation: Installation, engine: IdleEngine, services: int) -> None:
        self.installation, self.engine, self._services = installation, engine, services
        self._made = 0
        self.project = ""
        self.environments: list[str] = []

    async def begin(self) -> None:
        org = (await self.ask("GET", "/organization"))["id"]
        self.project = (await self.ask("POST", f"/organization/{org}/project", {"name": "bench"}))["id"]

    async def turn(self, count: int) -> tuple[float, list[float]]:
        """Deployments per second, while all that were asked for at once wait; and the reads meanwhile."""
        worker = Worker(self.installation.ctx)
        first, took, reads = self.engine.starts, 0.0, list[float]()
        while self.engine.starts - first < count:
            if not await waits(self.installation):
                await self.ask_for_more()
            began = time.perf_counter()
            await self._work(worker, first + count, reads)
            took += time.perf_counter() - began
        done = self.engine.starts - first
        await worker.stop()
        return done / took, reads

    async def ask_for_more(self) -> None:
        environments = []
        for number in range(self._services):
            if number % _EACH == 0:
                body = {"name": f"environment-{self._made}"}
                made = await self.ask("POST", f"/project/{self.project}/environment", body)
                environments.append(made["id"])
            service = {"name": f"app-{self._made}", "git_repository": REPOSITORY}
            await self.ask("POST", f"/environment/{environments[-1]}/application", service)
            self._made += 1
        for environment in environments:
            await self.ask("POST", f"/environment/{environment}/deploy")
        self.environments += environments

    async def _work(self, worker: Worker, enough: int, reads: list[float]) -> None:
        """Until so many were started, or nothing waits."""
        working, reading = asyncio.create_task(worker.run()), asyncio.create_task(self._read(reads))
        while self.engine.starts < enough and (worker.running or await waits(self.installation)):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        for task in (working, reading):
            task.cancel()
        await asyncio.gather(working, reading, return_exceptions=True)

    async def _read(self, reads: list[float]) -> None:
        """From when each read should have begun: one that had to wait for its turn counts as slow."""
        due = time.perf_counter()
        while True:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await self.ask("GET", f"/project/{self.project}")
            reads.append((time.perf_counter() - due) * 1000)
            due += _BETWEEN

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        sent = msgspec.json.encode(body) if body is not None else b""
        headers = [(b"authorization", b"Token " + ADMIN.encode()), (b"content-type", b"application/json")]
        if sent:
            headers.append((b"content-length", str(len(sent)).encode()))
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "client": ("127.0.0.1", 50_000), "scheme": "http", "http_version": "1.1",
        }  # fmt: skip
        answered: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: Any) -> None:
            answered.append(message)

        await self.installation.app(scope, receive, send)
        assert answered[0]["status"] < 300, answered
        return msgspec.json.decode(b"".join(part.get("body", b"") for part in answered[1:]) or b"null")


async def waits(installation: Installation) -> bool:
    """True while a deployment waits or is under way."""
    queues = {Queue.RECONCILE, builds_beside(Queue.RECONCILE)}
    return not queues.isdisjoint(await installation.ctx.store.reads.work.due())


@contextlib.asynccontextmanager
async def deployer(folder: Path, services: int, at_once: int = AT_ONCE) -> AsyncIterator[Deployer]:
    engine = IdleEngine()
    parts = Parts(
        engine=engine,
        builder=FakeBuilder("image"),
        router=FakeRouter(),
        git=FakeRepositories(),
        servers=FakeServers(),
        connector=ClusterConnector(
            Settings(data_dir=str(folder)), server(folder, "bench"), GatewayLink(folder)
        ),
    )
    settings = Settings(
        data_dir=str(folder),
        admin_token=ADMIN,
        rate_limit=1_000_000_000,
        settle_seconds=0,
        parallel_deployments=at_once,
    )
    installation = await install(settings, parts=parts, transport=HttpSender(()))
    made = Deployer(installation, engine, services)
    try:
        await made.begin()
        yield made
    finally:
        await installation.stop()


async def _deployments(given: Waiting) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    rates: dict[str, list[float]] = {"few": [], "many": []}
    reads: dict[str, list[float]] = {"few": [], "many": []}
    folder = Path(given.folder)
    async with deployer(folder / "few", given.few) as few, deployer(folder / "many", given.many) as many:
        for number in range(given.rounds + 1):
            for name, side in (("few", few), ("many", many)):
                rate, waited = await side.turn(given.slice)
                if number:  # the first warms up
                    rates[name].append(rate)
                    reads[name].append(statistics.quantiles(waited, n=20)[-1])
    return rates, reads


async def _all(given: Waiting) -> Found:
    tune_interpreter()
    claims = await _claims(given)
    rates, reads = await _deployments(given)
    return Found(claims, rates, reads)


def main() -> None:
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Waiting)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(_all(given))))


if __name__ == "__main__":
    main()
