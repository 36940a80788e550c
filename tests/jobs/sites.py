"""Jobs in tests: made, deployed, and their runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.engine import FakeEngine
from tests.world import REPOSITORY, World, make_world
from windlass import control
from windlass.engines.workload import Workload

IMAGE = {"image": {"image_name": "acme/report", "tag": "1.0"}}
DOCKER = {"docker": {"git_repository": {"url": REPOSITORY, "branch": "main"}}}
MINUTE = 60


def cron(scheduled_at: str = "* * * * *", **fields: Any) -> dict[str, Any]:
    return {"cronjob": {"scheduled_at": scheduled_at, "arguments": ["report", "--all"]} | fields}


@asynccontextmanager
async def images_world(database_url: str, **options: Any) -> AsyncIterator[World]:
    async with make_world(database_url, engine=FakeEngine("image"), **options) as world:
        yield world


async def new_job(world: World, environment: str | None = None, **fields: Any) -> str:
    environment = environment or await world.environment()
    body = {"name": world.name("job"), "source": IMAGE, "schedule": cron()}
    return str(await world.made(f"/environment/{environment}/job", body | fields))


async def deployed(world: World, job: str, verb: str = "deploy", body: Any = None) -> Any:
    """The deployment, once nothing is due any more."""
    answer = await world.post(f"/job/{job}/{verb}", body)
    assert answer.status == 202, answer
    await world.settle()
    return (await world.get(f"/job/{job}/deployment/{answer['id']}")).json


async def ready_job(world: World, environment: str | None = None, **fields: Any) -> str:
    """A job that is deployed."""
    job = await new_job(world, environment, **fields)
    assert (await deployed(world, job))["status"] == "SUCCEEDED"
    return job


async def runs(world: World, job: str) -> list[Any]:
    """The runs of a job, the oldest first."""
    listed = await world.get(f"/job/{job}/run?page_size=1000")
    assert listed.status == 200, listed
    return list(reversed(listed["results"]))


async def states(world: World, job: str) -> list[tuple[str, str]]:
    return [(run["cause"], run["status"]) for run in await runs(world, job)]


class Programs:
    """The programs of runs on the fake engine: they end with these codes, or wait to be let go."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.codes: list[int] = []
        """The codes with which the next runs end; 0 after them."""
        self.started: list[Workload] = []
        self.gate: asyncio.Event | None = None
        """If set, programs wait for it."""
        world.engine.work = self.work

    async def work(self, workload: Workload) -> int:
        self.started.append(workload)
        if self.gate is not None:
            await self.gate.wait()
        return self.codes.pop(0) if self.codes else 0


def left(world: World, job: str) -> list[Any]:
    return [instance for instance in world.engine.instances.values() if instance.service == job]


FILES = ("deploying/job_runs.py", "deploying/steps/job_commands.py", "background/timetables.py")


def points() -> list[str]:
    """All failpoints of runs, as the code names them."""
    folder = Path(next(iter(control.__path__)))
    return [
        point for file in FILES for point in re.findall(r'\.point\("([^"]+)"\)', (folder / file).read_text())
    ]
