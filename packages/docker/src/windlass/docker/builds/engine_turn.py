"""Schedules BuildKit builds among servers and installations that share an engine.

The engine has no locks. Empty volumes serve as marks instead: a building mark or a waiting mark, with the
service in a label. A server creates its building mark before it looks for other building marks, so that of
two servers that start at the same time, at least one withdraws. A server starts only if no other service
waits longer, so that each gets its turn. A killed server leaves its marks; marks that are not renewed become
stale and are ignored.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from typing import Final

from msgspec import Struct

from windlass.base.log import log
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.answers import decode

LABEL, HOLDER = "windlass.build-turn", "windlass.build-service"
"""Labels of a mark: the installation, and the service that builds or waits."""
WAITS_SINCE: Final = "windlass.build-waits-since"
"""Label of a waiting mark: the start of the wait, in seconds of the engine's clock. Empty until the first
renewal."""
RENEWAL_INTERVAL: Final = 20.0
STALE_MARK_SECONDS: Final = 120.0
"""Age in seconds after which a mark is ignored, by the engine's clock."""
MAX_MARK_AGE_SECONDS: Final = 3600.0
"""Age in seconds after which a sweep removes a mark, by this server's clock."""
_RETRY_PAUSE: Final = 2.0
_log = log("builders.docker")


class _TurnMark(Struct, rename="pascal"):
    name: str
    created_at: datetime
    labels: dict[str, str] | None = None

    @property
    def holder(self) -> str:
        return (self.labels or {}).get(HOLDER, "")

    @property
    def since(self) -> float | None:
        """Returns the start of the wait; None for a building mark."""
        since = (self.labels or {}).get(WAITS_SINCE)
        if since is None:
            return None
        try:
            return float(since)
        except ValueError:
            return self.created_at.timestamp()


class _TurnMarks(Struct, rename="pascal"):
    volumes: list[_TurnMark] | None = None


