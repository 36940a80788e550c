"""The build steps that install and build a Node application."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from windlass.base import subprocesses
from windlass.base.folder_removal import erase
from windlass.builders.detecting import read_files
from windlass.builders.node_managers import PackageManager, manager_of
from windlass.builders.node_packages import Package
from windlass.detect.install_variables import switches
from windlass.detect.node_scripts import managers_called
from windlass.process.builds import node
from windlass.process.builds.build_state import NOT_FOR_TOOLS, BuildState, complete, explained
from windlass.process.builds.kept_folders import KeptFolders
from windlass.process.builds.node_copies import PackageCopy
from windlass.process.builds.node_engines import EngineNotes, OtherNode, check_packages, check_refusal
from windlass.process.builds.node_runtime import NodeRuntime, find_manager, find_node
from windlass.process.builds.tools import ToolFailed, about_registries

KEPT_CACHES: Final = (".next/cache", "node_modules/.cache", "node_modules/.vite", ".angular/cache")
"""Framework caches that are kept between builds of a service."""
_NODE_PATTERN: Final = re.compile(r"(?<![\w-])(node|npm|npx|yarn|pnpm|bun|bunx)(?![\w-])")


class _NodeTools(NamedTuple):
    """The Node runtime and package manager of a build."""

    runtime: NodeRuntime
    bins: Path | None
    """The folder of a fetched package manager's programs."""
    others: tuple[Path, ...] = ()
    """The folders of other package managers that scripts call."""


async def install_node(state: BuildState) -> None:
    package = state.sources.package
    if package is None or not _wants_node(state, package):
        return
    state.environment["NODE_ENV"] = "production"
    if (package.folder / "node_modules").exists():
        state.say("node_modules is part of the code: it is used as it is.")
        _place_programs(state, package.folder / "node_modules", Path("node_modules"))
        return
    root = state.sources.workspace or package
    manager = manager_of(root.folder, root.manager)
    read = partial(
        node.dependencies_of,
        command=state.sources.install,
        build=state.sources.build,
        start_commands=state.sources.start.text,
    )
    needed = await read_files(state.calls, state.order.org, read, package, root, manager)
    wanted, named_by = state.sources.wanted_node
    if needed.is_empty:
        used = await _node_and_manager(state, needed, wanted, named_by)
    elif wanted:
        used = await _packages(state, needed, wanted, named_by, may_change=False)
    else:
        used = await _packages_with_their_node(state, needed)
    await _give_to_instances(state, needed, used)


async def _packages_with_their_node(state: BuildState, dependencies: node.NodeDependencies) -> _NodeTools:
    """Installs the packages, and installs them again if they require another Node version. Later builds start
    with the required version."""
    digest = await subprocesses.in_thread(node.digest, dependencies, "", {})
    notes = EngineNotes(state.caches.own / "engines.json")
    wanted, named_by = await subprocesses.in_thread(notes.find, digest)
    try:
        return await _packages(state, dependencies, wanted, named_by, may_change=not wanted)
    except OtherNode as other:
        state.say(f"Installing again with Node {other.major}: {other.named_by} asks for it.")
        await subprocesses.in_thread(notes.add, digest, other)
        await subprocesses.in_thread(erase, dependencies.root.folder / "node_modules")
        return await _packages(state, dependencies, other.major, other.named_by, may_change=False)


def _wants_node(state: BuildState, package: Package) -> bool:
    """Returns whether the application needs Node. In a Python project, package.json often exists only for
    development tools."""
    start = state.sources.start
    if (
        state.sources.declaration is None
        or state.sources.build
        or not start.command
        or _NODE_PATTERN.search(start.text)
    ):
        return True
    if package.dependencies:
        state.say("package.json is not installed: this is a Python project, and its command is not Node's.")
    return False


async def _node_and_manager(
    state: BuildState, dependencies: node.NodeDependencies, version_range: str, named_by: str
) -> _NodeTools:
    runtime = await find_node(state.tools, state.toolchains, state.held, version_range, named_by)
    if runtime.complaint:
        state.say(runtime.complaint)
    if dependencies.is_empty and not _is_named(state, dependencies.manager.name):
        return _NodeTools(runtime, None)  # no package manager is run
    with explained(runtime.complaint):
        bins = await find_manager(state.tools, state.toolchains, state.held, dependencies.manager)
        others = [
            await find_manager(state.tools, state.toolchains, state.held, PackageManager(name=name))
            for name in _other_managers(state, dependencies)
        ]
    return _NodeTools(runtime, bins, tuple(filter(None, others)))


def _other_managers(state: BuildState, dependencies: node.NodeDependencies) -> list[str]:
    """Returns the package managers that scripts call although another one installs, such as yarn beside
    package-lock.json."""
    package = dependencies.package
    known = {dependencies.manager.name, *package.dependencies, *package.development}
    commands = [shlex.join(command) for command in state.sources.build]
    called = managers_called(package.scripts, state.sources.start.text, *commands)
    return [name for name in called if name not in known]


