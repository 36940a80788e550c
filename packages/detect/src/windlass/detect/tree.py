"""A tree of files for detection: the names of all files, and the contents of a few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

Read = Callable[[str, int], bytes]
"""Reads the beginning of a file. The arguments are the path and the maximum number of bytes."""

_NONE: Final[frozenset[str]] = frozenset()


class Tree:
    """The names of the files below a folder, grouped by folder. Does no I/O except through `read`."""

    def __init__(self, paths: Iterable[str], read_file: Read) -> None:
        """Creates a tree. `paths` are relative to the folder, separated by `/`."""
        self._names: dict[str, set[str]] = {}
        self._read = read_file
        self._top = ""
        self._bytes_read = [0]
        """The counter, in a list so that all views of the same files share it."""
        for path in paths:
            folder, _, name = path.rpartition("/")
            self._names.setdefault(folder, set()).add(name)

    def below(self, folder: str) -> Tree:
        """Returns a view of the same files with a subfolder as its top folder."""
        view = Tree((), self._read)
        view._names = self._names
        view._bytes_read = self._bytes_read
        view._top = self._full_path(folder.strip("/"))
        return view

    def names(self, folder: str = "") -> Collection[str]:
        """Returns the names of the files that are directly in a folder."""
        return self._names.get(self._full_path(folder), _NONE)

    def has(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in self.names(folder)

    def folders(self) -> Iterator[str]:
        """Yields the folders below the top folder that contain files, in any order."""
        beginning = f"{self._top}/" if self._top else ""
        for folder in self._names:
            if folder.startswith(beginning) and folder != self._top:
                yield folder.removeprefix(beginning)

    def read(self, path: str, limit: int) -> bytes:
        content = self._read(self._full_path(path), limit)
        self._bytes_read[0] += len(content)
        return content

    @property
    def bytes_read(self) -> int:
        """The number of bytes read so far, in all views."""
        return self._bytes_read[0]

    def _full_path(self, path: str) -> str:
        return f"{self._top}/{path}".strip("/")
