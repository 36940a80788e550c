"""Caches of static site files, in memory and as open files. Disk reads never block the event loop.

Files are opened, and small files read, in a thread. A large file is read in pieces: without a thread if the
piece is in the kernel's page cache, otherwise in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from windlass.routers.builtin.site_pages import LoadedSite
from windlass.routers.sites.index import read_index

V = TypeVar("V")

MAX_CACHED_FILE_BYTES: Final = 64 * 1024
"""Maximum size in bytes of a file that is cached in memory."""
CHUNK_BYTES: Final = 192 * 1024
"""Size in bytes of a piece of a larger file. Larger pieces would be mapped from the kernel each time; see
`gateway/starting.py`."""
_MAX_CONTENT_BYTES: Final = 32 * 1024 * 1024
_MAX_INDEX_BYTES: Final = 64 * 1024 * 1024
_MAX_OPEN_FILES: Final = 128
_KEEP_SECONDS: Final = 30.0
"""Time limit for loading a file or index, in seconds."""


class KeptValues(Generic[V]):
    """A FIFO cache of limited size. It is not LRU, because recording each use would slow down every
    request."""

    def __init__(self, limit: int, size: Callable[[V], int], drop: Callable[[V], None] = lambda value: None):
        self._most, self._size, self._drop = limit, size, drop
        self._values: dict[str, V] = {}
        self.get = self._values.get
        self.total = 0

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: str, value: V) -> None:
        """Caches a value. Evicts the oldest values if there is no space."""
        self.remove(key)
        size = self._size(value)
        while self._values and self.total + size > self._most:
            self.remove(next(iter(self._values)))
        self._values[key] = value
        self.total += size

    def remove(self, key: str) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self.total -= self._size(value)
            self._drop(value)

    def clear(self) -> None:
        for key in list(self._values):
            self.remove(key)


class SharedFile:
    """A reference-counted open file. Users are the cache and the answers that are being sent."""

    __slots__ = ("_file", "_users")

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._users = 1

    def use(self) -> None:
        self._users += 1

    def release(self) -> None:
        self._users -= 1
        if not self._users:
            os.close(self._file)

    def read_now(self, position: int, size: int) -> bytearray | None:
        """Returns a piece of the file, or the beginning of the piece, from the kernel's page cache. Returns
        None if the piece is not cached or cannot be read. An empty result is the end of the file."""
        piece = bytearray(size)
        try:
            count = os.preadv(self._file, [piece], position, os.RWF_NOWAIT)
        except OSError:  # usually because the piece is not in the page cache
            return None
        if count < size:
            del piece[count:]
        return piece

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._file, size, position)


class SiteFiles:
    """The caches of one router: site indexes, contents of small files, and open large files."""

    def __init__(self) -> None:
        self.sites: KeptValues[LoadedSite] = KeptValues(_MAX_INDEX_BYTES, lambda site: site.size + 1)
        self.small: KeptValues[bytes] = KeptValues(_MAX_CONTENT_BYTES, lambda content: len(content) + 200)
        self.opened: KeptValues[SharedFile] = KeptValues(_MAX_OPEN_FILES, lambda _: 1, SharedFile.release)
        self._loading: dict[str, asyncio.Future[None]] = {}

    def clear(self) -> None:
        self.opened.clear()
        self.small.clear()
        self.sites.clear()

    async def load_site(self, folder: str) -> None:
        """Loads a site's index into the cache. Raises OSError or ValueError on failure."""

        async def load() -> None:
            self.sites.put(folder, LoadedSite(folder, await asyncio.to_thread(read_index, Path(folder))))

        await self._load_once(folder, load)

    async def load_file(self, path: str, size: int) -> None:
        """Loads a small file into memory, or opens a large file, for the cache. Raises OSError on failure."""

        async def load() -> None:
            if size <= MAX_CACHED_FILE_BYTES:
                self.small.put(path, await asyncio.to_thread(_read_content, path, size))
            else:
                self.opened.put(path, await asyncio.to_thread(SharedFile, path))

        await self._load_once(path, load)

    async def _load_once(self, key: str, load: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Loads a value. Tasks that need the same value at the same time share one load."""
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(load())
            loading.add_done_callback(lambda _: self._loading.pop(key, None))
        async with asyncio.timeout(_KEEP_SECONDS):
            await asyncio.shield(loading)


def _read_content(path: str, size: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        content = os.read(file, size + 1)
    finally:
        os.close(file)
    if len(content) != size:
        raise OSError(f"{path} has not the size that its index says")
    return content
