"""Prepares kept copies for their next fetch, in the background: at most one for each name."""

from __future__ import annotations

import asyncio
from pathlib import Path

from windlass.base import subprocesses
from windlass.base.log import log
from windlass.sources.git.kept import KeptCopy, sweep
from windlass.sources.git.limits import Limits
from windlass.sources.git.remote import without_repository
from windlass.sources.git.source import GitError

_log = log("builders.git")


class CopyPreparations:
    def __init__(self, home: Path, limits: Limits) -> None:
        self._home, self._limits = home, limits
        self._is_stopped = False
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, kept: KeptCopy) -> None:
        """Prepares a copy, and then closes it."""
        if self._is_stopped:
            kept.close()
            return

        def end(_: asyncio.Task[None]) -> None:
            self._tasks.pop(name)
            kept.close()

        self._tasks[name] = asyncio.ensure_future(self._prepare(kept))
        self._tasks[name].add_done_callback(end)

    async def cancel(self, name: str) -> None:
        if task := self._tasks.get(name):
            task.cancel()
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Cancels all preparations, and starts none any more."""
        self._is_stopped = True
        await subprocesses.run_together(*map(self.cancel, [*self._tasks]))

    async def _prepare(self, kept: KeptCopy) -> None:
        try:
            async with asyncio.timeout(self._limits.seconds):
                await kept.prepare(without_repository(self._home, self._limits))
        except (GitError, OSError) as error:  # the next fetch begins with an empty folder
            _log.warning("no copy is kept for the next fetch", extra={"why": str(error)})
        await subprocesses.in_thread(sweep, self._home)
