"""Toolchains that are fetched from registries: package managers, Node, uv and Python. Each version is fetched
once for all builds of the server.

Each toolchain is installed in a cell (sandbox) of its own, so that no organization can change a program that
others run.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from windlass.base import subprocesses
from windlass.base.atomic_files import sync_file_system
from windlass.base.folder_removal import erase
from windlass.base.isolation.isolation import Isolation
from windlass.base.isolation.users import make_readable
from windlass.base.private import private_folder
from windlass.builders.builder import DISK_FULL_ERROR, BuildError
from windlass.process.builds.artifacts import CACHE_FOLDER, COMPLETE_FILE, ArtifactStore, mark_complete
from windlass.process.builds.cache_limits import CacheLimits, CacheUnit, size_of, units_to_erase
from windlass.process.builds.cells import Cells
from windlass.process.builds.tools import ToolFailed, Tools, step

TOOLCHAINS_FOLDER: Final = "toolchains"
RETRY_SECONDS: Final = 600.0
"""Seconds after which a failed fetch is tried again."""
_VERSION_LIFETIME_SECONDS: Final = 60.0
"""Seconds for which a version is cached. The time is short because the operator's settings can change which
program is found, without any other sign."""
_MAX_CACHED_VERSIONS: Final = 1000

Make = Callable[[Tools, Path], Awaitable[None]]
"""Installs a toolchain in an empty folder."""


class MissingToolchain(BuildError):
    """Raised if a toolchain is not on this machine and could not be fetched. The message is the reason."""


class KnownVersions:
    """Caches the versions that programs of this machine report, because many builds need them."""

    def __init__(self) -> None:
        self._told: dict[Hashable, tuple[float, str]] = {}

    def find(self, question: Hashable) -> str | None:
        told_at, version = self._told.get(question, (0.0, ""))
        return version if version and time.monotonic() - told_at < _VERSION_LIFETIME_SECONDS else None

    def add(self, question: Hashable, version: str) -> None:
        if len(self._told) >= _MAX_CACHED_VERSIONS:
            self._told.clear()
        self._told[question] = time.monotonic(), version


class Toolchains:
    """The toolchains of one server, which its builds share."""

    def __init__(
        self,
        folder: Path,
        isolation: Isolation,
        *,
        allowed: bool = True,
        limits: CacheLimits = CacheLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self._store = ArtifactStore(folder / CACHE_FOLDER, TOOLCHAINS_FOLDER)
        self._limits = limits
        self._isolation = isolation
        self._allowed = allowed
        self._failed: dict[str, tuple[float, str]] = {}
        """The time and the reason of each failed fetch, by toolchain name."""
        self._busy: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.versions = KnownVersions()
        self._sizes: dict[str, int] = {}
        """The size of each toolchain, by folder name. Sizes do not change."""

    async def fetch(self, name: str, install_toolchain: Make, tools: Tools, stack: ExitStack) -> Path:
        """Returns the folder of a toolchain, and keeps it locked until `stack` is closed. Raises
        MissingToolchain if it cannot be fetched."""
        lock = self._busy.setdefault(name, asyncio.Lock())
        async with lock:
            self._check(name)
            try:
                await self._ensure(name, install_toolchain, tools)
                folder, is_present = await subprocesses.in_thread(
                    stack.enter_context, self._store.depending(name)
                )
                if not is_present:  # a sweep has erased it because of its size
                    await self._make(name, install_toolchain, tools, folder)
            except BuildError as error:
                self._note(name, error)
                raise MissingToolchain(self._failure(name) or str(error)) from error
            await subprocesses.in_thread(os.utime, _use_of(folder))
        tools.cells.readable.append(folder)
        return Path(folder)

    def check_allowed(self) -> None:
        """Raises MissingToolchain if the settings forbid downloads."""
        if not self._allowed:
            raise MissingToolchain("The setting toolchain_downloads does not allow that.")

    def sweep(self) -> None:
        """Erases leftovers of interrupted fetches, and toolchains that exceed the limits of age and size, the
        least recently used first.

        Instances are not affected, because artifacts contain the files that they need.
        """
        units = [*self._units()]
        gone = {unit.path.name for unit in units_to_erase(units, self._limits, time.time())}
        self._store.sweep((), lambda: {folder.name for folder in self._store.dependencies()} - gone)
        self._sizes = {unit.path.name: unit.size for unit in units if unit.path.exists()}

    def _units(self) -> Iterator[CacheUnit]:
        for folder in self._store.dependencies():
            if folder.name not in self._sizes:
                self._sizes[folder.name] = size_of(folder)
            with suppress(FileNotFoundError):  # an operator who needs disk space has deleted it
                yield CacheUnit(folder, _use_of(folder).stat().st_mtime, self._sizes[folder.name])

    def _check(self, name: str) -> None:
        self.check_allowed()
        if reason := self._failure(name):
            raise MissingToolchain(reason)

    def _note(self, name: str, error: BuildError) -> None:
        """Records a failure, so that the fetch is not repeated at once. A lack of disk space or memory is not
        recorded, because it may end at any time."""
        if str(error) == DISK_FULL_ERROR:
            raise error
        if not (isinstance(error, ToolFailed) and error.was_killed):
            self._failed[name] = (time.monotonic(), str(error))

    def _failure(self, name: str) -> str:
        """Returns the reason of a recorded failure and the time until the next attempt. Returns an empty
        string if the fetch may be tried."""
        failed_at, reason = self._failed.get(name, (0.0, ""))
        left = failed_at + RETRY_SECONDS - time.monotonic()
        if not reason or left <= 0:
            return ""
        wait = f"{math.ceil(left / 60)} min"
        return f"{reason} Builds try that again in {wait}, or after a restart of Windlass."

    async def _ensure(self, name: str, install_toolchain: Make, tools: Tools) -> None:
        """Fetches a toolchain if it is absent.

        The build that fetches a toolchain has an exclusive lock on the folder. The lock is released
        afterwards, so that other builds can share the toolchain.
        """
        making = ExitStack()
        try:
            folder, is_present = await subprocesses.in_thread(
                making.enter_context, self._store.depending(name)
            )
            if not is_present:
                await self._make(name, install_toolchain, tools, folder)
        finally:
            await subprocesses.in_thread(making.close)

    async def _make(self, name: str, install_toolchain: Make, tools: Tools, folder: Path) -> None:
        home = folder / "home"
        cache = home / "cache"
        await subprocesses.in_thread(_make_folders, home, cache)
        cells = Cells(
            self._isolation,
            TOOLCHAINS_FOLDER,
            home,
            folder,
            cache,
            launcher=tools.cells.launcher,
            step_limits=tools.cells.step_limits,
        )
        own = tools.elsewhere(home, cache, cells)
        try:
            with step(tools.say, f"Fetching {name}"):
                await install_toolchain(own, folder)
        finally:
            await subprocesses.in_thread(own.end_all)
        await subprocesses.in_thread(_finish, folder, home)


def _use_of(folder: Path) -> Path:
    """Returns the file whose modification time is the time of the last use."""
    return folder / COMPLETE_FILE


def _make_folders(*folders: Path) -> None:
    for folder in folders:
        private_folder(folder)


def _finish(folder: Path, home: Path) -> None:
    erase(home)
    make_readable(folder)
    sync_file_system(folder)
    mark_complete(folder)
