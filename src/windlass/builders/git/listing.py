"""Judges the files of a commit before any is written: how many, how large, how deep."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from windlass.builders.git.limits import Limits
from windlass.builders.git.messages import printable
from windlass.builders.git.source import DEEPEST, LONGEST, GitError

MOST_SUBMODULES: Final = 20
MOST_LINKS: Final = 40  # links in a row; the kernel gives up there as well
TARGET: Final = 4095


class TreeListing:
    """Reads the records of `git ls-tree -r -t -l -z`; a commit of a few bytes can hold billions of them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rest = b""
        self._size = 0
        self._entries = 0
        self.links: list[bytes] = []
        self.submodules: list[str] = []
        self.attributes: dict[str, str] = {}
        """The digests of all files `.gitattributes`."""

    def feed(self, piece: bytes) -> None:
        *records, self._rest = (self._rest + piece).split(b"\0")
        if len(self._rest) > 2 * LONGEST:
            raise _bad(self._rest.partition(b"\t")[2], "is too long a path")
        for record in records:
            self._take(record)

    def _take(self, record: bytes) -> None:
        facts, _, path = record.partition(b"\t")
        mode, kind, digest, size = facts.split()
        self._entries += 1
        self._size += int(size) if kind == b"blob" else 0
        self._limits.check(self._size, self._entries)
        parts = path.split(b"/")
        if len(path) > LONGEST or len(parts) > DEEPEST or max(map(len, parts)) > 255:
            raise _bad(path, "is too long a path")
        if parts[-1] == b".gitattributes":
            self.attributes[to_text(path)] = digest.decode()
        if mode == b"120000":
            self._link(path, int(size))
        elif kind == b"commit" and len(self.submodules) < MOST_SUBMODULES:
            self.submodules.append(to_text(path))

    def _link(self, path: bytes, size: int) -> None:
        if not 0 < size <= TARGET:
            raise _bad(path, "is not a symbolic link that can be made")
        self.links.append(path)


def find_escaping_link(top: Path, links: list[bytes]) -> str | None:
    """Returns the first symbolic link that leads out of the folder, directly or through others."""
    targets = {path: os.readlink(os.path.join(os.fsencode(top), path)) for path in links}  # noqa: PTH115, PTH118
    return next((to_text(path) for path in links if leaves(path, targets)), None)


def leaves(link: bytes, targets: Mapping[bytes, bytes]) -> bool:
    """True if a symbolic link leads out of the folder, directly or through others.

    Resolves its path as the kernel would. The part resolved so far has no link, so that `..` is the real
    parent."""
    way: list[bytes] = []
    ahead = link.split(b"/")[::-1]
    followed = 0
    while ahead:
        part = ahead.pop()
        if part == b"..":
            if not way:
                return True
            way.pop()
        elif part not in (b"", b"."):
            way.append(part)
            target = targets.get(b"/".join(way))
            if target is None:
                continue
            followed += 1
            if target.startswith(b"/"):
                return True
            if followed > MOST_LINKS:
                return False  # it cannot be followed
            way.pop()
            ahead += target.split(b"/")[::-1]
    return False


def to_text(path: bytes) -> str:
    return printable(path.decode(errors="replace"))


def _bad(path: bytes, what: str) -> GitError:
    return GitError(f"{to_text(path[:LONGEST])} {what}.")
