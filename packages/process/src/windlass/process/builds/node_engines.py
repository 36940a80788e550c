"""Finds the Node version that packages require if the repository itself does not set one.

The requirement is only known after an installation, because a version such as `latest` depends on the
registry's current content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.atomic_files import write_whole
from windlass.base.foreign_json import BadJson, read_json
from windlass.builders.small_files import read_small
from windlass.detect import is_in_range
from windlass.process.builds import tree
from windlass.process.builds.node_runtime import MAJOR_VERSIONS

_ENGINE_ERROR_PATTERN: Final = re.compile(
    r'(?<!\S)(\S{1,300}): The engine "node" is incompatible .*Expected version "([^"]{1,200})"'
)
"""The error message of Yarn 1, which refuses to install in this case."""
_MAX_NOTES: Final = 20


class OtherNode(Exception):
    """Raised if packages require another Node version than the one that installed them."""

    def __init__(self, major: str, named_by: str) -> None:
        super().__init__(f"{named_by} asks for Node {major}")
        self.major, self.named_by = major, named_by


def check_packages(folder: Path, names: Iterable[str], version: str) -> None:
    """Raises OtherNode if a package in `folder`/node_modules does not support this Node version and another
    available version supports all named packages."""
    engines = {name: engine for name in names if (engine := _engine(folder, name))}
    _check(engines, version)


def check_refusal(lines: Sequence[str], version: str) -> None:
    """Raises OtherNode in the same cases, based on the error output of a failed installation."""
    _check({match[1]: match[2] for line in lines if (match := _ENGINE_ERROR_PATTERN.search(line))}, version)


def _check(engines: dict[str, str], version: str) -> None:
    unmet = [name for name, engine in engines.items() if not is_in_range(version, engine)]
    for major in MAJOR_VERSIONS if unmet else ():
        if all(is_in_range(f"{major}.999.999", engine) for engine in engines.values()):
            raise OtherNode(major, f"the package {unmet[0]}")


def _engine(folder: Path, name: str) -> str:
    """Returns the Node versions that an installed package supports. Returns an empty string if its
    package.json is unreadable."""
    file = tree.resolve_inside(folder, folder / "node_modules" / name / "package.json")
    if file is None or not file.is_file():
        return ""
    try:
        return read_json(read_small(file), _InstalledPackage).engines.get("node", "")
    except BadJson:
        return ""


class _InstalledPackage(msgspec.Struct):
    engines: dict[str, str] = {}


class EngineNotes:
    """Records which version of Node or Python packages required in earlier builds of a service, by the digest
    of the packages."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def find(self, digest: str) -> tuple[str, str]:
        """Returns the major version of Node and the package that requires it, or empty strings."""
        return self._read().get(digest, ("", ""))

    def add(self, digest: str, other: OtherNode) -> None:
        self.note(digest, other.major, other.named_by)

    def note(self, digest: str, version: str, named_by: str) -> None:
        notes = {**self._read(), digest: (version, named_by)}
        kept = dict(list(notes.items())[-_MAX_NOTES:])
        write_whole(self._file, msgspec.json.encode(kept), durable=False)

    def _read(self) -> dict[str, tuple[str, str]]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, tuple[str, str]])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}
