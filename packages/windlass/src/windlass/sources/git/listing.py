"""Checks the files of a commit before they are written: their number, sizes, depths and symbolic links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from windlass.sources.git.limits import Limits
from windlass.sources.git.messages import printable
from windlass.sources.git.source import MAX_DEPTH, MAX_URL_LENGTH, GitError

MAX_SUBMODULES: Final = 20
MAX_LINKS: Final = 40  # consecutive links; the kernel has the same limit
MAX_TARGET_LENGTH: Final = 4095
MAX_EFFORT: Final = 200_000_000
"""The effort allowed for all links of a folder, a few seconds. Following a few malicious links could take
days."""
_END: Final = b"/"
"""Prefix of the marker that ends the parts of a link's target. Parts of paths never contain it."""
_PART_EFFORT: Final = 16
"""The fixed effort for one part of a path."""


class TreeListing:
    """Checks the records of `git ls-tree -r -t -l -z` as they arrive. A commit of a few bytes can list
    billions of files."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rest = b""
        self._size = 0
        self._entries = 0
        self.links: list[bytes] = []
        self.submodules: list[str] = []
        self.attributes: dict[str, str] = {}
        """Digests of all `.gitattributes` files, by path."""

    def feed(self, piece: bytes) -> None:
        *records, self._rest = (self._rest + piece).split(b"\0")
        if len(self._rest) > 2 * MAX_URL_LENGTH:
            raise _bad_entry(self._rest.partition(b"\t")[2], "is too long a path")
        for record in records:
            self._read_record(record)

    def _read_record(self, record: bytes) -> None:
        facts, _, path = record.partition(b"\t")
        mode, kind, digest, size = facts.split()
        self._entries += 1
        self._size += int(size) if kind == b"blob" else 0
        self._limits.check(self._size, self._entries)
        parts = path.split(b"/")
        if len(path) > MAX_URL_LENGTH or len(parts) > MAX_DEPTH or max(map(len, parts)) > 255:
            raise _bad_entry(path, "is too long a path")
        if parts[-1] == b".gitattributes":
            self.attributes[to_text(path)] = digest.decode()
        if mode == b"120000":
            self._link(path, int(size))
        elif kind == b"commit" and len(self.submodules) < MAX_SUBMODULES:
            self.submodules.append(to_text(path))

    def _link(self, path: bytes, size: int) -> None:
        if not 0 < size <= MAX_TARGET_LENGTH:
            raise _bad_entry(path, "is not a symbolic link that can be made")
        self.links.append(path)


def find_escaping_link(root: Path, links: list[bytes]) -> str | None:
    """Returns the first symbolic link that leads out of the folder, directly or through other links."""
    targets = {path: os.readlink(os.path.join(os.fsencode(root), path)) for path in links}  # noqa: PTH115, PTH118
    link = LinkWalk(targets).find_escaping()
    return None if link is None else to_text(link)


class LinkWalk:
    """Resolves the symbolic links of a folder as the kernel would, with a limit on the total effort."""

    def __init__(self, targets: Mapping[bytes, bytes]) -> None:
        self._targets = targets
        self._left = MAX_EFFORT

    def find_escaping(self) -> bytes | None:
        """Returns the first link that leads out of the folder. Raises GitError for links that the kernel
        cannot follow, or whose resolution takes too long."""
        return next((link for link in self._targets if self._leaves(link)), None)

    def _leaves(self, link: bytes) -> bool:
        """Returns whether a link leads out of the folder.

        The resolved path contains no links, so that `..` always leads to the parent folder.
        """
        way: list[bytes] = []
        ahead = link.split(b"/")[::-1]
        inside: set[bytes] = set()
        followed = 0
        while ahead:
            self._spend(_PART_EFFORT + len(way), link)
            part = ahead.pop()
            if part == b"..":
                if not way:
                    return True
                way.pop()
            elif part.startswith(_END):
                inside.discard(part.removeprefix(_END))
            elif part not in (b"", b"."):
                way.append(part)
                place = b"/".join(way)
                target = self._targets.get(place)
                if target is None:
                    continue
                if target.startswith(b"/"):
                    return True
                if place in inside:
                    return False  # the link is part of a cycle
                inside.add(place)
                followed += 1
                if followed > MAX_LINKS:
                    # The kernel stops after that many links.
                    raise _endless(link)
                way.pop()
                ahead += [_END + place, *target.split(b"/")[::-1]]
        return False

    def _spend(self, effort: int, link: bytes) -> None:
        self._left -= effort
        if self._left < 0:
            raise GitError(f"Remove symbolic links, such as {to_text(link)}: to follow them takes too long.")


def to_text(path: bytes) -> str:
    return printable(path.decode(errors="replace"))


def _endless(link: bytes) -> GitError:
    return GitError(
        f"Remove the symbolic link {to_text(link)}: it leads through more than {MAX_LINKS} others."
    )


def _bad_entry(path: bytes, problem: str) -> GitError:
    return GitError(f"{to_text(path[:MAX_URL_LENGTH])} {problem}.")
