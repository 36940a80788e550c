"""A whole Windlass inside a test: real HTTP layer, real SQL, a fake engine, a clock turned by hand.

    async with make_world() as world:
        project = await world.project()
        answer = await world.get(f"/project/{project}")

Nothing of ours is patched but `_SLOT_SECONDS`: what a test may bend comes in through `install`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from msgspec.structs import replace

from tests.fakes.builder import FakeBuilder, FakeRepositories, FakeServers
from tests.fakes.engine import FakeEngine, FakeProbes
from tests.fakes.programs import FakePrograms
from tests.fakes.router import FakeRouter
from tests.interface import calls
from tests.tokens import ADMIN as ADMIN
from windlass.base.clock import SECOND
from windlass.base.errors import Invalid
from windlass.base.http_out import HttpResult, NoAnswer
from windlass.base.private import private_file
from windlass.config import DATABASE, Settings
from windlass.control.context.context import OutgoingHttp, Repositories
from windlass.control.context.place import EngineAccess, HttpRouter, Place
from windlass.control.context.places import LOCAL_ID, Places
from windlass.control.kinds import find_kinds, kinds_of
from windlass.control.kinds.service_kind import AnyKind
from windlass.control.records.sole_organization import note_sharing
from windlass.core.declare.registry import Registry
from windlass.engines.servers import Servers
from windlass.helm.kind import HelmKind
from windlass.install.installation import Installation, install
from windlass.install.parts import Parts
from windlass.store import CLUSTER_PREFIX
from windlass.store.migrate import migrations
from windlass.store.sqlite import connect, migrate
from windlass.terraform.kind import TerraformKind
from windlass.terraform.programs import Programs

NOON = 1_790_000_000_000
REPOSITORY = "https://git.example/acme/shop.git"


class HandClock:
    """Stands still until a test turns it."""

    def __init__(self, now: int = NOON) -> None:
        self.ms = now

    def now(self) -> int:
        return self.ms

    def turn(self, seconds: float) -> None:
        self.ms += round(seconds * SECOND)


class Answer:
    """The answer to a request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["message"])

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class NoWayOut:
    """A test reaches no other server, unless it names one."""

    async def send(self, method: str, url: str, *_: Any, **__: Any) -> HttpResult:
        raise NoAnswer(f"this test reaches nobody, and not {url}")

    async def fetch(self, url: str) -> bytes:
        raise OSError(f"this test reaches nobody, and not {url}")

    async def close(self) -> None:
        """Has nothing to close."""


NO_WAY_OUT = NoWayOut()
HELM_PROGRAM = "/usr/bin/helm"
"""Where the machine of a test has Helm, unless the test says something else."""


