"""The build context: packs files in a thread while they are sent, at the engine's speed."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

from msgspec import Struct

from windlass.base.dockerignore import DOCKERIGNORE, Ignore, TooLong, read_for_dockerfile
from windlass.builders.builder import BuildError, Order

CHUNK_BYTES: Final = 256 * 1024
MAX_QUEUED_CHUNKS: Final = 4
"""Maximum number of pieces in the send queue."""
EXTERNAL_DOCKERFILE: Final = ".windlass.dockerfile"
"""Name in the context for a Dockerfile from outside the context folder."""
DEFAULT_DOCKERFILE: Final = "Dockerfile"
MAX_DOCKERFILE_BYTES: Final = 4 * 1024 * 1024
MAX_MATCHING_STEPS: Final = 500_000_000
"""Limit of the work of matching paths with .dockerignore patterns: path segments times pattern segments. More
would take longer than a build's time limit."""


class BuildContext(Struct, frozen=True):
    folder: Path
    dockerfile: str
    """Path of the Dockerfile in the context."""
    text: bytes
    """Content of the Dockerfile. The file itself may be a symbolic link."""
    ignore: Ignore
    outside: bool
    """Whether the Dockerfile is outside the folder, and is added to the context."""
    is_whole: bool = False
    """Whether to ignore .dockerignore. The file itself is then not sent, because the engine would apply
    it."""

    def leaves_out(self, path: str) -> bool:
        """Returns whether a file is not sent to the engine. The Dockerfile and .dockerignore are always
        sent."""
        if self.is_whole:
            return path == DOCKERIGNORE
        return path not in (self.dockerfile, DOCKERIGNORE) and self.ignore(PurePosixPath(path))

    def goes_into(self, folder: str, left_out: bool) -> bool:
        return not left_out or not self.ignore.prunes or self.dockerfile.startswith(f"{folder}/")


def folder_of(order: Order) -> Path:
    """Returns the real path of the application's folder. Raises BuildError if a symbolic link leads out of
    the commit."""
    source = Path(os.path.realpath(order.source))
    folder = _path_within(
        source,
        source / order.root,
        f"root_path: name a folder of the repository: there is no folder {order.root}",
    )
    if not folder.is_dir():
        raise BuildError(f"root_path: name a folder of the repository: {order.root} is not a folder")
    return folder


def dockerfile_of(order: Order, folder: Path) -> BuildContext | None:
    """Returns the repository's Dockerfile with its build context. Returns None if no Dockerfile exists and
    the application does not name one. Never reads files outside the commit, wherever symbolic links lead."""
    source = Path(os.path.realpath(order.source))
    named = (order.dockerfile or DEFAULT_DOCKERFILE).lstrip("/")
    place = os.path.normpath(folder / named)
    outside = f"dockerfile_path: name a file of the repository: {named} is outside of it"
    if not Path(place).is_relative_to(source):  # the error must not reveal which files exist on this machine
        raise BuildError(outside)
    if not os.path.lexists(place):
        if order.dockerfile is None:
            return None
        where = order.root if order.root not in ("", ".") else "the repository's root"
        raise BuildError(f"Add a {named} to {where}, or say in dockerfile_path where it is: there is none")
    file = _path_within(source, Path(place), outside)
    if not file.is_file():
        raise BuildError(f"dockerfile_path: name a file: {named} is something else")
    if file.stat().st_size > MAX_DOCKERFILE_BYTES:
        raise BuildError(f"Shorten {named}: it is larger than {MAX_DOCKERFILE_BYTES // 1024**2} MiB")
    inside = Path(place).is_relative_to(folder)
    name = Path(place).relative_to(folder).as_posix() if inside else EXTERNAL_DOCKERFILE
    try:
        ignore = read_for_dockerfile(folder, PurePosixPath(name) if inside else None)
    except TooLong as error:
        raise BuildError(str(error)) from error
    return BuildContext(folder, name, file.read_bytes(), ignore, outside=not inside)


@asynccontextmanager
async def packing(context: BuildContext) -> AsyncIterator[Parcel]:
    """Packs the files in a thread, which the context manager stops at the end of the block."""
    parcel = Parcel()
    doing = asyncio.ensure_future(asyncio.to_thread(_pack_and_end, context, parcel))
    try:
        yield parcel
    finally:
        parcel.leave()
        await asyncio.wait([doing])


