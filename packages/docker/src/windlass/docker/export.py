"""Copies a folder from an untrusted image to a folder of this machine.

Only folders, regular files and relative links are unpacked. Symbolic links are created last, so that no entry
of the archive can be written through a link outside the folder.
"""

from __future__ import annotations

import os
import posixpath
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from windlass.base.disk_reserve import is_short
from windlass.base.subprocesses import in_thread
from windlass.docker import create
from windlass.docker.archives import (
    FILE,
    FOLDER,
    HARD_LINK,
    SYMBOLIC_LINK,
    BadEngineArchive,
    EngineArchiveEntry,
    read_entries,
)
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.answers import NOT_AN_ENGINE
from windlass.engines.engine import ArtifactLost, EngineError

MAX_SITE_BYTES: Final = 5 * 1024**3
MAX_ENTRIES: Final = 200_000
MIN_FREE_BYTES: Final = 1024**3
"""Bytes of the disk that a large export leaves free, at most a twentieth of the disk. Files with holes take
no space in an image, but are written as zeros here."""
_BYTES_PER_CHECK: Final = 64 * 1024**2
_CHUNK_BYTES: Final = 1024 * 1024
_MAX_CONTAINER_AGE_SECONDS: Final = 3600
_MAX_TIME_SECONDS: Final = 253_402_300_799
"""The last second of the year 9999."""
_EXPORT_LABEL: Final = "windlass.export"
"""Label of the containers that are created for an export. They are never started, and are removed
afterwards."""


class _FreeSpace:
    """The disk to which an export writes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._spent = folder, 0

    def spend(self, count: int) -> None:
        """Raises EngineError if the disk has too little free space for further bytes."""
        self._spent += count
        if self._spent >= _BYTES_PER_CHECK:
            self._spent = 0
            if is_short(self._folder, MIN_FREE_BYTES):
                raise EngineError(
                    "Make the static folder smaller, or ask the operator to free disk space: the disk of the "
                    "machine that runs Windlass has too little left for it"
                )


async def export_folder(
    docker: Docker, installation: str, image: str, folder: str, destination: Path
) -> None:
    """Copies a folder of an image. Raises ArtifactLost if the image does not exist, and EngineError for other
    problems."""
    label = f"{_EXPORT_LABEL}={installation}"
    await _remove_left(docker, label)
    body = create.unstarted_container(image, {_EXPORT_LABEL: installation})
    try:
        created = await docker.json("POST", "/containers/create", body=body)
    except EngineRefused as refused:
        if refused.status == 404:
            raise ArtifactLost(
                "Deploy again: the image of this site is no longer on the Docker engine"
            ) from refused
        raise
    archive = destination.with_name(f"{destination.name}.tar")
    try:
        await _fetch(docker, str(created["Id"]), folder, archive)
        await in_thread(unpack, archive, destination)
    except BadEngineArchive as error:
        raise EngineError(NOT_AN_ENGINE) from error
    finally:
        await in_thread(archive.unlink, True)
        await _remove(docker, str(created["Id"]))


async def _fetch(docker: Docker, container: str, folder: str, archive: Path) -> None:
    size, free = 0, _FreeSpace(archive.parent)
    try:
        async with docker.stream(
            "GET", f"/containers/{container}/archive", params={"path": posixpath.normpath(f"/{folder}")}
        ) as answer:
            with archive.open("wb") as file:
                async for chunk in answer.chunks():
                    size += len(chunk)
                    if size > MAX_SITE_BYTES:
                        raise EngineError(
                            f"Keep the static folder below {MAX_SITE_BYTES // 1024**3} GiB: it is larger"
                        )
                    await in_thread(_write_chunk, file, chunk, free)
    except EngineRefused as refused:
        if refused.status != 404:
            raise
        raise EngineError(
            f"Change static_folder, or the build: the image has no folder {folder}"
        ) from refused


async def _remove_left(docker: Docker, label: str) -> None:
    """Removes old containers of interrupted exports."""
    params = {"all": True, "filters": {"label": [label], "status": ["created"]}}
    for container in await docker.json("GET", "/containers/json", params=params) or ():
        if container.get("Created", 0) < time.time() - _MAX_CONTAINER_AGE_SECONDS:
            await _remove(docker, str(container["Id"]))


async def _remove(docker: Docker, container: str) -> None:
    with suppress(EngineRefused):
        await docker.raw("DELETE", f"/containers/{container}", params={"force": True, "v": True})


def unpack(archive: Path, destination: Path) -> None:
    """Unpacks the content of an archive's top-level folder. Raises BadEngineArchive."""
    links: list[tuple[Path, str]] = []
    left, free = MAX_SITE_BYTES, _FreeSpace(destination)
    with archive.open("rb") as file:
        for count, entry in enumerate(read_entries(file)):
            if count > MAX_ENTRIES:
                raise EngineError(f"Keep the static folder below {MAX_ENTRIES:,} files: it has more")
            path = _path_below(destination, entry.name)
            if path is None:
                continue
            if entry.kind == FOLDER:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            elif entry.kind == FILE:
                left -= entry.size
                if left < 0:
                    raise EngineError("Make the static folder smaller: it is too large")
                _write(path, file, entry, free)
            elif entry.kind == HARD_LINK:
                original = _path_below(destination, entry.link)
                with suppress(OSError):  # the original was skipped
                    if original is not None:
                        os.link(original, path, follow_symlinks=False)
            elif entry.kind == SYMBOLIC_LINK and not entry.link.startswith("/"):
                links.append((path, entry.link))
    for path, target in links:
        with suppress(OSError, ValueError):  # the link's folder was skipped, or its target is no path
            path.symlink_to(target)


def _path_below(destination: Path, name: str) -> Path | None:
    """Returns the target path of an entry; None if the path would be outside the folder."""
    _, *parts = name.strip("/").split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        return None
    return destination.joinpath(*parts)


def _write_chunk(file: IO[bytes], chunk: bytes, free_space: _FreeSpace) -> None:
    free_space.spend(len(chunk))
    file.write(chunk)


def _write(path: Path, archive: IO[bytes], entry: EngineArchiveEntry, free_space: _FreeSpace) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    left = entry.size
    with path.open("xb") as file:
        while left and (piece := archive.read(min(_CHUNK_BYTES, left))):
            _write_chunk(file, piece, free_space)
            left -= len(piece)
    if left:
        raise BadEngineArchive("the content of a file is not complete")
    modified = min(entry.modified, _MAX_TIME_SECONDS)
    os.utime(path, (modified, modified))
