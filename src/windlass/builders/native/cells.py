"""Runs each step of a build in a cell: it sees the system and its own build, and can change only the latter.

Builds of one organization share a user, and with it the downloads of tools, where no other organization can
write. Services may only read the result of a build.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from windlass.base.isolation.isolation import Isolation, programs
from windlass.base.isolation.launching import program
from windlass.base.isolation.users import give, give_ours

_MOST_MEMORY: Final = 8 << 30
_LARGEST_FILE: Final = 8 << 30


class Cells:
    def __init__(
        self, isolation: Isolation, org: str, temporary: Path, *writable: Path, kept: Sequence[Path] = ()
    ) -> None:
        self._isolation, self._name = isolation, f"builds of {org}"
        self._temporary = temporary
        self.writable = list(writable)
        """Folders that steps may write to."""
        self.readable: list[Path] = []
        """Folders and files that steps may read besides."""
        self._kept = tuple(kept)
        """Caches, which steps may write to as well. Their files belong to the user of earlier steps."""

    def wrapped(self, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """Returns the command that runs this one in a cell. `environment` is the operator's, and may name
        files."""
        owner = self._isolation.owner(self._name)
        folders = [folder for folder in self.writable if folder.exists()]
        if owner is not None:
            for folder in folders:
                give_ours(folder, owner)
            for folder in self._kept:
                give(folder, owner)
        folders += self._kept
        path = programs(environment.get("PATH", ""), self._isolation.folders)
        cell = self._isolation.cell(
            self._name,
            readable=dict.fromkeys((*path, *self.readable, *_named_files(environment, folders))),
            writable=folders,
            temporary=self._temporary,
            most_memory=_MOST_MEMORY,
            largest_file=_LARGEST_FILE,
        )
        return list(argv) if cell is None else [*program("step", 0), json.dumps(cell), *argv]


def _named_files(environment: Mapping[str, str], own: Sequence[Path]) -> Iterator[str]:
    """Yields files and folders that the operator's variables name, such as certificates and packages.
    Folders that steps may change, such as a cache, are left out: steps see them anyway, and may have put a
    link there."""
    for value in environment.values():
        path = value.removeprefix("file://")
        if (
            path.startswith("/")
            and len(Path(path).parts) > 2
            and os.pathsep not in path
            and not any(Path(path).is_relative_to(folder) for folder in own)
            and Path(path).exists()
        ):
            yield path
