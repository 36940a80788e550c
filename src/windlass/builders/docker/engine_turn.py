"""The turn of an organization at BuildKit, among servers that share an engine.

The engine itself has nothing to lock: a volume without data says that an organization builds. A server makes
its own first and then looks for those of others, so of two that come at once, at least one goes back. A
server that was killed leaves its volume: those that nobody renewed count no more.
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
from windlass.docker import Away, Docker, EngineRefused
from windlass.docker.decoding import decode

LABEL, ORGANIZATION = "windlass.build-turn", "windlass.build-organization"
"""The labels of these volumes: the installation, and who builds."""
RENEWED: Final = 20.0
STALE: Final = 120.0
"""Seconds after which a volume counts no more, by the clock of the engine."""
LEFT: Final = 3600.0
"""Seconds after which a sweep removes a volume, by the clock of this server."""
_PAUSE: Final = 2.0
_log = log("builders.docker")


class _TurnMark(Struct, rename="pascal"):
    name: str
    created_at: datetime
    labels: dict[str, str] | None = None


class _TurnMarks(Struct, rename="pascal"):
    volumes: list[_TurnMark] | None = None


class EngineTurn:
    """Builds of one organization share a turn; `BuildTurns` lets those of one in at a time."""

    def __init__(self, docker: Docker, installation: str) -> None:
        self._docker, self._installation = docker, installation
        self._lock = asyncio.Lock()
        self._builds = 0
        self._mark = ""
        self._left: set[str] = set()
        """Marks that are to be removed, also where the engine is away."""
        self._renewal: asyncio.Task[None] | None = None

    async def is_free(self, org: str) -> bool:
        """True if nothing tells that a build of this organization would wait."""
        marks = await self._marks()
        return not any(_organization(mark) != org and _age(mark, time.time()) < STALE for mark in marks)

    @asynccontextmanager
    async def of(self, org: str) -> AsyncIterator[None]:
        async with self._lock:
            if not self._builds:
                await self._take(org)
            self._builds += 1
        try:
            yield
        finally:
            await asyncio.shield(self._leave())

    async def sweep(self) -> None:
        """Removes what is left of turns, also of killed servers."""
        await self._remove_left()
        for mark in await self._marks():
            if _age(mark, time.time()) > LEFT:
                await self._remove(mark.name)

    async def _take(self, org: str) -> None:
        while not await self._try(org):  # noqa: ASYNC110 (another server ends its turn)
            await asyncio.sleep(_PAUSE * random.random())  # noqa: S311 (only so that two seldom come at once)
        self._renewal = asyncio.create_task(self._renew(org))

    async def _try(self, org: str) -> bool:
        """Makes a mark, and removes it again unless it is the only one of an organization."""
        await self._remove_left()
        async with AsyncExitStack() as undo:
            mark = await self._make(org)
            undo.push_async_callback(lambda: asyncio.shield(self._remove(mark.name)))
            now = mark.created_at.timestamp()
            marks = await self._marks()
            for stale in (other for other in marks if _age(other, now) > STALE):
                await self._remove(stale.name)
            if any(_organization(other) != org and _age(other, now) <= STALE for other in marks):
                return False
            undo.pop_all()
        self._mark = mark.name
        return True

    async def _leave(self) -> None:
        async with self._lock:
            self._builds -= 1
            if self._builds or self._renewal is None:
                return
            self.abandon()
            self._left.add(self._mark)
            with suppress(Away, EngineRefused):  # it becomes stale
                await self._remove_left()

    async def _remove_left(self) -> None:
        for name in list(self._left):
            await self._remove(name)
            self._left.discard(name)

    def abandon(self) -> None:
        """Renews the turn no more, as if this server had been killed."""
        if self._renewal is not None:
            self._renewal.cancel()

    async def _renew(self, org: str) -> None:
        while True:
            await asyncio.sleep(RENEWED)
            try:
                old, self._mark = self._mark, (await self._make(org)).name
                await self._remove(old)
            except (Away, EngineRefused) as error:
                _log.warning("the turn at BuildKit could not be renewed", extra={"reason": str(error)})

    async def _make(self, org: str) -> _TurnMark:
        labels = {LABEL: self._installation, ORGANIZATION: org}
        body = {"Name": f"wdl-turn-{uuid.uuid4()}", "Labels": labels}
        mark: _TurnMark = decode(await self._docker.raw("POST", "/volumes/create", body=body), _TurnMark)
        return mark

    async def _marks(self) -> list[_TurnMark]:
        params = {"filters": {"label": [f"{LABEL}={self._installation}"]}}
        return (await self._docker.read_list("/volumes", _TurnMarks, params=params)).volumes or []

    async def _remove(self, name: str) -> None:
        try:
            await self._docker.raw("DELETE", f"/volumes/{name}")
        except EngineRefused as refused:
            if refused.status not in (404, 409):
                raise


def _organization(mark: _TurnMark) -> str:
    return (mark.labels or {}).get(ORGANIZATION, "")


def _age(mark: _TurnMark, now: float) -> float:
    return now - mark.created_at.timestamp()
