"""The files of a folder, as detection sees them: their names, and the beginning of the content of a few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

Read = Callable[[str, int], bytes]
"""Returns the first bytes of a file: its path, and the most bytes to return."""

_NONE: Final[frozenset[str]] = frozenset()


class Tree:
    """The names of the files below a folder, by folder. Does no I/O besides `read`."""

    def __init__(self, paths: Iterable[str], read: Read) -> None:
        """`paths` are relative to the folder, with `/` between names."""
        self._names: dict[str, set[str]] = {}
        self._read = read
        self._top = ""
        self._bytes_read = [0]
        """One number, which all views of the same files share."""
        for path in paths:
            folder, _, name = path.rpartition("/")
            self._names.setdefault(folder, set()).add(name)

    def below(self, folder: str) -> Tree:
        """Returns the same files as seen from a folder."""
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
        """Yields the folders below that hold files, in any order."""
        beginning = f"{self._top}/" if self._top else ""
        for folder in self._names:
            if folder.startswith(beginning) and folder != self._top:
                yield folder.removeprefix(beginning)

    def read(self, path: str, most: int) -> bytes:
        content = self._read(self._full_path(path), most)
        self._bytes_read[0] += len(content)
        return content

    @property
    def bytes_read(self) -> int:
        """Returns how much was read so far, in all folders."""
        return self._bytes_read[0]

    def _full_path(self, path: str) -> str:
        return f"{self._top}/{path}".strip("/")
