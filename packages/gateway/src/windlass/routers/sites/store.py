"""Stores the releases of static sites. A release is published atomically.

    <folder>/<service>/<release>/      a complete release, renamed to this name at the end
    <folder>/<service>/.new-<name>/    a release that is being written

A release is a copy of a build's output. A lost release is created again from the build.
"""

from __future__ import annotations

import errno
import hashlib
import uuid
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.atomic_files import move, sync_file_system
from windlass.base.cleanup import on_failure
from windlass.base.disk_reserve import is_short
from windlass.base.folder_removal import erase
from windlass.base.locks import Locks
from windlass.base.private import private_folder
from windlass.base.subprocesses import in_thread
from windlass.routers.sites.index import INDEX_FILE, INDEX_FORMAT
from windlass.routers.sites.publish import PublishError, PublishReport, SiteSettings, publish

SITES_FOLDER: Final = "sites"
"""Name of the folder of all sites in the data directory, and of a service's sites in its set-aside data."""
_DRAFT_PREFIX: Final = ".new-"
_REMOVED_PREFIX: Final = ".gone-"


def release_name(artifact: str, settings: SiteSettings) -> str:
    """Returns the name of a release, a digest of its artifact and settings."""
    inputs = msgspec.json.encode([INDEX_FORMAT, artifact, settings])
    return hashlib.sha256(inputs).hexdigest()[:32]


_DISK_SHORTAGE_ERROR: Final = (
    "Ask the operator to free disk space, or to lower disk_reserve_bytes: the disk of the machine that "
    "runs Windlass has no more than its reserve, and no site is put in place"
)


class SiteStore:
    def __init__(self, folder: Path, reserve: int = 0) -> None:
        """`reserve`: bytes of disk space that sites must leave free."""
        self._folder, self._reserve = folder, reserve
        self._locks = Locks()

    def at(self, service: str, release: str) -> Path:
        return self._folder / service / release

    async def find(self, service: str, release: str) -> Path | None:
        """Returns the folder of a release; None if the release does not exist."""
        folder = self.at(service, release)
        return folder if await in_thread((folder / INDEX_FILE).is_file) else None

    async def lost(self, folders: Collection[str]) -> Collection[str]:
        """Returns the release folders that do not exist or are incomplete."""
        return await in_thread(
            lambda: [folder for folder in folders if not (Path(folder) / INDEX_FILE).is_file()]
        )

    async def put(
        self,
        service: str,
        release: str,
        settings: SiteSettings,
        export: Callable[[Path], Awaitable[Path]],
    ) -> PublishReport | None:
        """Publishes a release. Returns None if the release already exists.

        `export` returns the folder with the files. It may copy the files into the empty folder that it gets.
        Raises PublishError."""
        async with self._locks[service]:
            if await self.find(service, release):
                return None
            into = self._temporary_folder(service)
            try:
                await in_thread(private_folder, into)
                await in_thread(self._check_room, into)
                return await in_thread(self._publish, service, release, await export(into), settings)
            except OSError as error:
                raise PublishError(_publish_failure_reason(error)) from error
            finally:
                await in_thread(erase, into)

    def _check_room(self, folder: Path) -> None:
        if is_short(folder, self._reserve):
            raise PublishError(_DISK_SHORTAGE_ERROR)

    def _temporary_folder(self, service: str) -> Path:
        return self._folder / service / f"{_DRAFT_PREFIX}{uuid.uuid4().hex[:12]}"

    def _publish(
        self, service: str, release: str, source: Path, settings: SiteSettings
    ) -> PublishReport | None:
        final, new = self.at(service, release), private_folder(self._temporary_folder(service))
        with on_failure(lambda: erase(new)):
            report = publish(
                source, settings, new, self._newest_release(service), partial(self._check_room, new)
            )
            sync_file_system(new)
            self._remove(final)  # an incomplete release without an index
            return report if _rename_release(new, final) else None

    def _newest_release(self, service: str) -> Path | None:
        """Returns the latest release of a service. New releases share its unchanged files."""
        releases = self._list_releases(service)
        return max(releases, key=lambda folder: folder.stat().st_mtime, default=None)

    def _list_releases(self, service: str) -> list[Path]:
        folder = self._folder / service
        return [entry for entry in folder.iterdir() if entry.name[0] != "."] if folder.is_dir() else []

    async def prune(self, service: str, kept_keys: Collection[str]) -> None:
        """Deletes all other releases of a service than those to `kept_keys`."""
        async with self._locks[service]:
            await in_thread(self._remove_old_releases, service, kept_keys)

    def _remove_old_releases(self, service: str, kept_keys: Collection[str]) -> None:
        for folder in self._list_releases(service):
            if folder.name not in kept_keys:
                self._remove(folder)
        for left in (self._folder / service).glob(".*"):
            erase(left)

    async def discard(self, service: str) -> None:
        async with self._locks[service]:
            await in_thread(self._discard, service)

    def _discard(self, service: str) -> None:
        if service and service not in {".", ".."} and "/" not in service:
            self._remove(self._folder / service)

    def _remove(self, folder: Path) -> None:
        """Deletes a folder. Renames the folder first, so that a partly deleted release is never mistaken for
        a complete one."""
        gone = folder.with_name(f"{_REMOVED_PREFIX}{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):
            folder.rename(gone)
            erase(gone)

    # The interface of stores with data of services

    async def services(self) -> Collection[str]:
        return await in_thread(self._services_with_releases)

    def _services_with_releases(self) -> list[str]:
        entries = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
        return [entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()]

    async def sweep(self, deleted_services: Collection[str]) -> None:
        for service in deleted_services:
            await self.discard(service)
        await in_thread(self._finish_removals)

    def _finish_removals(self) -> None:
        for left in self._folder.glob(f"{_REMOVED_PREFIX}*"):
            erase(left)

    async def set_aside(self, service: str, destination: Path) -> None:
        await in_thread(move, self._folder / service, destination / SITES_FOLDER)

    async def put_back(self, service: str, source: Path) -> None:
        await in_thread(move, source / SITES_FOLDER, self._folder / service)


def _rename_release(release_folder: Path, final: Path) -> bool:
    """Renames a release to its final name. Returns False if another process has already published the same
    release."""
    try:
        release_folder.rename(final)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        erase(release_folder)
        return False
    return True


def _publish_failure_reason(error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "Ask the operator to free disk space: the disk of the machine that runs Windlass is full."
    return f"The files of the site could not be put in place: {error.strerror or type(error).__name__}."
