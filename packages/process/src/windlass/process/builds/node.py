"""Installs Node dependencies with the package manager of the lock file.

`node_managers` describes the package managers. `node_runtime` finds Node itself.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from windlass.base import subprocesses
from windlass.builders.builder import BuildError
from windlass.builders.node_managers import (
    FOLDERS,
    SETTINGS,
    PackageManager,
    registry_of,
)
from windlass.builders.node_packages import (
    MAX_PACKAGES,
    Package,
    package,
    read_manifest,
    texts_of,
)
from windlass.builders.small_files import read_small_text
from windlass.detect.node_scripts import OWN_SCRIPTS, needs_development
from windlass.process.builds import tree
from windlass.process.builds.tools import ToolFailed, Tools, step

_LOCAL_PATTERN = re.compile(r"(?:file|link):(?P<path>.+)|(?P<bare>\.{1,2}/.*|/.*|~/.*)", re.DOTALL)
_LOCK_COMPLAINT_PATTERN = re.compile(r"npm (?:error|ERR!) (Missing|Invalid): ")
_VARIABLE_PATTERN = re.compile(r"\$\{([A-Za-z0-9_]+)\??\}")


class NodeDependencies(Struct, frozen=True, kw_only=True):
    package: Package
    """The application's package."""
    root: Package
    """The package whose lock file is used: the application's package or the root of its workspace."""
    manager: PackageManager
    files: tuple[Path, ...] = ()
    """Files and folders that the package manager needs, without the code."""
    local: tuple[Path, ...] = ()
    """Packages that are folders or archives in the repository."""
    command: str = ""
    """The install command from the application's settings, if it is set."""
    build: tuple[tuple[str, ...], ...] = ()
    """The commands that build the application."""
    with_development: bool = False
    """Whether the build or the start command needs the development dependencies."""

    @property
    def is_installed_in_place(self) -> bool:
        """Returns whether the packages can only be installed beside the code."""
        return bool(self.command or self.root.workspaces) or self.manager.is_berry

    @property
    def belongs_to_commit(self) -> bool:
        """Returns whether the packages can be used for this commit only, because its code changes them or
        adds to them."""
        return self.is_installed_in_place or bool(self.build or self.package.own_scripts)

    @property
    def may_keep_copy(self) -> bool:
        """Returns whether a copy of the packages can be kept for the next build.

        Scripts of the application must run after each copy, and links to packages of the repository must lead
        to their current code, so neither may exist.
        """
        return not self.package.own_scripts and not any(path.is_dir() for path in self.local)

    @property
    def names(self) -> list[str]:
        """The names of the packages that package.json lists directly."""
        parts = (self.package, self.root)
        installed = [name for part in parts for name in part.dependencies]
        return [
            *installed,
            *(name for part in parts for name in (part.development if self.with_development else ())),
        ]

    @property
    def is_empty(self) -> bool:
        return not (self.package.dependencies or self.belongs_to_commit or self.with_development)


def dependencies_of(
    package: Package,
    root: Package,
    manager: PackageManager,
    *,
    command: str = "",
    build: tuple[tuple[str, ...], ...] = (),
    start_commands: str = "",
) -> NodeDependencies:
    """Returns the dependencies of a package. `start_commands` are the commands that will run later."""
    folder = root.folder
    names = ("package.json", manager.lock, *SETTINGS, *FOLDERS)
    files = tuple(folder / name for name in names if name and (folder / name).exists())
    return NodeDependencies(
        package=package,
        root=root,
        manager=manager,
        files=files,
        local=tuple(_local(root, folder)),
        command=command,
        build=build,
        with_development=bool(build) or _starts_by_tools(package, root, start_commands),
    )


def _starts_by_tools(package: Package, root: Package, start_commands: str) -> bool:
    scripts = (package.scripts.get(name, "") for name in ("prestart", "start", *package.own_scripts))
    development = {*package.development, *root.development}
    return needs_development((start_commands, *scripts), development, package.scripts)


