"""The archives of uploads: files named by the upload id, in a folder for each application.

The length of a file is the progress of its upload. A file lock lets only one request write at a time, even if
several servers share the data directory.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from windlass.base import filelock
from windlass.base.disk_reserve import MAX_RESERVE_FRACTION
from windlass.base.errors import Conflict, Unavailable
from windlass.base.ids import is_id
from windlass.builders.builder import DISK_FULL_ERROR

UPLOADS_FOLDER: Final = "uploads"
"""The name of the uploads folder in the data directory."""
MAX_CONCURRENT_CHECKS: Final = 2
"""The number of archives that are checked concurrently. A check occupies a thread for seconds, and the thread
pool is small."""


class UploadFile:
    """An open archive, locked for one request."""

    def __init__(self, descriptor: int, check_room: Callable[[os.statvfs_result, int], None]) -> None:
        self._descriptor, self._check_room = descriptor, check_room

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        self._check_room(os.fstatvfs(self._descriptor), len(data))
        left = memoryview(data)
        with _explain_full_disk():
            while left:
                left = left[os.write(self._descriptor, left) :]

    def sync(self) -> None:
        os.fsync(self._descriptor)


class UploadIdentity(Protocol):
    """The ids that identify an upload. The upload resource also has these properties."""

    @property
    def parent(self) -> str:
        """The id of the application."""
        ...

    @property
    def id(self) -> str: ...


_DISK_SHORTAGE_ERROR: Final = (
    "Ask the operator to free disk space, or to set upload_reserve_bytes lower: uploads leave so much of the "
    "disk of Windlass free, and less would be left"
)


class StoredUpload(NamedTuple):
    """An archive that exists on this server."""

    parent: str
    id: str


class UploadFiles:
    def __init__(self, folder: Path, reserve: int = 0, disk_reserve: int = 0) -> None:
        """Sets the free disk space that uploads must leave: `reserve` bytes, in addition to `disk_reserve`
        bytes without which builds are refused."""
        self._folder, self._reserve, self._disk_reserve = folder, reserve, disk_reserve
        self._checks = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)
        self._checks_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def checking(self, org: str, environment: str) -> AsyncIterator[None]:
        """Limits the concurrent reads of whole archives: one for each environment, and a few for each
        organization and in total. Further archives of an organization wait separately, so that they do not
        delay archives of other organizations."""
        own = self._checks_of.setdefault(environment, asyncio.Semaphore(1))
        of_org = self._checks_of.setdefault(org, asyncio.Semaphore(MAX_CONCURRENT_CHECKS))
        async with own, of_org, self._checks:
            yield

    def path(self, upload: UploadIdentity) -> Path:
        return self._folder / upload.parent / upload.id

    def size(self, upload: UploadIdentity) -> int:
        """Returns the number of bytes that have arrived on this server."""
        try:
            return self.path(upload).stat().st_size
        except FileNotFoundError:
            return 0

    def check_room(self, size: int) -> None:
        """Raises Unavailable if the disk has no room for an archive of this size."""
        with _explain_full_disk():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_room(os.statvfs(self._folder), size)

    def _check_room(self, disk: os.statvfs_result, size: int) -> None:
        of_disk = min(self._disk_reserve, int(disk.f_blocks * disk.f_frsize * MAX_RESERVE_FRACTION))
        if disk.f_bavail * disk.f_frsize - size < self._reserve + of_disk:
            raise Unavailable(_DISK_SHORTAGE_ERROR)

    def has(self, upload: UploadIdentity) -> bool:
        return self.path(upload).exists()

    @contextmanager
    def writing(self, upload: UploadIdentity) -> Iterator[UploadFile]:
        """Opens an archive to append to it. Raises Conflict while another request writes to it."""
        path = self.path(upload)
        with _explain_full_disk():  # a disk with free bytes may have no free inode
            for folder in (self._folder, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if not filelock.try_lock(descriptor):
                raise Conflict("Wait until the other request has ended: it sends a part of the same upload")
            yield UploadFile(descriptor, self._check_room)
        finally:
            os.close(descriptor)

    def remove(self, upload: UploadIdentity) -> None:
        self.path(upload).unlink(missing_ok=True)

    def remove_folder(self, application: str) -> None:
        """Removes the folder of an application, if it is empty."""
        with suppress(OSError):
            (self._folder / application).rmdir()

    def all(self) -> dict[StoredUpload, float]:
        """Returns all archives on this server, each with its age in seconds."""
        now, ages = time.time(), {}
        for path in self._folder.glob("*/*"):
            if is_id(path.name) and is_id(path.parent.name):
                with suppress(FileNotFoundError):
                    ages[StoredUpload(path.parent.name, path.name)] = now - path.stat().st_mtime
        return ages


@contextmanager
def _explain_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Unavailable(DISK_FULL_ERROR) from error
        raise