class World:
    def __init__(
        self, installation: Installation, clock: HandClock, engine: FakeEngine, folder: Path
    ) -> None:
        self.installation = installation
        self.clock = clock
        self.engine = engine
        self.folder = folder
        self.builder: Any = installation.ctx.places.local.builder
        self.git: Any = installation.ctx.git
        self.router: Any = installation.ctx.places.local.router
        self.token: str | None = ADMIN
        self.org = ""
        self._names = 0

    @property
    def probes(self) -> FakeProbes:
        return self.engine.probes

    # HTTP

    async def call(
        self,
        method: str,
        path: str,
        body: Any = msgspec.UNSET,
        *,
        token: str | msgspec.UnsetType | None = msgspec.UNSET,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        address: str = "203.0.113.7",
    ) -> Answer:
        """One request, as uvicorn would hand it over. `token` is the whole header if it has a blank in it."""
        path, _, query = path.partition("?")
        sent = raw if raw is not None else b"" if body is msgspec.UNSET else json.dumps(body).encode()
        given = {name.lower(): value for name, value in (headers or {}).items()}
        credential = self.token if token is msgspec.UNSET else token
        if credential is not None and "authorization" not in given:
            given["authorization"] = credential if " " in credential else f"Token {credential}"
        if sent:
            given.setdefault("content-type", "application/json")
            given.setdefault("content-length", str(len(sent)))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
            "client": (address, 50_000),
        }
        answer = await _asked(self.installation.app, scope, sent)
        calls.note(method, path, answer.status)
        return answer

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = msgspec.UNSET, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def put(self, path: str, body: Any = msgspec.UNSET, **options: Any) -> Answer:
        return await self.call("PUT", path, body, **options)

    async def patch(self, path: str, body: Any = msgspec.UNSET, **options: Any) -> Answer:
        return await self.call("PATCH", path, body, **options)

    async def delete(self, path: str, body: Any = msgspec.UNSET, **options: Any) -> Answer:
        return await self.call("DELETE", path, body, **options)

    # Things to test with; each answers the id

    def name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names}"

    async def made(self, path: str, body: Mapping[str, Any], **options: Any) -> str:
        answer = await self.post(path, body, **options)
        assert answer.status in {200, 201}, answer
        return str(answer["id"])

    async def project(self, **fields: Any) -> str:
        return await self.made(f"/organization/{self.org}/project", {"name": self.name("project")} | fields)

    async def environment(self, project: str | None = None, **fields: Any) -> str:
        project = project or await self.project()
        return await self.made(f"/project/{project}/environment", {"name": self.name("env")} | fields)

    async def application(self, environment: str | None = None, **fields: Any) -> str:
        environment = environment or await self.environment()
        body = {"name": self.name("app"), "git_repository": {"url": REPOSITORY, "branch": "main"}}
        return await self.made(f"/environment/{environment}/application", body | fields)

    async def database(self, environment: str | None = None, **fields: Any) -> str:
        environment = environment or await self.environment()
        body = {"name": self.name("db"), "type": "POSTGRESQL", "version": "16", "mode": "CONTAINER"}
        return await self.made(f"/environment/{environment}/database", body | fields)

    async def new_token(self, *scopes: str, **fields: Any) -> str:
        body = {"name": self.name("token"), "scopes": list(scopes)} | fields
        answer = await self.post(f"/organization/{self.org}/apiToken", body)
        assert answer.status == 201, answer
        return str(answer["token"])

    async def organization(self) -> tuple[str, str]:
        """Another organization, and an Admin token of it."""
        answer = await self.post("/organization", {"name": self.name("organization"), "plan": "FREE"})
        assert answer.status == 201, answer
        return str(answer["id"]), str(answer["admin_token"])

    # Time

    async def settle(self) -> None:
        """Lets all work that is due now be done."""
        await self.installation.ctx.places.catch_up()
        await self.installation.worker.settle()

    async def compare_instances(self) -> None:
        """Compares what should run with what is there, at places that are due, and mends it."""
        await self.installation.instance_check.compare_scheduled()
        await self.installation.note_changes()
        await self.settle()

    async def run(self, seconds: float) -> None:
        """Lets time pass, with the work that falls due in it."""
        for _ in range(max(1, round(seconds))):
            await self.settle()
            self.clock.turn(1)
        await self.settle()

    async def state(self, path: str) -> str:
        return str((await self.get(f"{path}/status"))["state"])

    async def events(self, kind: str | None = None) -> list[Any]:
        rows = await self.installation.ctx.store.reads.events.after(self.org)
        return [row for row in rows if kind is None or row.kind == kind]


class FakeConnector:
    """Clusters at other addresses: each has a fake engine of its own."""

    def __init__(self) -> None:
        self.engines: dict[str, FakeEngine] = {}
        """By cluster."""
        self.problem = ""
        """The reason why engines cannot be connected; empty if they can."""
        self.port_trouble = ""
        """The reason why ports of routers cannot be used; empty if they can."""
        self.routers: list[FakeRouter] = []
        """Routers with a port of their own, in the order of their creation."""
        self.engine_id = "ABCD:EFGH"
        """The id of the engine at every address."""
        self.checked: list[EngineAccess] = []
        self.reconnected: list[EngineAccess] = []

    def place(self, access: EngineAccess, local: Place) -> Place:
        engine = self.engines.setdefault(access.cluster, FakeEngine("image"))
        return replace(
            local,
            id=access.cluster,
            engine=engine,
            builder=FakeBuilder(engine.takes),
            is_connected=True,
            reconnect=self._reconnect,
        )

    def router(self, access: EngineAccess) -> FakeRouter:
        router = FakeRouter(access.router_port)
        self.routers.append(router)
        return router

    async def check_port(self, access: EngineAccess, local: Place) -> None:
        if self.port_trouble:
            raise Invalid(self.port_trouble)

    async def identity(self, access: EngineAccess) -> str:
        self.checked.append(access)
        if self.problem:
            raise Invalid(self.problem)
        return self.engine_id

    async def _reconnect(self, access: EngineAccess) -> None:
        self.reconnected.append(access)


def fake_parts(
    engine: FakeEngine,
    router: HttpRouter | None = None,
    git: Repositories | None = None,
    servers: Servers | None = None,
    owner: str | Callable[[], str] = "",
    home: str = "",
    server: str = "",
) -> Parts:
    return Parts(
        engine=engine,
        builder=FakeBuilder(engine.takes),
        router=router or FakeRouter(),
        git=git or FakeRepositories(),
        servers=servers or FakeServers(),
        connector=FakeConnector(),
        owner=owner if callable(owner) else (lambda: owner) if owner else None,
        home=home,
        server=server,
    )


