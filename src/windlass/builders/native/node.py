"""Node dependencies: npm installs the packages that package.json names."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.base import subprocesses as group
from windlass.builders.builder import BuildError, Say
from windlass.builders.native import tree
from windlass.builders.native.tools import Tools, step
from windlass.builders.small_files import read_small, read_small_text

LOCKS: Final = ("package-lock.json", "npm-shrinkwrap.json")
FOREIGN_LOCKS: Final = ("yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb")
# npm runs these scripts of the package when it installs, and they may read any file.
_SCRIPTS: Final = "preinstall install postinstall prepublish preprepare prepare postprepare"
OWN_SCRIPTS: Final = frozenset(_SCRIPTS.split())
MOST_PACKAGES: Final = 100

_LOCAL = re.compile(r"(?:file|link):(?P<path>.+)|(?P<bare>\.{1,2}/.*|/.*|~/.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_]+)\??\}")


class Package(Struct, frozen=True, kw_only=True):
    """The parts of a package.json that matter here."""

    folder: Path
    scripts: Mapping[str, str]
    dependencies: Mapping[str, str]
    development: Mapping[str, str]
    workspaces: bool
    main: str

    @property
    def runs_own_scripts(self) -> bool:
        return bool(OWN_SCRIPTS & self.scripts.keys())


class NodeDependencies(Struct, frozen=True, kw_only=True):
    package: Package
    files: tuple[Path, ...] = ()
    """Files that npm needs besides the code."""
    local: tuple[Path, ...] = ()
    """Packages that are folders or archives of the repository itself."""
    build: tuple[str, ...] = ()
    """The command that builds the application, which needs the packages for development too."""

    @property
    def in_place(self) -> bool:
        """True if it can only be installed beside the code, and for this commit alone."""
        return bool(self.build) or self.package.runs_own_scripts or self.package.workspaces

    @property
    def nothing(self) -> bool:
        return not (self.package.dependencies or self.in_place)


def package(folder: Path) -> Package | None:
    file = folder / "package.json"
    if not file.is_file():
        return None
    try:
        content = msgspec.json.decode(read_small(file))
    except msgspec.DecodeError as error:
        raise BuildError(f"Mend package.json, which cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise BuildError("package.json must hold an object.")
    return Package(
        folder=folder,
        scripts=_texts(content.get("scripts")),
        dependencies=_texts(content.get("dependencies")) | _texts(content.get("optionalDependencies")),
        development=_texts(content.get("devDependencies")),
        workspaces=bool(content.get("workspaces")),
        main=content["main"] if isinstance(content.get("main"), str) else "",
    )


def remarks(package: Package | None, started: str) -> list[str]:
    """Returns lines for the build log about a build script that is not run."""
    if package is None or "build" not in package.scripts:
        return []
    if runs_build(package, started):
        return []
    return [
        'The script build of package.json is not run: add the script "postinstall": "npm run build", and put '
        "the packages that it needs into dependencies."
    ]


def runs_build(package: Package, started: str) -> bool:
    """True if the start command, or a script that runs with it or with the installation, builds already."""
    names = {"prestart", "start", *OWN_SCRIPTS} & package.scripts.keys()
    return any("run build" in command for command in (started, *(package.scripts[name] for name in names)))


def needs(package: Package, top: Path, say: Say, build: tuple[str, ...] = ()) -> NodeDependencies:
    folder = package.folder
    files = [folder / name for name in ("package.json", *LOCKS, ".npmrc") if (folder / name).is_file()]
    if not any((folder / name).is_file() for name in LOCKS):
        for name in FOREIGN_LOCKS:
            if (folder / name).is_file():
                say(f"{name} is not followed: npm installs what package.json names.")
    return NodeDependencies(
        package=package, files=tuple(files), local=tuple(_local(package, top)), build=build
    )


def digest(needed: NodeDependencies, version: str, variables: Mapping[str, str]) -> str:
    total = hashlib.sha256()
    folder = needed.package.folder
    for part in (
        version,
        tree.digest(folder, needed.files),
        tree.digest(folder, needed.local),
        *(f"{name}={value}" for name, value in sorted(variables.items())),
    ):
        total.update(part.encode(errors="surrogateescape") + b"\0")
    return "node-" + total.hexdigest()[:32]


def named_variables(needed: NodeDependencies, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that .npmrc names, such as a token."""
    settings = needed.package.folder / ".npmrc"
    named = _VARIABLE.findall(read_small_text(settings)) if settings.is_file() else []
    return {name: variables[name] for name in named if name in variables}


