"""The commands that build an application of Node: those of packages of its workspace that it needs, and its
own."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from windlass.builders.native.node import Package, runs_build
from windlass.builders.native.node_managers import PackageManager, manager_of
from windlass.builders.native.node_workspaces import packages_to_build

Commands = tuple[tuple[str, ...], ...]


def builds_of(
    package: Package | None,
    workspace: Package | None,
    started: str,
    *,
    framework: str = "",
    command: str = "",
) -> Commands:
    """Returns nothing where another script builds already. `framework`: the command that builds its
    framework, `command`: the one that the settings of the application name."""
    if package is None:
        return ()
    if command:
        return (("/bin/sh", "-c", command),)
    if runs_build(package, started):
        return ()
    if framework.startswith("env "):
        return (("/bin/sh", "-c", framework),)
    root = workspace or package
    manager = manager_of(root.folder, root.manager)
    if (
        workspace
        and "build" in package.scripts
        and "turbo" in (*workspace.development, *workspace.dependencies)
    ):
        return (("turbo", "run", "build"),)  # which builds what the package needs first
    others = packages_to_build(package, workspace) if workspace else ()
    before = tuple(_build_in(other.folder, package.folder, manager) for other in others)
    if "build" in package.scripts:
        return (*before, manager.run("build"))
    return (*before, tuple(shlex.split(framework)[1:])) if framework.startswith("npx ") else before


def _build_in(folder: Path, cwd: Path, manager: PackageManager) -> tuple[str, ...]:
    place = shlex.quote(os.path.relpath(folder, cwd))
    return ("/bin/sh", "-c", f"cd {place} && {shlex.join(manager.run('build'))}")
