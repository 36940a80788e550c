"""Finds the entry points of installed packages.

Reads the metadata in the folders of `sys.path`. `importlib.metadata` does the same, but its import takes as
long as a short command.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class EntryPoint(NamedTuple):
    name: str
    value: str
    """A module, or a module and its attribute: `package.module:attribute`."""

    def load(self) -> Any:
        module, _, attribute = self.value.partition(":")
        loaded = importlib.import_module(module)
        return getattr(loaded, attribute) if attribute else loaded


def entry_points(group: str) -> list[EntryPoint]:
    """Returns the entry points of a group, sorted by name. If a package is installed twice, its first copy in
    `sys.path` counts, as for imports."""
    found: dict[str, list[EntryPoint]] = {}
    for package, path in _installed_packages():
        if package not in found:
            found[package] = []
            with suppress(FileNotFoundError, NotADirectoryError):
                text = Path(path, "entry_points.txt").read_text("utf-8")
                found[package] += _entry_points_of_group(group, text.splitlines())
    return sorted(point for points in found.values() for point in points)


def modules_of(package: str, folders: Iterable[str], group: str) -> Iterator[ModuleType]:
    """Yields the modules of the package `package` with these folders, and of an entry point group.

    Sorts the modules by name.
    """
    own = [EntryPoint(name, f"{package}.{name}") for _, name, _ in pkgutil.iter_modules(folders)]
    for point in sorted([*own, *entry_points(group)]):
        module: ModuleType = point.load()
        yield module


def _installed_packages() -> Iterator[tuple[str, str]]:
    for folder in sys.path:
        with suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.endswith(".dist-info"):
                    yield entry.name.partition("-")[0], entry.path


def _entry_points_of_group(group: str, lines: Iterable[str]) -> Iterator[EntryPoint]:
    is_inside = False
    for line in map(str.strip, lines):
        if line.startswith("["):
            is_inside = line == f"[{group}]"
        elif is_inside and "=" in line:
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip())