async def version(tools: Tools) -> str:
    """Returns the version of node. Refuses if node or npm is missing."""
    for name in ("node", "npm"):
        if not (path := tools.find(name)):
            raise BuildError(
                f"{name} is not installed on the machine that runs Windlass, and package.json needs it: "
                "install Node.js with npm there, or deploy to a cluster with the engine docker."
            )
        if name == "node":
            answer = await tools.ask([path, "--version"], cwd=tools.home)
    return (answer or "").strip()


async def apart(tools: Tools, needed: NodeDependencies, folder: Path, variables: Mapping[str, str]) -> None:
    """Installs into `folder`/node_modules, where it stays. npm sees only the files that it needs."""
    for path in (*needed.files, *needed.local):
        target = folder / path.relative_to(needed.package.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            await group.in_thread(tree.copy, path, target)
        elif not target.exists():
            await group.in_thread(tree.place, path, target)
    await _npm(tools, folder, variables)
    (folder / "node_modules").mkdir(exist_ok=True)


async def in_place(
    tools: Tools, needed: NodeDependencies, target: Path, app: Path, variables: Mapping[str, str]
) -> None:
    """Installs beside the code, builds, and then moves the packages to `target`, beside `app`."""
    folder = needed.package.folder
    await _npm(tools, folder, variables, development=bool(needed.build))
    if needed.build:
        shown = " ".join(needed.build)
        # Some builds take warnings for errors where CI is set.
        with step(tools.say, f"Building ({shown})"):
            await tools.run(needed.build, cwd=folder, more={**variables, "CI": "false"}, what=shown)
    if (folder / "node_modules").is_symlink():
        raise BuildError("Make node_modules a folder: npm install left a symbolic link.")
    (folder / "node_modules").mkdir(exist_ok=True)
    await group.in_thread(tree.move, folder / "node_modules", target / "node_modules")
    await group.in_thread(_mend, target / "node_modules", folder / "node_modules", app)


def _mend(moved: Path, was: Path, app: Path) -> None:
    """Corrects links to packages of the repository: their relative paths change with the folder."""
    for path in list(tree.walk(moved)):
        if not path.is_symlink() or path.readlink().is_absolute():
            continue
        old = was / path.relative_to(moved)
        target = os.path.normpath(old.parent / path.readlink())
        if not target.startswith(f"{was}/"):
            # An artifact's `app` stands beside its `node_modules`.
            new = posixpath.join(
                os.path.relpath(moved.parent, path.parent), "app", os.path.relpath(target, app)
            )
            path.unlink()
            path.symlink_to(new)


async def _npm(tools: Tools, cwd: Path, variables: Mapping[str, str], *, development: bool = False) -> None:
    npm = tools.find("npm")
    assert npm  # `version` made sure
    locked = any((cwd / name).is_file() for name in LOCKS)
    words = ["ci"] if locked else ["install", "--no-package-lock"]
    words.append("--include=dev" if development else "--omit=dev")
    with step(tools.say, f"Installing the Node dependencies (npm {words[0]} {words[-1]})"):
        await tools.run([npm, *words], cwd=cwd, more=variables, what=f"npm {words[0]}")


def _local(root: Package, top: Path) -> Iterator[Path]:
    """Yields the local packages, with those that they name in turn."""
    seen: set[Path] = set()
    ahead = [root]
    while ahead:
        here = ahead.pop()
        for version in (*here.dependencies.values(), *(here.development.values() if here is root else ())):
            if not (named := _LOCAL.fullmatch(version)):
                continue
            path = named["path"] or named["bare"]
            place = Path(os.path.normpath(tree.within(top, here.folder, path, "package.json")))
            if not place.is_relative_to(root.folder):
                raise BuildError(
                    f"Take {path} out of package.json: it is outside of the folder of that file."
                )
            if not place.exists():
                raise BuildError(f"Commit {path}, or take it out of package.json: it is not there.")
            if place not in seen and len(seen) < MOST_PACKAGES:
                seen.add(place)
                yield place
                if place.is_dir() and (inner := package(place)):
                    ahead.append(inner)


def _texts(texts: Any) -> dict[str, str]:
    return (
        {name: value for name, value in texts.items() if isinstance(value, str)}
        if isinstance(texts, dict)
        else {}
    )
