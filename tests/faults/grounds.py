"""The instances as the machine shows them: processes, or containers of an engine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from tests import whole
from tests.faults.witness import MACHINE
from windlass.config import Settings
from windlass.docker import names as words
from windlass.docker.client import Docker
from windlass.install import mark

Key = tuple[str, int, int]
"""Service, generation and index of an instance."""


class Ground(Protocol):
    settings: Mapping[str, Any]
    """With which a Windlass stands on it."""

    def watched(self) -> Any:
        """Twins are found within this block; and nothing is there any more after it."""

    @property
    def twins(self) -> list[str]: ...

    async def living(self) -> list[Key]: ...

    async def kept(self, service: str) -> list[str]:
        """Returns the records of instances of a service, also of those that do not run:
        `generation-index`."""

    async def left(self) -> list[str]: ...


class Processes:
    """Twins betray themselves here: see programs.py."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.settings: Mapping[str, Any] = {"engine": "process", "network_allow": (MACHINE,)}
        self.twins: list[str] = []

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            end_all(self._data)

    async def living(self) -> list[Key]:
        return [key for key, pid in instances(self._data) if _leads(pid)]

    async def kept(self, service: str) -> list[str]:
        homes = (self._data / "run" / "services" / service).glob("*")
        processes = (f"{key[1]}-{key[2]}" for key, _ in instances(self._data) if key[0] == service)
        return sorted({*(home.name for home in homes), *processes})

    async def left(self) -> list[str]:
        run, found = self._data / "run", [f"process {pid} of {key}" for key, pid in instances(self._data)]
        for folder in ("services", "volumes", "ended", "ports"):
            found += [str(path) for path in (run / folder).glob("*")]
        places = run / "whereabouts.json"
        if places.exists() and places.read_text() != "{}":
            found.append("lasting ports")
        return found


class Containers:
    """The engine reports every start and every end, so the tests need not look often."""

    def __init__(self, host: str, data: Path) -> None:
        self.settings: Mapping[str, Any] = {"engine": "docker", "docker_host": host}
        self._host = host
        self._data = data
        self._machine = whole.Containers(host, data)
        self._alive: defaultdict[Key, set[str]] = defaultdict(set)
        self.twins: list[str] = []

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        try:
            yield
            assert not watching.done(), watching
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._machine.clear()

    async def living(self) -> list[Key]:
        return [words.identity(each["Labels"]) for each in await self._all() if each["State"] == "running"]

    async def kept(self, service: str) -> list[str]:
        found = [words.identity(each["Labels"]) for each in await self._all()]
        return sorted(f"{generation}-{index}" for owner, generation, index in found if owner == service)

    async def left(self) -> list[str]:
        return [*await self._machine.traces()]

    async def _all(self) -> list[dict[str, Any]]:
        async with self._docker() as docker:
            params = {"all": True, "filters": words.instances()}
            found = await docker.json("GET", "/containers/json", params=params)
        return [each for each in found if self._is_ours(each["Labels"])]

    def _is_ours(self, labels: Mapping[str, str]) -> bool:
        """The first start marks the data directory, before it begins anything."""
        seen = mark.read(Settings(data_dir=str(self._data)))
        return seen is not None and labels[words.INSTALLATION_LABEL] == seen.installation

    async def _watch(self) -> None:
        wanted = {**words.instances(), "type": ["container"], "event": ["start", "die"]}
        async with (
            self._docker() as docker,
            docker.stream("GET", "/events", params={"filters": wanted}, timeout=None) as events,
        ):
            async for event in events.objects():
                labels = event["Actor"]["Attributes"]
                if self._is_ours(labels):
                    self._happened(event["Action"], event["Actor"]["ID"], labels)

    def _happened(self, what: str, container: str, labels: Mapping[str, str]) -> None:
        alive = self._alive[words.identity(labels)]
        if what == "die":
            alive.discard(container)
            return
        alive.add(container)
        if len(alive) > 1:
            self.twins.append(f"twin of {labels[words.POD_LABEL]}")

    @asynccontextmanager
    async def _docker(self) -> AsyncIterator[Docker]:
        docker = Docker(self._host)
        try:
            yield docker
        finally:
            await docker.close()


def instances(data: Path) -> list[tuple[Key, int]]:
    """Processes that say to be of an instance of this installation, and of which."""
    mark, found = f"WINDLASS_FILES={data}/run/services/".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (process / "environ").read_bytes()
            for word in environment.split(b"\0") if mark in environment else ():
                if word.startswith(mark):
                    service, home = word[len(mark) :].decode().split("/")[:2]
                    generation, _, index = home.partition("-")
                    found.append(((service, int(generation), int(index)), int(process.name)))
    return found


def _leads(pid: int) -> bool:
    """Returns True for the program itself; False for its children, and for the shell that is about to become
    it."""
    with suppress(OSError):
        return os.getsid(pid) == pid and b"\0main.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def end_all(data: Path) -> None:
    for _, pid in instances(data):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