_WAITING = importlib.import_module("windlass.control.deploying.steps.outcome")
_SLOT_SECONDS = 0.2
"""The time for which a worker waits for the end of a run before it does other work. A run of a fake engine
ends at once, or waits for its test, whose clock stands still."""


@contextlib.asynccontextmanager
async def make_world(
    database_url: str = "",
    *,
    folder: Path | None = None,
    clock: HandClock | None = None,
    engine: FakeEngine | None = None,
    fetcher: Callable[[str], Awaitable[bytes]] | None = None,
    families: Registry | None = None,
    kinds: Mapping[str, AnyKind] | None = None,
    out: OutgoingHttp | None = NO_WAY_OUT,
    router: HttpRouter | None = None,
    git: Repositories | None = None,
    servers: Servers | None = None,
    owner: str | Callable[[], str] = "",
    home: str = "",
    programs: Programs | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """A Windlass that lives as long as the `async with`; `folder` lets it be opened again. With `out=None` it
    has the way out of a real one."""
    clock, engine = clock or HandClock(), engine or FakeEngine()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(_WAITING, "SLOT_SECONDS", _SLOT_SECONDS))
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-")))
        if not database_url:
            _put_database(where / DATABASE)
        given: dict[str, Any] = {
            "admin_token": ADMIN,
            "rate_limit": 1_000_000,
            "database_url": database_url,
            "settle_seconds": 0,
            "public_ports": "1024-65535",
            "containers_url": "http://windlass.example.com:8080",
            "dns_servers": ("127.0.0.1:1",),  # no test asks the name servers of its machine
        } | settings
        chosen = Settings(data_dir=str(where), **given)
        installation = await install(
            chosen,
            clock=clock,
            parts=fake_parts(engine, router, git, servers, owner, home, where.name if owner else ""),
            fetcher=fetcher,
            families=families,
            kinds=_with_programs(kinds or _installed_kinds(), programs or FakePrograms()),
            transport=out,
        )
        places, note = installation.ctx.places, installation.instance_check.note
        await engine.start(installation.note_change, installation.ctx.logs.take, partial(note, LOCAL_ID))
        await places.start(installation.note_change, installation.ctx.logs.take, note)
        await note_sharing(installation.ctx)
        installation.ctx.store.listen(_clusters_to(places))
        installation.metrics.kept_seconds = 0  # a test sees what it has just done
        world = World(installation, clock, engine, where)
        try:
            world.org = str((await world.get("/organization"))["id"])
            yield world
        finally:
            await installation.stop()


@cache
def _installed_kinds() -> Mapping[str, AnyKind]:
    """Saves each world from looking through the installed packages, which is a fifth of what it costs."""
    return kinds_of(*find_kinds())


def _with_programs(kinds: Mapping[str, AnyKind], programs: Programs) -> Mapping[str, AnyKind]:
    """No test starts the programs of its machine, unless it says so."""
    given: dict[type[AnyKind], Callable[[], AnyKind]] = {
        TerraformKind: lambda: TerraformKind(programs),
        HelmKind: lambda: HelmKind(lambda: HELM_PROGRAM),
    }
    return {name: given.get(type(kind), lambda kind=kind: kind)() for name, kind in kinds.items()}


def _put_database(file: Path) -> None:
    """Saves each world from making its tables, which is a third of what a world costs."""
    if file.parent.is_dir() and not file.exists():
        private_file(file)
        file.write_bytes(_empty_database())


@cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        file = Path(folder) / DATABASE
        with contextlib.closing(connect(file)) as connection:
            migrate(connection, migrations())
        return file.read_bytes()


def _clusters_to(places: Places) -> Callable[[str], None]:
    def heard(word: str) -> None:
        if word.startswith(CLUSTER_PREFIX):
            places.note_changed(word.removeprefix(CLUSTER_PREFIX))

    return heard


async def _asked(app: Any, scope: Mapping[str, Any], body: bytes) -> Answer:
    inbox = [{"type": "http.request", "body": body, "more_body": False}]
    outbox: list[Any] = []

    async def receive() -> Any:
        return inbox.pop(0) if inbox else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        outbox.append(message)

    await app(
        {**scope, "raw_path": scope["path"].encode(), "scheme": "http", "http_version": "1.1"}, receive, send
    )
    start, *parts = outbox
    headers: dict[str, str] = {}
    for name, value in start["headers"]:
        before = headers.get(name.decode())
        is_list = before is not None and name == b"set-cookie"
        headers[name.decode()] = (
            f"{before}, {value.decode('latin-1')}" if is_list else value.decode("latin-1")
        )
    return Answer(start["status"], headers, b"".join(part.get("body", b"") for part in parts))