class EngineTurn:
    """The turn of this server among the servers that share an engine. Builds of one service share a turn.
    `BuildTurns` ensures that this server builds for one service at a time."""

    def __init__(self, docker: Docker, installation: str) -> None:
        self._docker, self._installation = docker, installation
        self._entering, self._lock = asyncio.Lock(), asyncio.Lock()
        self._builds = 0
        self._ended = asyncio.Event()
        """An event that is set while this server has no turn."""
        self._ended.set()
        self._turn = AsyncExitStack()
        """Removes the building mark at the end of the turn."""
        self._left: set[str] = set()
        """Names of marks to remove, including marks whose removal has failed because the engine was
        unavailable."""
        self._renewals: set[asyncio.Task[None]] = set()
        self._ahead = 0.0
        """Difference between the engine's clock and this server's clock, in seconds."""

    async def is_free(self, service: str) -> bool:
        """Returns whether no other service has a valid mark, so that a build of this service could start
        immediately."""
        return not self._marks_of_others(await self._marks(), self._holder_name(service))

    @asynccontextmanager
    async def of(self, service: str) -> AsyncIterator[None]:
        async with self._entering:
            if self._builds and not await self.is_free(service):
                await self._ended.wait()  # another service waits, and has the next turn
            async with self._lock:
                if not self._builds:
                    await self._wait_for_turn(service)
                self._builds += 1
                self._ended.clear()
        try:
            yield
        finally:
            await asyncio.shield(self._end_turn())

    async def sweep(self) -> None:
        """Removes remaining marks, including marks of killed servers."""
        await self._remove_left()
        for mark in await self._marks():
            if time.time() - mark.created_at.timestamp() > MAX_MARK_AGE_SECONDS:
                await self._remove(mark.name)

    def abandon(self) -> None:
        """Stops renewing the marks, as if this server had been killed (for tests)."""
        for renewal in self._renewals:
            renewal.cancel()

    async def _wait_for_turn(self, service: str) -> None:
        if await self.is_free(service) and await self._begin(service):
            return
        async with self._hold_mark(service, waits=True) as waiting:
            while await self._is_behind(waiting) or not await self._begin(service):  # noqa: ASYNC110 (others end)
                # A random pause, so that two servers seldom try at the same time.
                await asyncio.sleep(_RETRY_PAUSE * random.random())  # noqa: S311

    async def _is_behind(self, waiting_mark: _TurnMark) -> bool:
        """Returns whether another service builds or has waited longer. Removes stale marks."""
        marks = await self._marks()
        for stale in (mark for mark in marks if self._is_stale(mark)):
            await self._remove(stale.name)
        place = (waiting_mark.since or 0.0, waiting_mark.holder)
        others = self._marks_of_others(marks, waiting_mark.holder)
        return any(other.since is None or (other.since, other.holder) < place for other in others)

    async def _begin(self, service: str) -> bool:
        """Creates a building mark for a service. Returns False, and removes the mark, if another service
        builds."""
        async with AsyncExitStack() as turn:
            mark = await turn.enter_async_context(self._hold_mark(service, waits=False))
            if any(other.since is None for other in self._marks_of_others(await self._marks(), mark.holder)):
                return False
            self._turn = turn.pop_all()
        return True

    async def _end_turn(self) -> None:
        async with self._lock:
            self._builds -= 1
            if not self._builds:
                await self._turn.aclose()
                self._ended.set()

    @asynccontextmanager
    async def _hold_mark(self, service: str, *, waits: bool) -> AsyncIterator[_TurnMark]:
        """Creates a mark and renews it during the block. If its removal fails, the mark becomes stale."""
        labels = {LABEL: self._installation, HOLDER: self._holder_name(service)}
        names: list[str] = []
        renewal: asyncio.Task[None] | None = None
        try:
            mark = await self._make(names, {**labels, WAITS_SINCE: ""} if waits else labels)
            kept = {**labels, WAITS_SINCE: str(mark.since)} if waits else labels
            renewal = asyncio.create_task(self._renew_mark(names, kept))
            self._renewals.add(renewal)
            yield mark
        finally:
            if renewal is not None:
                renewal.cancel()
                self._renewals.discard(renewal)
            self._left.update(names)
            with suppress(Away, EngineRefused):
                await asyncio.shield(self._remove_left())

    async def _renew_mark(self, names: list[str], labels: dict[str, str]) -> None:
        while True:
            await asyncio.sleep(RENEWAL_INTERVAL)
            try:
                await self._make(names, labels)
                while len(names) > 1:
                    await self._remove(names[0])
                    names.pop(0)
            except (Away, EngineRefused) as error:
                _log.warning("the turn at BuildKit could not be renewed", extra={"reason": str(error)})

    async def _make(self, names: list[str], labels: dict[str, str]) -> _TurnMark:
        """Creates a mark. The name is chosen here, so that the mark can be removed even if the engine's
        answer is lost."""
        names.append(f"wdl-turn-{uuid.uuid4()}")
        body = {"Name": names[-1], "Labels": labels}
        mark: _TurnMark = decode(await self._docker.raw("POST", "/volumes/create", body=body), _TurnMark)
        self._ahead = mark.created_at.timestamp() - time.time()
        return mark

    async def _remove_left(self) -> None:
        for name in list(self._left):
            await self._remove(name)
            self._left.discard(name)

    async def _marks(self) -> list[_TurnMark]:
        params = {"filters": {"label": [LABEL]}}
        return (await self._docker.read_list("/volumes", _TurnMarks, params=params)).volumes or []

    async def _remove(self, name: str) -> None:
        try:
            await self._docker.raw("DELETE", f"/volumes/{name}")
        except EngineRefused as refused:
            if refused.status not in (404, 409):
                raise

    def _holder_name(self, service: str) -> str:
        return f"{self._installation}/{service}"

    def _marks_of_others(self, marks: list[_TurnMark], holder: str) -> list[_TurnMark]:
        return [mark for mark in marks if mark.holder != holder and not self._is_stale(mark)]

    def _is_stale(self, turn_mark: _TurnMark) -> bool:
        return time.time() + self._ahead - turn_mark.created_at.timestamp() > STALE_MARK_SECONDS
