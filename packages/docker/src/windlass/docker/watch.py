"""Watches the engine's events and reads the output of instances, including events and output from times when
the engine was unavailable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from windlass.base.log import log
from windlass.docker import names as words
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.answers import EngineAnswer
from windlass.docker.descriptions import ContainerList, instances_of, is_cut_off
from windlass.docker.ends_of_engine import EndsOfEngine
from windlass.docker.follow import FIRST_PAUSE, MAX_PAUSE, ContainerFollower, ContainerOutput
from windlass.docker.inspection import LastExit, exit_code
from windlass.docker.output_budget import OrganizationBudgets, OutputBudget
from windlass.docker.position import Positions, is_container_id
from windlass.docker.reader_lock import ReaderLock
from windlass.docker.restarts import Restarts
from windlass.engines.engine import Missed, Notice, Sink, ignore_lost_lines
from windlass.engines.workload import OutputLine

EVENT_KINDS: Final = ("start", "kill", "die", "oom", "destroy", "pause", "unpause")
_HARMLESS_SIGNALS: Final = frozenset({"1", "10", "12", "28", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH"})
"""Signals that ask no program to end."""
LAST_WORDS: Final = 5.0
"""Maximum seconds of waiting for the last output of an ended instance."""
LAST_WORDS_TO_ANOTHER: Final = 0.2
"""Maximum seconds of waiting if another server reads the output: its progress is not visible here."""

MAX_FOLLOWED_CONTAINERS: Final = 1000
"""Maximum number of containers of one organization whose output is read: as many as a bridge network can
have. The same number is reserved for other organizations."""
AT_ONCE: Final = 100
"""Number of events after which the watch pauses briefly, because an engine may send events without limit."""
EVENTS_PAUSE: Final = 0.1
_DISCONNECTED_PAUSE: Final = 1.0
"""Seconds until an instance that has left a network is looked at."""
AWAY_AFTER: Final = 3.0
"""Seconds without an answer after which an engine counts as unavailable. A restart is usually faster."""
CHECK_INTERVAL: Final = 10.0
"""Seconds between two health checks during the watch. An engine that hangs keeps its connections open, and
sends no events."""
MAX_LEFT_EXITS: Final = 1000
"""Maximum number of removed containers whose reason is kept."""
_KILLED: Final = 137
_MAX_LABEL_LENGTH: Final = 64
_EXIT_CODE: Final = "exitCode"

_log = log("engines.docker")


class EventWatcher:
    def __init__(
        self,
        docker: Docker,
        installation: str,
        folder: Path,
        connected: Callable[[], Awaitable[None]],
        restarts: Restarts,
    ) -> None:
        """`connected`: called after each new connection to the engine."""
        self._restarts = restarts
        self._docker = docker
        self._connected = connected
        self._installation = installation
        self._positions = Positions(folder)
        self._turn = ReaderLock(folder.with_name("reads"))
        self._followers: dict[str, ContainerFollower] = {}
        self._disconnected: set[str] = set()
        """Containers that have left a network since the last look."""
        self._budgets = OrganizationBudgets()
        self._leaving: list[ContainerFollower] = []
        """Followers of removed containers that have not ended yet."""
        self._ends: dict[str, LastExit] = {}
        self._short_of_memory: set[str] = set()
        self._reasons: dict[str, str] = {}
        """Why containers are being ended, by id."""
        self._left: dict[str, LastExit] = {}
        """Why containers were removed, by the name that the next container will have."""
        self._hides_exit_code: set[str] = set()
        """Followed containers whose image has a label that overwrites the exit code in events."""
        self._is_full = False
        """Whether the limit of followed containers was reached before."""
        self._ends_of_engine = EndsOfEngine(restarts)
        self._begun_here: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._silent_since: float | None = None
        """The time of the first call without an answer; None while the engine answers."""
        self._tried = asyncio.Event()
        self._notice: Notice = lambda service: None
        self._sink: Sink = lambda service, lines: None
        self._missed: Missed = ignore_lost_lines
        # The engine's event history shows how instances ended while no Windlass watched.
        self._since = "1"

    @property
    def is_unavailable(self) -> bool:
        return self._silent_since is not None and time.monotonic() >= self._silent_since + AWAY_AFTER

    async def start(self, notice: Notice, sink: Sink, on_missed_notices: Missed, timeout: float) -> None:
        """Starts watching. Waits up to `timeout` seconds for the first connection to the engine."""
        self._notice, self._sink, self._missed = notice, sink, on_missed_notices
        self._tried.clear()
        self._task = asyncio.create_task(self._run())
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
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
        """Records a start by this server. The start event then causes no notice, unless the container ends
        first."""
        self._begun_here.add(container)

    def notify(self, service: str) -> None:
        """Notifies of a service that has changed without an event."""
        self._notice(service)

    def last_end(self, container: str) -> LastExit | None:
        """Returns the container's last observed exit, if any."""
        return self._ends.get(container)

    def was_cut_off(self, container: str, state: Mapping[str, Any]) -> bool:
        """Returns whether the last end of a container was not caused by its program."""
        return self._ends_of_engine.was_last(container, state)

    async def wait_until_noted(self, name: str) -> None:
        """Waits until the end of a container was noted, if its event is on the way."""
        await self._ends_of_engine.wait_until_noted(name)

    @property
    def is_reader(self) -> bool:
        """Whether this server reads the output of the engine's containers, among several servers."""
        return self._turn.ours

    def explain(self, container: str, reason: str) -> None:
        """Records why a followed container is about to end."""
        if container in self._followers:
            self._reasons[container] = reason

    def hand_over(self, name: str, reason: str) -> None:
        """Records why a container is removed. The next one with its name has this as its last exit."""
        while len(self._left) >= MAX_LEFT_EXITS:
            del self._left[next(iter(self._left))]
        self._left[name] = LastExit(_KILLED, otherwise=reason)

    def take_over(self, name: str, container: str) -> None:
        """Gives a new container the last exit of the one that it replaces, if any."""
        if left := self._left.pop(name, None):
            self._ends[container] = left

    def listen(self, container: str, labels: Mapping[str, Any]) -> None:
        """Starts reading the output of a container. Continues a paused reader."""
        org = str(labels.get(words.ORGANIZATION_LABEL, ""))[:_MAX_LABEL_LENGTH]
        if self._task is None or not self._may_follow(container, org):
            return
        follower = self._followers.get(container)
        if follower is None or follower.over:
            source = ContainerOutput(
                container,
                str(labels[words.SERVICE_LABEL]),
                str(labels[words.POD_LABEL])[:_MAX_LABEL_LENGTH],
                str(labels.get(words.DEPLOYMENT_LABEL, ""))[:_MAX_LABEL_LENGTH],
            )
            budget = OutputBudget(self._budgets[org])
            self._followers[container] = ContainerFollower(
                self._docker, self._positions, self._turn, source, budget, self._write
            )
        else:
            follower.wake()
        if _EXIT_CODE in labels:
            self._hides_exit_code.add(container)

    def _may_follow(self, container: str, org: str) -> bool:
        """Returns whether to read the output of a container. An organization may use at most as many slots as
        it leaves free."""
        self._leaving = [follower for follower in self._leaving if not follower.over]
        followers = [*self._followers.values(), *self._leaving]
        is_free = len(followers) < MAX_FOLLOWED_CONTAINERS
        if not is_free and not self._docker.is_elsewhere:  # a cluster's engine belongs to one organization
            own = sum(follower.org == org for follower in followers)
            is_free = own < 2 * MAX_FOLLOWED_CONTAINERS - len(followers)
        if container in self._followers or is_free:
            return is_container_id(container)
        if not self._is_full:
            _log.warning("the output of further containers is not read", extra={"org": org})
        self._is_full = True
        return False

    async def wait_until_read(self, container: str) -> None:
        """Waits until all output of a stopped container was passed on."""
        if follower := self._followers.get(container):
            await follower.wait_until_read(LAST_WORDS if self._turn.ours else LAST_WORDS_TO_ANOTHER)

    def _write(self, service: str, lines: Sequence[OutputLine]) -> None:
        self._sink(service, lines)

    async def _run(self) -> None:
        pause, loop = FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._check()
                async with self._docker.stream(
                    "GET", "/events", params=self._event_filter(), timeout=None
                ) as events:
                    self._ends_of_engine.note_return()
                    await self._connected()
                    await self._follow_existing_containers()
                    self._tried.set()
                    if self._silent_since is not None:
                        _log.info("the Docker engine is back")
                    self._silent_since = None
                    self._missed()
                    try:
                        await self._follow_while_answered(events)
                    finally:
                        self._ends_of_engine.note_loss()
            except (Away, EngineRefused) as error:
                if self._silent_since is None:
                    _log.warning("the Docker engine is away", extra={"reason": str(error)})
                    self._silent_since = time.monotonic()
            except Exception:  # noqa: BLE001 (one event that is not understood does not end the watch)
                _log.exception("the Docker engine sent an event that cannot be decoded")
            self._tried.set()
            # Keeps the back-off for an engine that disconnects quickly.
            pause = FIRST_PAUSE if loop.time() - began > MAX_PAUSE else pause
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE)

    async def _check(self) -> None:
        """Raises Away if the engine does not answer. A refusal counts as an answer."""
        with suppress(EngineRefused):
            await self._docker.ping()

    async def _check_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            await self._check()

    async def _follow_while_answered(self, events: EngineAnswer) -> None:
        endless = (
            self._follow(events),
            self._follow_networks(),
            self._notice_cut_off(),
            self._check_repeatedly(),
        )
        tasks = [asyncio.create_task(each) for each in endless]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, events: EngineAnswer) -> None:
        count, is_logged = 0, False
        async for event in events.events():
            try:
                self._note_event(event)
            except Exception:  # noqa: BLE001 (the watch outlives an event that is not understood)
                if not is_logged:
                    _log.exception("an event of the Docker engine is not understood")
                is_logged = True
            count += 1
            if count % AT_ONCE == 0:
                await asyncio.sleep(EVENTS_PAUSE)

    async def _follow_networks(self) -> None:
        """Notes the instances that leave a network. These events have no labels."""
        params = {"filters": {"type": ["network"], "event": ["disconnect"]}}
        async with self._docker.stream("GET", "/events", params=params, timeout=None) as answer:
            count = 0
            async for event in answer.events():
                with suppress(LookupError, TypeError):  # an event that is not understood has no instance
                    container = event["Actor"]["Attributes"]["container"]
                    if container in self._followers:
                        self._disconnected.add(container)
                count += 1
                if count % AT_ONCE == 0:
                    await asyncio.sleep(EVENTS_PAUSE)

    async def _notice_cut_off(self) -> None:
        """Sends a notice for each noted instance that runs without its network. One that ends leaves its
        network, too: its end is noticed by another event, once it was decided whether it starts again."""
        while True:
            await asyncio.sleep(_DISCONNECTED_PAUSE)
            while self._disconnected:
                container = self._disconnected.pop()
                follower = self._followers.get(container)
                if follower is not None and await self._is_cut_off(container):
                    self._notice(follower.service)

    async def _is_cut_off(self, container: str) -> bool:
        try:
            inspection = await self._docker.json("GET", f"/containers/{container}/json")
            return inspection["State"]["Status"] == "running" and is_cut_off(inspection)
        except (EngineRefused, LookupError, TypeError):
            return False

    def _event_filter(self) -> dict[str, Any]:
        ours = words.instances(installation=self._installation)
        return {"filters": {**ours, "type": ["container"], "event": list(EVENT_KINDS)}, "since": self._since}

    async def _follow_existing_containers(self) -> None:
        """Reads the output of all existing containers, and sends a notice for each service, because events
        may have been lost."""
        filters = words.instances(installation=self._installation)
        params = {"all": True, "filters": filters}
        listed = await self._docker.read_list("/containers/json", ContainerList, params=params)
        containers = instances_of(self._installation, listed)
        self._begun_here.clear()
        for container in containers:
            self.listen(container["Id"], container["Labels"])
        if self._turn.ours:
            self._positions.forget_others({container["Id"] for container in containers})
        for service in {container["Labels"][words.SERVICE_LABEL] for container in containers}:
            self._notice(service)

    def _note_event(self, event: Mapping[str, Any]) -> None:
        container, labels = event["Actor"]["ID"], event["Actor"]["Attributes"]
        nanoseconds = int(event["timeNano"])
        self._since = f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"
        if not words.is_instance(self._installation, labels.get("name", ""), labels):
            return
        at, is_restarted = nanoseconds / 1e9, bool(labels.get(words.RESTARTED_LABEL))
        match event["Action"]:
            case "kill":
                if labels.get("signal") not in _HARMLESS_SIGNALS:
                    self._restarts.note_stop(container)
                return
            case "start":
                self._restarts.note_start(container, at)
                self._ends_of_engine.note_start(labels["name"])
                self.listen(container, labels)
                if container in self._begun_here:
                    self._begun_here.discard(container)
                    return
            case "oom" if container in self._followers:
                self._short_of_memory.add(container)
            case "die":
                is_known = container in self._reasons or container in self._short_of_memory
                self._ends_of_engine.note_end(container, labels["name"], at, is_known=is_known)
                if is_restarted:
                    self._restarts.note_end(container, at)
                if container in self._followers:
                    self._begun_here.discard(container)
                    self._note_end(container, labels)
                    self._followers[container].hurry()
            case "destroy":
                self._restarts.forget(container)
                self._ends_of_engine.forget(container, labels["name"])
                self._ends.pop(container, None)
                self._short_of_memory.discard(container)
                self._reasons.pop(container, None)
                self._hides_exit_code.discard(container)
                if follower := self._followers.pop(container, None):
                    follower.wake()  # it ends when the engine reports that the container does not exist
                    self._leaving.append(follower)
        self._notice(labels[words.SERVICE_LABEL])

    def _note_end(self, container: str, attributes: Mapping[str, Any]) -> None:
        """Records an exit code, unless an image label may have forged it: in events, a container's labels
        overwrite the engine's attributes, except name and image."""
        is_short = container in self._short_of_memory
        self._short_of_memory.discard(container)
        reason = self._reasons.pop(container, "")
        if container in self._hides_exit_code:
            self._ends.pop(container, None)
        else:
            self._ends[container] = LastExit(exit_code(attributes[_EXIT_CODE]), is_short, reason)
