"""Watch the engine's events and listen to every container of ours, again when the engine was away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.base.log import log
from windlass.core.deploy.workload import OutputLine
from windlass.docker import Away, Docker, EngineRefused
from windlass.engines.docker import names as words
from windlass.engines.docker.follow import FIRST_PAUSE, LONGEST_PAUSE, ContainerFollower, ContainerOutput
from windlass.engines.docker.inspection import LastExit
from windlass.engines.docker.position import Positions
from windlass.engines.docker.reader_lock import ReaderLock
from windlass.engines.engine import Notice, Sink

KINDS: Final = ("start", "die", "oom", "destroy", "pause", "unpause")
LAST_WORDS: Final = 5.0
"""Seconds that what an instance wrote at its end may take to be read."""
LAST_WORDS_TO_ANOTHER: Final = 0.2
"""The same, where another Windlass reads it, of whom nothing is heard."""

_log = log("engines.docker")


class EventWatcher:
    def __init__(self, docker: Docker, installation: str, folder: Path) -> None:
        self._docker = docker
        self._installation = installation
        self._positions = Positions(folder)
        self._turn = ReaderLock(folder.with_name("reads"))
        self._followers: dict[str, ContainerFollower] = {}
        self._leaving: list[ContainerFollower] = []
        """Followers of removed containers that have not ended yet."""
        self._ends: dict[str, LastExit] = {}
        self._short_of_memory: set[str] = set()
        self._begun_here: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._notice: Notice = lambda service: None
        self._sink: Sink = lambda service, lines: None
        # The events that the engine remembers tell how instances ended while no Windlass watched.
        self._since = "1"

    async def start(self, notice: Notice, sink: Sink, patience: float) -> None:
        """Follows the output of running containers from now on, unless the engine is unavailable."""
        self._notice, self._sink = notice, sink
        self._tried.clear()
        self._task = asyncio.create_task(self._run())
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._tried.wait()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        followers, self._followers = [*self._followers.values(), *self._leaving], {}
        self._leaving = []
        await asyncio.gather(*(follower.end() for follower in followers))
        self._turn.give_back()

    def begins(self, container: str) -> None:
        """Notes a start by this engine, for which no notice is needed unless it ends and starts again."""
        self._begun_here.add(container)

    def last_end(self, container: str) -> LastExit | None:
        """Returns the end before the last restart, if it was seen."""
        return self._ends.get(container)

    def listen(self, container: str, labels: Mapping[str, Any]) -> None:
        """From now on, or again; nothing happens where that is so already."""
        if self._task is None:
            return
        follower = self._followers.get(container)
        if follower is None or follower.over:
            source = ContainerOutput(
                container, labels[words.SERVICE], labels[words.POD], labels.get(words.DEPLOYMENT, "")
            )
            self._followers[container] = ContainerFollower(
                self._docker, self._positions, self._turn, source, self._write
            )
        else:
            follower.wake()

    async def silent(self, container: str) -> None:
        """Waits until the output up to the stop was passed on."""
        if follower := self._followers.get(container):
            await follower.silent(LAST_WORDS if self._turn.ours else LAST_WORDS_TO_ANOTHER)

    def _write(self, service: str, lines: Sequence[OutputLine]) -> None:
        self._sink(service, lines)

    async def _run(self) -> None:
        pause, away = FIRST_PAUSE, False
        while True:
            try:
                async with self._docker.stream(
                    "GET", "/events", params=self._wanted(), patience=None
                ) as events:
                    await self._adopt()
                    self._tried.set()
                    if away:
                        _log.info("the Docker engine is back")
                    pause, away = FIRST_PAUSE, False
                    async for event in events.objects():
                        self._happened(event)
            except (Away, EngineRefused) as error:
                if not away:
                    _log.warning("the Docker engine is away", extra={"reason": str(error)})
                away = True
            except Exception:  # noqa: BLE001 (one event that is not understood does not end the watch)
                _log.exception("the Docker engine says what is not understood")
            self._tried.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _wanted(self) -> dict[str, Any]:
        ours = words.instances(installation=self._installation)
        return {"filters": {**ours, "type": ["container"], "event": list(KINDS)}, "since": self._since}

    async def _adopt(self) -> None:
        """Listens to the containers that are there, and notices each service: events may be lost."""
        filters = words.instances(installation=self._installation)
        there = await self._docker.json("GET", "/containers/json", params={"all": True, "filters": filters})
        self._begun_here.clear()
        for container in there:
            self.listen(container["Id"], container["Labels"])
        if self._turn.ours:
            self._positions.forget_others({container["Id"] for container in there})
        for service in {container["Labels"][words.SERVICE] for container in there}:
            self._notice(service)

    def _happened(self, event: Mapping[str, Any]) -> None:
        container, labels = event["Actor"]["ID"], event["Actor"]["Attributes"]
        nanoseconds = int(event["timeNano"])
        self._since = f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"
        match event["Action"]:
            case "start":
                self.listen(container, labels)
                if container in self._begun_here:
                    self._begun_here.discard(container)
                    return
            case "oom":
                self._short_of_memory.add(container)
            case "die":
                self._begun_here.discard(container)
                self._ends[container] = LastExit(int(labels["exitCode"]), container in self._short_of_memory)
                self._short_of_memory.discard(container)
            case "destroy":
                self._ends.pop(container, None)
                self._short_of_memory.discard(container)
                if follower := self._followers.pop(container, None):
                    follower.wake()  # finds that it is gone, and ends
                    self._leaving = [one for one in (*self._leaving, follower) if not one.over]
        self._notice(labels[words.SERVICE])