def digest(dependencies: NodeDependencies, versions: str, variables: Mapping[str, str]) -> str:
    """Returns a digest of everything that decides what is installed. The application's own scripts are not
    part of the digest, because they run later."""
    total = hashlib.sha256()
    folder = dependencies.root.folder
    manifest = folder / "package.json"
    for part in (
        versions,
        *dependencies.manager.install(development=dependencies.with_development),
        _without_scripts(manifest).decode(errors="surrogateescape"),
        tree.digest(folder, [file for file in dependencies.files if file != manifest]),
        tree.digest(folder, dependencies.local),
        *(f"{name}={value}" for name, value in sorted(variables.items())),
    ):
        total.update(part.encode(errors="surrogateescape") + b"\0")
    return "node-" + total.hexdigest()[:32]


def _without_scripts(manifest: Path) -> bytes:
    """Returns package.json without the scripts that need the code."""
    content = read_manifest(manifest)
    scripts = texts_of(content.get("scripts"))
    content["scripts"] = {name: text for name, text in scripts.items() if name not in OWN_SCRIPTS}
    return msgspec.json.encode(content)


def named_variables(dependencies: NodeDependencies, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that the package manager's settings files refer to, such as a token."""
    settings = [dependencies.root.folder / name for name in (".npmrc", ".yarnrc.yml", "bunfig.toml")]
    named = [
        name
        for file in settings
        if file.is_file()
        for name in _VARIABLE_PATTERN.findall(read_small_text(file))
    ]
    return {name: variables[name] for name in named if name in variables}


async def install_apart(
    tools: Tools, dependencies: NodeDependencies, folder: Path, variables: Mapping[str, str]
) -> None:
    """Installs the packages into `folder`/node_modules, where they remain. The package manager sees only the
    files that it needs."""
    for path in (*dependencies.files, *dependencies.local):
        if (
            tree.resolve_inside(dependencies.root.folder, path) is None
        ):  # an earlier step may have put a link there
            raise BuildError(f"Fix the install script: it makes {path.name} lead out of the application.")
        target = folder / path.relative_to(dependencies.root.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            await subprocesses.in_thread(tree.copy, path, target)
        elif path.name == "package.json" and path.parent == dependencies.root.folder:
            target.write_bytes(_without_scripts(path))
        elif not target.exists():
            await subprocesses.in_thread(partial(tree.replace_file, path, target, needs_copy=True))
    await _install(tools, dependencies, folder, variables)
    (folder / "node_modules").mkdir(exist_ok=True)


async def put_beside_code(
    tools: Tools, dependencies: NodeDependencies, present: Path | None, variables: Mapping[str, str]
) -> None:
    """Puts the packages beside the code. Copies them from `present`, or installs them there if it is None."""
    folder = dependencies.root.folder
    if present is None:
        await _install(tools, dependencies, folder, variables)
    else:
        (folder / "node_modules").unlink(missing_ok=True)
        words: list[str | Path] = [
            "cp",
            "-a",
            "--reflink=auto",
            present / "node_modules",
            folder / "node_modules",
        ]
        await tools.run(words, cwd=folder, title="cp")
        for script in dependencies.package.own_scripts:
            await _run(
                tools,
                dependencies,
                dependencies.manager.run(script),
                variables,
                f"the script {script} of package.json",
            )


async def build(tools: Tools, dependencies: NodeDependencies, variables: Mapping[str, str]) -> None:
    for command in dependencies.build:
        with step(tools.say, f"Building ({_text_of(command)})"):
            await _run(tools, dependencies, command, variables, _text_of(command))


def _text_of(command: tuple[str, ...]) -> str:
    return command[-1] if command[:2] == ("/bin/sh", "-c") else " ".join(command)


async def _run(
    tools: Tools,
    dependencies: NodeDependencies,
    command: tuple[str, ...],
    variables: Mapping[str, str],
    title: str,
) -> None:
    bins = [
        str(package.folder / "node_modules" / ".bin") for package in (dependencies.package, dependencies.root)
    ]
    # With CI set, some build tools treat warnings as errors.
    more = {**variables, "CI": "false", "PATH": os.pathsep.join((*dict.fromkeys(bins), *tools.path))}
    settings = settings_of(tools, dependencies)
    await tools.run(
        command, cwd=dependencies.package.folder, extra_variables={**settings, **more}, title=title
    )


def settings_of(tools: Tools, dependencies: NodeDependencies) -> dict[str, str]:
    return dependencies.manager.settings(tools.cache, registry_of(tools.surroundings))


async def move_out(dependencies: NodeDependencies, target: Path, app: Path) -> None:
    """Moves the packages to `target`, beside `app`, where instances share them."""
    folder = dependencies.root.folder
    if (folder / "node_modules").is_symlink():
        raise BuildError("Make node_modules a folder: the installation left a symbolic link.")
    (folder / "node_modules").mkdir(exist_ok=True)
    await subprocesses.in_thread(tree.move, folder / "node_modules", target / "node_modules")
    await subprocesses.in_thread(_fix_links, target / "node_modules", folder / "node_modules", app)


def _fix_links(moved: Path, was: Path, app: Path) -> None:
    """Corrects relative links from the packages to folders of the repository after the packages were
    moved."""
    for path in list(tree.walk(moved)):
        if not path.is_symlink() or path.readlink().is_absolute():
            continue
        old = was / path.relative_to(moved)
        target = os.path.normpath(old.parent / path.readlink())
        if not target.startswith(f"{was}/"):
            # In an artifact, the folders `app` and `node_modules` are siblings.
            new = posixpath.join(
                os.path.relpath(moved.parent, path.parent), "app", os.path.relpath(target, app)
            )
            path.unlink()
            path.symlink_to(new)


async def _install(
    tools: Tools, dependencies: NodeDependencies, cwd: Path, variables: Mapping[str, str]
) -> None:
    words = dependencies.manager.install(development=dependencies.with_development)
    if dependencies.command:
        words = ("/bin/sh", "-c", dependencies.command)
    text = _text_of(words)
    more = {**settings_of(tools, dependencies), **variables}
    try:
        with step(tools.say, f"Installing the Node dependencies ({text})"):
            await tools.run(words, cwd=cwd, extra_variables=more, title=text)
    except ToolFailed as failed:
        if words[:2] != ("npm", "ci") or not _lacks_only_packages(failed.lines):
            raise
        words = ("npm", "install", *words[2:])
        tools.say(
            f"{dependencies.manager.lock} lacks packages: npm adds them, and keeps to the versions that it "
            "names. Run `npm install`, and commit the lock file, to have the same versions each time."
        )
        text = _text_of(words)
        with step(tools.say, f"Installing the Node dependencies ({text})"):
            await tools.run(words, cwd=cwd, extra_variables=more, title=text)


def _lacks_only_packages(lines: Sequence[str]) -> bool:
    """Returns whether npm refused a lock file that lacks packages, and contradicts package.json in nothing.

    Some versions of npm leave optional packages out of the lock files that they write.
    """
    said = {match[1] for line in lines if (match := _LOCK_COMPLAINT_PATTERN.match(line))}
    is_whole = any("can only install packages when" in line for line in lines)  # it precedes the list
    return is_whole and said == {"Missing"}


def _local(root: Package, root_folder: Path) -> Iterator[Path]:
    """Yields the local packages, including the local packages on which they depend."""
    seen: set[Path] = set()
    ahead = [root]
    while ahead:
        here = ahead.pop()
        for version in (*here.dependencies.values(), *(here.development.values() if here is root else ())):
            if not (named := _LOCAL_PATTERN.fullmatch(version)):
                continue
            path = named["path"] or named["bare"]
            place = Path(os.path.normpath(tree.within(root_folder, here.folder, path, "package.json")))
            if not place.is_relative_to(root.folder):
                raise BuildError(
                    f"Take {path} out of package.json: it is outside of the folder of that file."
                )
            if not place.exists():
                raise BuildError(f"Commit {path}, or take it out of package.json: it is not there.")
            if place not in seen and len(seen) < MAX_PACKAGES:
                seen.add(place)
                yield place
                if place.is_dir() and (inner := package(place)):
                    ahead.append(inner)