class Parcel:
    """A bounded queue of tar archive pieces. The thread that writes blocks while the queue is full."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_QUEUED_CHUNKS)
        self._left = self._ended = False
        self._error: BuildError | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece
            self._room.release()
        if error := self.failure():
            raise error

    def failure(self) -> BuildError | None:
        """Returns the packing error, if any. The sender may have raised a different error as a
        consequence."""
        return self._error

    def check(self) -> None:
        """Raises an exception that stops the packing thread, if the rest of the archive is not needed."""
        if self._left:
            self._ended = True
            raise _RestNotNeeded

    def leave(self) -> None:
        """Stops the packing thread, because the rest of the archive is not needed."""
        self._left = True
        self._room.release()

    def write(self, piece: bytes) -> int:
        if self._ended:  # tarfile writes its remaining bytes even after an error
            return len(piece)
        self._room.acquire()
        self.check()
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, bytes(piece))
        return len(piece)

    def end(self, error: BuildError | None) -> None:
        self._error = error
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, None)


class _RestNotNeeded(Exception):
    """Raised in the packing thread if the rest of the archive is not needed."""


def _pack_and_end(context: BuildContext, parcel: Parcel) -> None:
    try:
        _pack(context, parcel)
    except _RestNotNeeded:
        return
    except BuildError as error:
        parcel.end(error)
    except (OSError, ValueError, tarfile.TarError) as error:
        parcel.end(BuildError(f"The files of the commit cannot be read: {error}"))
    else:
        parcel.end(None)


def _pack(context: BuildContext, parcel: Parcel) -> None:
    with tarfile.open(
        fileobj=cast("IO[bytes]", parcel), mode="w|", bufsize=CHUNK_BYTES, format=tarfile.PAX_FORMAT
    ) as tar:
        # BuildKit detects an archive by its first kilobyte. A folder entry comes first, because a long file
        # name there would be mistaken for a Dockerfile.
        _add(tar, context.folder, ".")
        for path in _paths_to_pack(context, _Comparison(context.ignore.length, parcel), ""):
            if path != context.dockerfile:
                _add(tar, context.folder / path, path)
        _add_text(tar, context)


class _Comparison:
    """Limits the work of matching all paths of a folder with the .dockerignore patterns."""

    def __init__(self, length: int, parcel: Parcel) -> None:
        self._length, self._parcel, self._left = length, parcel, MAX_MATCHING_STEPS

    def begin(self, path: str) -> None:
        """Called before each path is matched. Raises BuildError if the total work exceeds the limit."""
        self._parcel.check()
        self._left -= self._length * (path.count("/") + 1)
        if self._left < 0:
            raise BuildError(
                f"Shorten {DOCKERIGNORE}, or take files out of the folder: comparing all of them takes too "
                "long"
            )


def _paths_to_pack(context: BuildContext, comparison: _Comparison, folder: str) -> Iterator[str]:
    """Yields the paths to pack, each folder before its content. Does not follow symbolic links."""
    with os.scandir(context.folder / folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        comparison.begin(path)
        left_out = context.leaves_out(path)
        if not left_out:
            yield path
        if entry.is_dir(follow_symlinks=False) and context.goes_into(path, left_out):
            yield from _paths_to_pack(context, comparison, path)


def _add(tar: tarfile.TarFile, file: Path, name: str) -> None:
    entry = tar.gettarinfo(file, name)
    entry.uid = entry.gid = 0
    entry.mtime = int(entry.mtime)
    entry.uname = entry.gname = ""
    if entry.isreg() or entry.islnk():
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as content:
            entry.type, entry.linkname = tarfile.REGTYPE, ""
            entry.size = os.fstat(content.fileno()).st_size
            tar.addfile(entry, content)
    elif entry.isdir() or entry.issym():
        tar.addfile(entry)


def _add_text(tar: tarfile.TarFile, context: BuildContext) -> None:
    entry = tarfile.TarInfo(context.dockerfile)
    entry.size = len(context.text)
    tar.addfile(entry, io.BytesIO(context.text))


def _path_within(source: Path, path: Path, default: str) -> Path:
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(source) or not real.exists():
        raise BuildError(default)
    return real
