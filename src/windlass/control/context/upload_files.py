"""The archives of uploads, each in a file of the data directory that is named by the id of its upload.

The length of a file is how far its upload is. A lock on it lets one request write at a time, also of another
server that has the same data directory.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.base import filelock
from windlass.base.errors import Conflict, Unavailable
from windlass.base.ids import is_id
from windlass.builders.builder import FULL

UPLOADS: Final = "uploads"
"""The folder of the data directory."""
CHECKED: Final = 2
"""Archives that are checked at a time: each takes a thread for seconds, and all requests share few."""


class UploadFile:
    """An open archive that no other request writes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Unavailable(FULL) from error
            raise

    def sync(self) -> None:
        os.fsync(self._descriptor)


class UploadFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.checks = asyncio.Semaphore(CHECKED)
        """Held while an archive is read to its end."""

    def path(self, upload: str) -> Path:
        return self._folder / upload

    def size(self, upload: str) -> int:
        """Returns the bytes that have arrived here."""
        try:
            return self.path(upload).stat().st_size
        except FileNotFoundError:
            return 0

    def has(self, upload: str) -> bool:
        return self.path(upload).exists()

    @contextmanager
    def writing(self, upload: str) -> Iterator[UploadFile]:
        """Opens an archive to append to it. Raises Conflict while another request does so."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path(upload), flags, 0o600)
        try:
            if not filelock.try_lock(descriptor):
                raise Conflict("Wait until the other request has ended: it sends a part of the same upload")
            yield UploadFile(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, upload: str) -> None:
        self.path(upload).unlink(missing_ok=True)

    def all(self) -> dict[str, float]:
        """Returns the ids of all uploads with an archive here, each with its age in seconds."""
        if not self._folder.is_dir():
            return {}
        now = time.time()
        return {path.name: now - path.stat().st_mtime for path in self._folder.iterdir() if is_id(path.name)}
