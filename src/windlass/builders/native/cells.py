"""Steps of a build, each in a cell: it sees the system and its own build, and changes nothing but the latter.

Builds of one organization share a user, and with it what tools have fetched: no other organization can put
anything there. What a build leaves is given to nobody: services may read it, and only that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from windlass.base.isolation.isolation import Isolation, programs
from windlass.base.isolation.launching import program
from windlass.base.isolation.users import give_ours

_MOST_MEMORY: Final = 8 << 30
_LARGEST_FILE: Final = 8 << 30
_TOOLS: Final = ("python", "node", "npm", "npx", "uv", "pip")


class Cells:
    def __init__(self, isolation: Isolation, org: str, temporary: Path, *writable: Path) -> None:
        self._isolation, self._name = isolation, f"builds of {org}"
        self._temporary = temporary
        self.writable = list(writable)
        """Folders that steps may change."""

    def wrapped(self, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """The command that runs this one in a cell. `environment`: the operator's, who may name files in
        it."""
        owner = self._isolation.owner(self._name)
        folders = [folder for folder in self.writable if folder.exists()]
        if owner is not None:
            for folder in folders:
                give_ours(folder, owner)
        cell = self._isolation.cell(
            self._name,
            readable=dict.fromkeys((*_needed(argv, environment), *_named(environment))),
            writable=folders,
            temporary=self._temporary,
            most_memory=_MOST_MEMORY,
            largest_file=_LARGEST_FILE,
        )
        return list(argv) if cell is None else [*program("step", 0), json.dumps(cell), *argv]


def _needed(argv: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yields folders that the program needs to read, and other programs that its arguments name."""
    yield from programs(environment.get("PATH", ""), argv[0])
    for word in argv:
        path = Path(word.rpartition("=")[2])
        if path.is_absolute() and path.name.startswith(_TOOLS):
            yield from programs("", str(path.resolve()))


def _named(environment: Mapping[str, str]) -> Iterator[str]:
    """Files and folders that the operator's variables name, such as certificates and packages."""
    for value in environment.values():
        path = value.removeprefix("file://")
        if (
            path.startswith("/")
            and len(Path(path).parts) > 2
            and os.pathsep not in path
            and Path(path).exists()
        ):
            yield path
