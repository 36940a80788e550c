"""A whole Windlass with real parts inside the test, where they can be got at; and one service of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from msgspec import UNSET

from tests.faults.grounds import Containers, Ground, Processes
from tests.faults.house import AT_MOST
from tests.faults.programs import Code
from tests.world import ADMIN, Answer, HandClock, World
from windlass.base.clock import SystemClock
from windlass.config import Settings
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.install.installation import Installation, install
from windlass.install.parts import Parts, real_parts

HTTP = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}


class Inside:
    def __init__(self, installation: Installation, code: Code, ground: Ground) -> None:
        self.installation = installation
        self.ctx = installation.ctx
        self.code = code
        self.ground = ground
        self.environment = ""
        self._names = 0
        self._world = World(
            installation, HandClock(), cast(Any, installation.ctx.places.local.engine), Path()
        )

    async def call(self, method: str, path: str, body: Any = UNSET) -> Answer:
        return await self._world.call(method, path, body)

    async def make_environment(self) -> None:
        org = (await self.call("GET", "/organization"))["id"]
        project = (await self.call("POST", f"/organization/{org}/project", {"name": "project"}))["id"]
        made = await self.call("POST", f"/project/{project}/environment", {"name": "environment"})
        self.environment = made["id"]

    async def make_organization(self) -> None:
        """What is called after it is called with the token of another organization."""
        _, self._world.token = await self._world.organization()
        await self.make_environment()

    async def application(self, program: str, **fields: Any) -> Service:
        self._names += 1
        repository = {"url": self.code.url, "branch": "main", "root_path": f"/{program}"}
        settings = {"memory": 256, "ports": []}
        body = {"name": f"{program}-{self._names}", "git_repository": repository} | settings
        made = await self.call("POST", f"/environment/{self.environment}/application", body | fields)
        assert made.status == 201, made
        return Service(self, str(made["id"]))


class Service:
    def __init__(self, inside: Inside, id: str) -> None:
        self.inside = inside
        self.id = id
        self.path = f"/application/{id}"

    async def ask(self, deed: str, **body: Any) -> str:
        answer = await self.inside.call("POST", f"{self.path}/{deed}", body)
        assert answer.status == 202, answer
        return str(answer["id"])

    async def do(self, deed: str, **body: Any) -> Any:
        """The deployment, when it is final."""
        return await self.ended(await self.ask(deed, **body))

    async def ended(self, id: str) -> Any:
        async def final() -> Any:
            seen = await self.deployment(id)
            return seen if seen["status"] not in OPEN_STATES_OF_DEPLOYMENTS else None

        return await until(final)

    async def deployment(self, id: str) -> Any:
        return (await self.inside.call("GET", f"{self.path}/deployment/{id}")).json

    async def reaches(self, id: str, status: str) -> None:
        async def there() -> bool:
            return bool((await self.deployment(id))["status"] == status)

        await until(there)

    async def status(self) -> Any:
        return (await self.inside.call("GET", f"{self.path}/status")).json

    async def edit(self, **fields: Any) -> None:
        answer = await self.inside.call("PATCH", self.path, fields)
        assert answer.status == 200, answer

    async def running(self) -> list[tuple[int, int]]:
        """Generation and index of what the engine has."""
        seen = await self.inside.ctx.places.local.engine.observe(self.id)
        return sorted((one.generation, one.index) for one in seen.instances)

    async def runs(self, count: int) -> None:
        async def there() -> bool:
            return len(await self.running()) == count

        await until(there)

    async def address(self) -> str:
        """Its name, to be asked for at the gateway."""
        (link,) = (await self.inside.call("GET", f"{self.path}/link"))["results"]
        return str(link["url"]).removeprefix("http://")


async def until(true: Callable[[], Awaitable[Any]], patience: float = AT_MOST) -> Any:
    over = time.monotonic() + patience
    while not (found := await true()):
        assert time.monotonic() < over, "it never came to that"
        await asyncio.sleep(0.02)
    return found


@asynccontextmanager
async def inside(
    folder: Path,
    *,
    change: Callable[[Parts], Parts] | None = None,
    point: Callable[[str], Awaitable[None]] | None = None,
    docker: str = "",
    **given: Any,
) -> AsyncIterator[Inside]:
    """`change` puts other parts in the place of real ones; `point` is called at every failpoint; `docker` is
    an engine to stand on, instead of the bare machine."""
    data = folder / "data"
    ground: Ground = Containers(docker, data) if docker else Processes(data)
    chosen: dict[str, Any] = {
        **ground.settings,
        "admin_token": ADMIN,
        "rate_limit": 1_000_000_000,
        "gateway_port": 0,
        "git_allow_local": True,
        "settle_seconds": 0,
        "stop_seconds": 1,
    }
    settings = Settings(data_dir=str(data), **(chosen | given))
    parts = change(await real_parts(settings, SystemClock(), "changed")) if change else None
    installation = await install(settings, parts=parts, point=point)
    async with ground.watched():
        await installation.start()
        try:
            made = Inside(installation, Code(folder / "code", contained=bool(docker)), ground)
            await made.make_environment()
            yield made
        finally:
            await installation.stop()
