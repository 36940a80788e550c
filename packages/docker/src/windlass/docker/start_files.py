"""Examines the files of a container that the Docker engine reads whenever it starts the container.

The engine opens `/etc/passwd` and `/etc/group` below the root file system of the container, as root of the
machine, and reads them whole into its memory; so does runc. A FIFO there would let the start hang, and an
engine that starts with such containers would answer nobody. A device would be opened, and a file of 100 MB
takes 1.5 GB. Programs can replace these files, so they are examined while the container does not run.
"""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Struct

from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.answers import NOT_AN_ENGINE
from windlass.engines.engine import EngineError

ACCOUNT_FILES: Final = ("/etc/passwd", "/etc/group")
MAX_FILE_BYTES: Final = 1 << 20
_MAX_LINKS: Final = 8
_STAT_HEADER: Final = "X-Docker-Container-Path-Stat"
# Bits of Go's os.FileMode.
_DIRECTORY, _LINK = 1 << 31, 1 << 27
_NOT_PLAIN: Final = _DIRECTORY | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
"""Folders, links, devices, FIFOs, sockets, character devices, and anything else."""


class PathFacts(Struct):
    """What the engine tells of a path in a container."""

    mode: int
    size: int = 0
    linkTarget: str = ""

    @property
    def is_link(self) -> bool:
        return bool(self.mode & _LINK)


async def examine(
    docker: Docker, container: str, mounts: Collection[str], *, has_etc_copy: bool = False
) -> None:
    """Raises EngineError if the engine should not read these files of a stopped container. `mounts` are the
    paths of its volumes: the engine reads the files below a volume, and shows those in it. `has_etc_copy`:
    the program has a copy of `/etc`. Then the engine reads the files of the image, and runc the copy."""
    examination = _Examination(docker, container, mounts, within="/etc/" if has_etc_copy else "/")
    for file in ACCOUNT_FILES:
        await examination.examine(file)


class _Examination:
    def __init__(self, docker: Docker, container: str, mounts: Collection[str], *, within: str) -> None:
        self._docker, self._container, self._mounts, self._within = docker, container, mounts, within
        self._known: dict[str, PathFacts | None] = {}

    async def examine(self, file: str) -> None:
        path = file
        for _ in range(_MAX_LINKS):
            for folder in _parent_folders(path):
                if (facts := await self._path_facts(folder)) is None:
                    return
                if not facts.mode & _DIRECTORY:
                    raise EngineError(f"Make {folder} of the image a folder and no link: it leads to {file}")
            if (facts := await self._path_facts(path)) is None:
                return
            if not facts.mode & _LINK:
                if facts.mode & _NOT_PLAIN or facts.size > MAX_FILE_BYTES:
                    raise EngineError(f"Make {file} of the image a plain file of at most 1 MiB")
                return
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), facts.linkTarget))
            if not path.startswith(self._within):
                raise EngineError(
                    f"Make {file} of the image a plain file: with USER, it cannot be a link to {path}"
                )
        raise EngineError(f"Make {file} of the image a plain file: it is a chain of links")

    async def _path_facts(self, path: str) -> PathFacts | None:
        """Returns the facts of a path itself, not of what it links to; None if there is nothing."""
        if path in self._mounts:
            raise EngineError(f"Mount the volume elsewhere: the image itself needs {path}")
        if path not in self._known:
            self._known[path] = await path_facts(self._docker, self._container, path)
        return self._known[path]


async def path_facts(docker: Docker, container: str, path: str) -> PathFacts | None:
    """Returns the facts of a path itself, not of what it links to; None if there is nothing."""
    try:
        headers = await docker.headers(f"/containers/{container}/archive", {"path": path})
    except EngineRefused as refused:
        if refused.status == 404:
            return None
        raise
    try:
        return msgspec.json.decode(base64.b64decode(headers.get(_STAT_HEADER, "")), type=PathFacts)
    except ValueError as error:
        raise EngineError(NOT_AN_ENGINE) from error


def _parent_folders(path: str) -> list[str]:
    """Returns the folders that lead to a path, the uppermost first."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: number + 1]) for number in range(len(parts))]
