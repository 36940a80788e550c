"""Lists and reads the files below an untrusted folder. Follows no link, and reads only regular files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAX_NAMES: Final = 200_000
MAX_DEPTH: Final = 30
_NOT_ENTERED: Final = frozenset(
    [".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".next", ".tox", ".mypy_cache"]
)
"""Folders of tools, with many generated files and no files written by people."""


def file_names(root: Path) -> Iterator[str]:
    """Yields the relative paths of the files below a folder, the files near the top first."""
    ahead = [("", 0)]
    count = 0
    for folder, deep in ahead:
        for name, is_folder in _list_entries(root / folder):
            path = f"{folder}/{name}" if folder else name
            if not is_folder:
                count += 1
                yield path
            elif deep < MAX_DEPTH and name not in _NOT_ENTERED:
                ahead.append((path, deep + 1))
            if count >= MAX_NAMES:
                return


def folder_names(root: Path) -> Iterator[str]:
    """Yields the relative paths of the folders below a folder, the folders near the top first."""
    ahead = [("", 0)]
    for folder, deep in ahead:
        for name, is_folder in sorted(_list_entries(root / folder)) if deep < MAX_DEPTH else ():
            if is_folder and name not in _NOT_ENTERED:
                path = f"{folder}/{name}" if folder else name
                yield path
                ahead.append((path, deep + 1))


def read_beginning(root: Path, path: str, limit: int) -> bytes:
    """Returns the first bytes of a file. Raises an OSError for links and for anything but regular files."""
    opened = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError("it is not a file")
        return file.read(limit)


def _list_entries(folder: Path) -> list[tuple[str, bool]]:
    """Returns the names of a folder's entries, each with whether it is a folder. Skips unprintable names."""
    try:
        with os.scandir(folder) as scan:
            return [
                (entry.name, is_folder)
                for entry in scan
                if entry.name.isprintable()
                and (
                    (is_folder := entry.is_dir(follow_symlinks=False)) or entry.is_file(follow_symlinks=False)
                )
            ]
    except OSError:
        return []  # the folder was removed meanwhile, or is unreadable
