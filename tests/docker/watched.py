"""A Docker engine under test, with the lines and notices that it sent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.engines.dockers import BOX
from windlass.docker.client import Docker
from windlass.docker.engine import DockerEngine
from windlass.engines.workload import (
    Artifact,
    Instance,
    OutputLine,
    Workload,
)

FOREVER = "while true; do sleep 1; done"


SECONDS = 80.0


class Watched:
    """A Docker engine, and what it told."""

    def __init__(self, host: str, folder: Path, installation: str) -> None:
        self.host = host
        self.folder = folder
        self.installation = installation
        self.lines: list[OutputLine] = []
        self.noticed: list[str] = []
        self.engine = self._made()

    async def begin(self) -> None:
        await self.engine.start(self.noticed.append, lambda _, lines: self.lines.extend(lines))

    async def begin_anew(self) -> None:
        """As after a restart of Windlass."""
        await self.engine.stop()
        self.engine = self._made()
        await self.begin()

    def said(self) -> list[str]:
        return [line.message for line in self.lines]

    def _made(self) -> DockerEngine:
        return DockerEngine(host=self.host, folder=self.folder, installation=self.installation)


async def nothing_left(watched: Watched) -> None:
    await watched.engine.sweep(await watched.engine.services())
    filters = {"label": [f"windlass.installation={watched.installation}"]}
    docker = Docker(watched.host)
    try:
        for path in ("/containers/json", "/networks", "/volumes"):
            left = await docker.json("GET", path, params={"filters": filters, "all": True})
            assert not (left["Volumes"] if path == "/volumes" else left)
    finally:
        await docker.close()
        await watched.engine.stop()


def wanted(script: str = FOREVER, **given: Any) -> Workload:
    service = str(uuid.uuid4())
    return Workload(
        **{
            "service": service,
            "family": "application",
            "name": f"Shop {service[:4]}",
            "environment": str(uuid.uuid4()),
            "org": "acme",
            "generation": 1,
            "deployment": "d1",
            "artifact": Artifact(kind="image", ref=BOX),
            "command": ("sh", "-c", script),
            "memory": 64,
            "grace": 0.0,
            **given,
        }
    )


def again(it: Workload, **given: Any) -> Workload:
    """The same service, otherwise."""
    return Workload(**{**{name: getattr(it, name) for name in it.__struct_fields__}, **given})


async def until(true: Callable[[], Any]) -> Any:
    """Waits for what must come; the time is only there so that a failure ends."""
    async with asyncio.timeout(SECONDS):
        while not (found := true()):  # noqa: ASYNC110 (what is waited for happens elsewhere)
            await asyncio.sleep(0.02)
    return found


async def seen(engine: DockerEngine, service: str, fits: Callable[[Instance], bool]) -> Instance:
    async with asyncio.timeout(SECONDS):
        while True:
            for instance in await engine.copies(service):
                if fits(instance):
                    return instance
            await asyncio.sleep(0.02)


async def restarted(raw: Docker, service: str) -> None:
    """Waits until the container of a service was started again."""
    await _until_state(raw, service, lambda state: "0002" < state["FinishedAt"] < state["StartedAt"])


async def ended(raw: Docker, service: str) -> None:
    """Waits until the container of a service has ended, while nobody starts it again."""
    await _until_state(raw, service, lambda state: state["Status"] == "exited")


async def _until_state(raw: Docker, service: str, fits: Callable[[Any], bool]) -> None:
    filters = {"label": [f"windlass.service={service}"]}
    async with asyncio.timeout(SECONDS):
        while True:
            (container,) = await raw.json("GET", "/containers/json", params={"filters": filters, "all": True})
            if fits((await raw.json("GET", f"/containers/{container['Id']}/json"))["State"]):
                return
            await asyncio.sleep(0.05)