async def _give_to_instances(
    state: BuildState, dependencies: node.NodeDependencies, node_tools: _NodeTools
) -> None:
    """Links fetched programs into the artifact: Node, and the package manager if a command of the application
    uses it."""
    if node_tools.runtime.fetched:
        own = await state.keep(node_tools.runtime.fetched, "node")
        state.places.append((own / "bin", own / "bin"))
    if node_tools.bins and _is_named(state, dependencies.manager.name):
        own = await state.keep(node_tools.bins.parent, "manager")
        state.places.append((own / ".bin", own / ".bin"))
    for number, bins in enumerate(node_tools.others):
        own = await state.keep(bins.parent, f"manager{number + 1}")
        state.places.append((own / ".bin", own / ".bin"))


def _is_named(state: BuildState, program: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){program}(?![\w-])", state.sources.start.text))


async def _packages(
    state: BuildState,
    dependencies: node.NodeDependencies,
    version_range: str,
    named_by: str,
    *,
    may_change: bool,
) -> _NodeTools:
    """Installs and builds with the wanted Node version, and returns the programs that were used.

    With `may_change`, raises OtherNode if packages require another version.
    """
    used = await _node_and_manager(state, dependencies, version_range, named_by)
    if used.runtime.complaint:  # the wanted Node cannot be had, and the nearest may do
        manager = replace(dependencies.manager, ignores_engines=True)
        dependencies = replace(dependencies, manager=manager)
    with explained(used.runtime.complaint):
        try:
            await _install_and_build(state, dependencies, used.runtime, may_change=may_change)
        except ToolFailed as failed:
            if may_change:
                check_refusal(failed.lines, used.runtime.version)
            raise
    return used


async def _install_and_build(
    state: BuildState, dependencies: node.NodeDependencies, runtime: NodeRuntime, *, may_change: bool
) -> None:
    """Installs and builds, and links the packages to the place where instances find them."""
    variables = state.sources.variables
    settings = (
        about_registries(variables) | switches(variables) | node.named_variables(dependencies, variables)
    )
    present = (
        None
        if dependencies.is_installed_in_place
        else await _install_once(state, dependencies, runtime, settings)
    )
    if present and may_change:
        await subprocesses.in_thread(check_packages, present, dependencies.names, runtime.version)
    folder = dependencies.root.folder
    if dependencies.belongs_to_commit:
        if present is not None:
            _link(state, "packages", present)
        for_steps = {name: text for name, text in variables.items() if name.upper() not in NOT_FOR_TOOLS}
        copy = PackageCopy(state.caches, present, folder) if present and dependencies.may_keep_copy else None
        if copy is None or not await subprocesses.in_thread(copy.put_in):
            await node.put_beside_code(state.tools, dependencies, present, {**for_steps, **settings})
            if copy:
                await subprocesses.in_thread(copy.note_copied)
        if may_change and not present:
            await subprocesses.in_thread(check_packages, folder, dependencies.names, runtime.version)
        kept = KeptFolders(state.caches.kept, dependencies.package.folder, KEPT_CACHES, ())
        await subprocesses.in_thread(kept.put_in)
        try:
            await node.build(state.tools, dependencies, {**for_steps, **settings})
        finally:
            await subprocesses.in_thread(kept.take_out)
        state.check()
        is_as_installed = copy is not None and await subprocesses.in_thread(copy.take_out)
        if state.sources.static_folder:
            await subprocesses.in_thread(erase, folder / "node_modules")
            return
        if is_as_installed:
            assert present
            _link(state, "node_modules", present)
        else:
            await node.move_out(dependencies, state.made, state.layout.app)
            present = state.made
    else:
        assert present
        _link(state, "node_modules", present)
    modules = folder / "node_modules"
    modules.unlink(missing_ok=True)
    modules.symlink_to(state.final / "node_modules")
    # A relative link to shared packages is only valid once the artifact is at its final path.
    state.places.append((present / "node_modules" / ".bin", state.final / "node_modules" / ".bin"))
    if dependencies.package != dependencies.root:
        _place_programs(state, dependencies.package.folder / "node_modules", Path("node_modules"))


def _link(state: BuildState, name: str, dependencies_folder: Path) -> None:
    """Links the artifact to shared packages. A sweep removes packages without a link from an artifact."""
    (state.made / name).symlink_to(
        Path("..", dependencies_folder.parent.name, dependencies_folder.name, "node_modules")
    )


def _place_programs(state: BuildState, now: Path, final: Path) -> None:
    state.places.append((now / ".bin", final / ".bin"))


async def _install_once(
    state: BuildState, dependencies: node.NodeDependencies, runtime: NodeRuntime, settings: Mapping[str, str]
) -> Path:
    """Returns the folder of the packages. Builds with the same lock file and settings share this folder."""
    versions = f"{runtime.version} {dependencies.manager.wanted}"
    digest = await subprocesses.in_thread(node.digest, dependencies, versions, settings)
    deps, is_present = await state.hold_dependencies(digest)
    if is_present:
        state.say("The Node dependencies have not changed: they are used as they were installed before.")
    else:
        await node.install_apart(state.tools, dependencies, deps, settings)
        await subprocesses.in_thread(complete, deps)
    return deps
