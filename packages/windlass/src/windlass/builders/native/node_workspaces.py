"""Workspaces of Node: the package whose lock holds for another one, and the packages that this one needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from windlass.builders.native.node import MOST_PACKAGES, Package, package
from windlass.builders.native.node_managers import is_matched

DEEPEST: Final = 6


def workspace_of(folder: Path, top: Path) -> Package | None:
    """Returns the package of the workspace that a folder belongs to, at or below `top`."""
    for outer in list(folder.parents)[:DEEPEST]:
        if not outer.is_relative_to(top):
            return None
        root = package(outer)
        if root and is_matched(folder.relative_to(outer).as_posix(), list(root.workspaces)):
            return root
    return None


def packages_to_build(package: Package, workspace: Package) -> list[Package]:
    """Returns the packages of a workspace that one needs and that have a script to build, each after those
    that it needs itself."""
    members = {member.name: member for member in _members(workspace)}
    ordered: dict[str, Package] = {}

    def take(needed: Package, ahead: tuple[str, ...]) -> None:
        for name in (*needed.dependencies, *needed.development):
            member = members.get(name)
            if member and name not in ordered and name not in ahead and len(ahead) < MOST_PACKAGES:
                take(member, (*ahead, name))
                ordered[name] = member

    take(package, (package.name,))
    return [member for member in ordered.values() if "build" in member.scripts]


def _members(workspace: Package) -> Iterator[Package]:
    patterns = list(workspace.workspaces)
    for folder, folders, _ in os.walk(workspace.folder):
        path = Path(folder).relative_to(workspace.folder)
        folders[:] = [name for name in folders if name != "node_modules" and not name.startswith(".")]
        if len(path.parts) >= DEEPEST:
            folders.clear()
        if is_matched(path.as_posix(), patterns) and (member := package(Path(folder))):
            yield member
