"""Lets one server at a time prepare, examine and start the containers of a service.

While a container is examined, the engine mounts its volumes on its machine and follows links to them: see
`volume_files`. A program that runs meanwhile could replace such a link. Several servers may own the services
of an engine, and have no folder in common.

An engine has no locks, but creates volumes atomically: if a volume with this name exists, the engine answers
with the existing one, whose label names the server that holds the lock. A server renews a lock that it holds
for long by further volumes. If a holder shows no sign of life, another server takes the lock.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base import filelock
from windlass.base.locks import Locks
from windlass.base.log import log
from windlass.docker import names
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.answers import decode

LABEL, HOLDER = "windlass.start-lock", "windlass.start-holder"
"""Labels of these volumes: the installation, and the server that holds the lock."""
RENEWAL_INTERVAL: Final = 20.0
STALE_SECONDS: Final = 120.0
"""Seconds without a sign of life after which a lock is taken from its holder."""
RETRY_PAUSE: Final = 0.2
_LAST_RELEASES_SECONDS: Final = 2.0
_PAUSE_AFTER_REMOVAL: Final = 1.0
"""Seconds between the removal of a stale lock and the next attempt, so that of two servers that have seen the
stale lock, none removes the new lock of the other."""
MAX_MARK_AGE_SECONDS: Final = 24 * 3600.0
"""Age in seconds after which a sweep removes what servers have left."""
_SERVER_PATTERN: Final = re.compile(r"[0-9a-f]{32}")
_log = log("engines.docker")


class _LockVolume(Struct, rename="pascal"):
    """A volume that stands for a lock or its renewal."""

    name: str
    created_at: datetime
    labels: dict[str, str] | None = None

    @property
    def holder(self) -> str:
        return (self.labels or {}).get(HOLDER, "")


class _Marks(Struct, rename="pascal"):
    volumes: list[_LockVolume] | None = None


class StartLocks:
    """Locks by name, held by this server."""

    def __init__(self, docker: Docker, installation: str, folder: Path) -> None:
        """`folder`: has a locked file for each server that uses it. Without the lock, the server has
        ended."""
        self._docker, self._installation, self._folder = docker, installation, folder
        self._own = Locks()
        self._server = uuid.uuid4().hex
        self._alive: int | None = None
        self._releases: dict[str, asyncio.Task[None]] = {}
        """The releases in progress by lock. That of a cancelled task goes on without it."""

    @asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[None]:
        """Waits until no other task or server has the lock of a service or container, and holds it."""
        async with self._own[key]:
            name = names.start_lock(self._installation, key)
            if earlier := self._releases.get(name):  # otherwise it would release the lock of this task
                await asyncio.wait([earlier])
            renewals: list[str] = []
            renewal: asyncio.Task[None] | None = None
            try:
                await self._acquire(name)
                renewal = asyncio.create_task(self._renew(renewals))
                yield
            finally:
                if renewal is not None:
                    renewal.cancel()
                release = self._releases[name] = asyncio.create_task(self._release(name, renewals))
                release.add_done_callback(lambda _: self._releases.pop(name, None))
                await asyncio.shield(release)

    async def sweep(self) -> None:
        """Removes what servers have left that were killed."""
        oldest = time.time() - MAX_MARK_AGE_SECONDS
        for mark in await self._marks(f"{LABEL}={self._installation}"):
            if mark.created_at.timestamp() < oldest:
                await self._remove(mark.name)
        for path in [*self._folder.glob("*")]:
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest and self._has_ended(path.name):
                    path.unlink()

    async def close(self) -> None:
        """Waits for releases whose callers were cancelled, for a short time."""
        if releases := [*self._releases.values()]:
            await asyncio.wait(releases, timeout=_LAST_RELEASES_SECONDS)
            for release in releases:
                release.cancel()
            await asyncio.gather(*releases, return_exceptions=True)
        if self._alive is not None:
            (self._folder / self._server).unlink(missing_ok=True)
            os.close(self._alive)
            self._alive = None

    async def _acquire(self, name: str) -> None:
        self._show_life()
        seen: object = None
        since = _loop_time()
        while (holder := await self._holder_of(name)) != self._server:
            signs = holder, {mark.name for mark in await self._marks(f"{HOLDER}={holder}")}
            if signs != seen:
                seen, since = signs, _loop_time()
            if self._has_ended(holder) or _loop_time() - since > STALE_SECONDS:
                _log.warning("a lock of a server that has ended is removed", extra={"lock": name})
                await self._release_of(name, holder)
                await asyncio.sleep(_PAUSE_AFTER_REMOVAL)
            await asyncio.sleep(RETRY_PAUSE)

    async def _holder_of(self, name: str) -> str:
        """Returns the server that holds a lock: this one if nobody had it."""
        labels = {LABEL: self._installation, HOLDER: self._server}
        return (await self._create(name, labels)).holder

    async def _create(self, name: str, labels: dict[str, str]) -> _LockVolume:
        body = {"Name": name, "Labels": labels}
        mark: _LockVolume = decode(await self._docker.raw("POST", "/volumes/create", body=body), _LockVolume)
        return mark

    async def _renew(self, renewals: list[str]) -> None:
        while True:
            await asyncio.sleep(RENEWAL_INTERVAL)
            with suppress(Away, EngineRefused):
                renewals.append(f"{names.start_lock(self._installation, '')}{uuid.uuid4().hex}")
                await self._create(renewals[-1], {LABEL: self._installation, HOLDER: self._server})
                while len(renewals) > 1:
                    await self._remove(renewals[0])
                    del renewals[0]

    async def _marks(self, label: str) -> list[_LockVolume]:
        params = {"filters": {"label": [label]}}
        return (await self._docker.read_list("/volumes", _Marks, params=params)).volumes or []

    def _show_life(self) -> None:
        if self._alive is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._alive = filelock.try_hold(self._folder / self._server)

    def _has_ended(self, server: str) -> bool:
        """Returns whether a server is known to have ended, because it has used this folder.

        A lock without a server was left by an engine that was killed before it had stored the labels.
        """
        if not server:
            return True
        path = self._folder / server
        if not _SERVER_PATTERN.fullmatch(server) or not path.is_file():
            return False
        if (lock := filelock.try_hold(path)) is None:
            return False
        os.close(lock)
        return True

    async def _release(self, name: str, renewals: Collection[str]) -> None:
        # A lock that is left belongs to the next task of this server. Nobody else may be waiting for this.
        with suppress(Away, EngineRefused):
            await self._release_of(name, self._server)
            for renewal in renewals:
                await self._remove(renewal)

    async def _release_of(self, name: str, holder: str) -> None:
        """Removes a lock, unless another server has it meanwhile."""
        try:
            mark: _LockVolume = decode(await self._docker.raw("GET", f"/volumes/{name}"), _LockVolume)
        except EngineRefused as refused:
            if refused.status != 404:
                raise
            return
        if mark.holder == holder:
            await self._remove(name)

    async def _remove(self, name: str) -> None:
        try:
            await self._docker.raw("DELETE", f"/volumes/{name}")
        except EngineRefused as refused:
            if refused.status not in (404, 409):
                raise


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
