"""Reads Node packages: the content of package.json, their workspace, and the required builds."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.builders.builder import BuildError
from windlass.builders.node_managers import PackageManager, is_matched, manager_of, workspace_patterns
from windlass.builders.small_files import read_small
from windlass.detect.node_scripts import runs_build, scripts_of_installation

MAX_PACKAGES: Final = 100


class Package(Struct, frozen=True, kw_only=True):
    """The relevant fields of a package.json."""

    folder: Path
    name: str = ""
    scripts: Mapping[str, str]
    dependencies: Mapping[str, str]
    development: Mapping[str, str]
    workspaces: tuple[str, ...] = ()
    """Folder patterns of the packages that are installed together with this one."""
    main: str
    manager: str = ""
    """The value of packageManager."""

    @property
    def own_scripts(self) -> list[str]:
        """Returns the names of the scripts to run after an installation, in order."""
        return scripts_of_installation(self.scripts)


def package(folder: Path) -> Package | None:
    file = folder / "package.json"
    if not file.is_file():
        return None
    content = read_manifest(file)
    return Package(
        folder=folder,
        name=content["name"] if isinstance(content.get("name"), str) else "",
        scripts=texts_of(content.get("scripts")),
        dependencies=texts_of(content.get("dependencies")) | texts_of(content.get("optionalDependencies")),
        development=texts_of(content.get("devDependencies")),
        workspaces=tuple(workspace_patterns(folder, content.get("workspaces"))),
        main=content["main"] if isinstance(content.get("main"), str) else "",
        manager=content["packageManager"] if isinstance(content.get("packageManager"), str) else "",
    )


def read_manifest(file: Path) -> dict[str, Any]:
    try:
        content = read_json(read_small(file), object)
    except BadJson as error:
        raise BuildError(f"Fix package.json, which cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise BuildError("Fix package.json: it must hold an object.")
    return content


def builds_elsewhere(package: Package, start_commands: str) -> bool:
    """Returns whether the start command, or a script of the installation, already runs the build."""
    return runs_build(
        package.scripts, start_commands, *(package.scripts[name] for name in package.own_scripts)
    )


def texts_of(found: Any) -> dict[str, str]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str)}


DEEPEST: Final = 6


def workspace_of(folder: Path, root_folder: Path) -> Package | None:
    """Returns the workspace (at or below `root_folder`) to which a folder belongs; None if there is none."""
    for outer in list(folder.parents)[:DEEPEST]:
        if not outer.is_relative_to(root_folder):
            return None
        root = package(outer)
        if root and is_matched(folder.relative_to(outer).as_posix(), list(root.workspaces)):
            return root
    return None


def packages_to_build(package: Package, workspace: Package) -> list[Package]:
    """Returns the packages of a workspace that a package depends on and that have a build script, in build
    order (dependencies first)."""
    members = {member.name: member for member in _members(workspace)}
    ordered: dict[str, Package] = {}

    def take(package: Package, ahead: tuple[str, ...]) -> None:
        for name in (*package.dependencies, *package.development):
            member = members.get(name)
            if member and name not in ordered and name not in ahead and len(ahead) < MAX_PACKAGES:
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


Commands = tuple[tuple[str, ...], ...]


def builds_of(
    package: Package | None,
    workspace: Package | None,
    start_commands: str,
    *,
    framework: str = "",
    command: str = "",
) -> Commands:
    """Returns the build commands of a package. Returns nothing if another script already runs the build.
    `framework`: the build command of the detected framework. `command`: the build command in the
    application's settings."""
    if package is None:
        return ()
    if command:
        return (("/bin/sh", "-c", command),)
    if builds_elsewhere(package, start_commands):
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
        return (("turbo", "run", "build"),)  # turbo builds the dependencies first
    others = packages_to_build(package, workspace) if workspace else ()
    before = tuple(_build_in(other.folder, package.folder, manager) for other in others)
    if "build" in package.scripts:
        return (*before, manager.run("build"))
    if framework.startswith("npx "):
        return (*before, tuple(shlex.split(framework)[1:]))
    return (*before, ("/bin/sh", "-c", framework)) if framework else before


def _build_in(folder: Path, cwd: Path, manager: PackageManager) -> tuple[str, ...]:
    place = shlex.quote(os.path.relpath(folder, cwd))
    return ("/bin/sh", "-c", f"cd {place} && {shlex.join(manager.run('build'))}")
