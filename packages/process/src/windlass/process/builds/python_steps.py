"""The build steps that install and build a Python application.

Scripts of the repository may call `uv run` and similar commands. Windlass puts small scripts in the place of
the package managers for them. The commands that Windlass reads itself start without the package manager: see
`detect.python_runners`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from windlass.base import subprocesses
from windlass.builders.builder import BuildError
from windlass.builders.detecting import read_files
from windlass.detect.install_variables import switches
from windlass.detect.python_runners import OPTIONS, RUNNERS
from windlass.process.builds import python
from windlass.process.builds.artifacts import name_of
from windlass.process.builds.build_state import BuildState, complete, explained, make_folders
from windlass.process.builds.node_engines import EngineNotes
from windlass.process.builds.python_managers import find_program, install_locked
from windlass.process.builds.python_versions import (
    Interpreter,
    PythonRequirement,
    find_python,
    required_by_packages,
)
from windlass.process.builds.tools import ToolFailed, about_registries, step

_TEXT: Final = rf"""#!/bin/sh
name=${{0##*/}}
if [ "${{1-}}" != run ]; then
    echo "$name: the environment was made at the build; here is only \`$name run\`" >&2
    exit 64
fi
shift
while [ $# -gt 0 ]; do
    case $1 in
        {"|".join(OPTIONS)}) shift ;;
        *) break ;;
    esac
done
case ${{1-}} in
    *.py) exec python "$@" ;;
    *) exec "$@" ;;
esac
"""


def make_runners(folder: Path) -> None:
    """Writes scripts with the names of package managers. Their `run` executes a command in the virtual
    environment that is earlier in the PATH."""
    folder.mkdir()
    for name in RUNNERS:
        (folder / name).write_text(_TEXT)
        (folder / name).chmod(0o755)


async def install_python(state: BuildState) -> None:
    lines: list[str] = []
    declaration = state.sources.declaration
    added = state.sources.added
    needed = python.PythonDependencies(added="\n".join(added), cwd=state.layout.folder) if added else None
    if declaration:
        arguments = (_read_dependencies, declaration, added)
        needed, lines = await read_files(state.calls, state.order.org, *arguments)
    for line in lines:
        state.say(line)
    if declaration and state.sources.install and not state.sources.package:
        needed = python.PythonDependencies(command=state.sources.install, cwd=declaration.folder)
    # Packages may need a newer Python than that of Windlass. Programs without packages start sooner with it.
    has_packages = needed is not None and not needed.is_empty
    version = await _interpreter(state, state.sources.wanted_python, use_newest=has_packages)
    if needed is None or needed.is_empty:
        python.make_standalone(version, state.made / "bin")
        state.places.append((state.made / "bin", state.final / "bin"))
        _place_programs(state, version)
        return
    given = state.sources.variables
    variables = about_registries(given) | switches(given) | python.named_variables(needed, given)
    with explained(version.complaint):
        version, venv = await _venv_of_suitable_python(state, needed, version, variables)
        state.environment["VIRTUAL_ENV"] = str(venv)
        state.places.append((venv / "bin", venv / "bin"))
        if needed.project and not needed.whole:
            await _project(state, needed, version, venv, variables)
    _place_programs(state, version)


def _read_dependencies(
    declaration: python.DependencyDeclaration, added_packages: Sequence[str]
) -> tuple[python.PythonDependencies, list[str]]:
    """Returns the dependencies, and lines for the build log."""
    lines: list[str] = []
    return python.dependencies_of(declaration, lines.append, added_packages), lines


async def build_python(state: BuildState) -> None:
    """Runs the build command of a Python application.

    A command that Windlass has chosen itself may fail, for example because a variable is only set at the
    start. The build then continues, unless the command makes the site that is to be served.
    """
    command = state.sources.prepare
    if not command:
        return
    with step(state.say, f"Building ({command})"):
        try:
            await state.tools.run(
                ["/bin/sh", "-c", command],
                cwd=state.layout.folder,
                extra_variables=state.variables_as_started(),
                title=command,
            )
        except BuildError as error:
            if state.order.settings.build_command or state.sources.static_folder:
                raise
            state.say(
                "Set the missing variables of this application, or build_command, and deploy again: "
                f"{error} The build continues without it."
            )


async def place_runners(state: BuildState) -> None:
    """Adds the replacements of package managers to the instances' PATH. Build steps still find the real
    package managers."""
    if "VIRTUAL_ENV" in state.environment:
        await subprocesses.in_thread(make_runners, state.made / "runners")
        state.places.append((state.made / "runners", state.final / "runners"))


async def _venv_of_suitable_python(
    state: BuildState,
    dependencies: python.PythonDependencies,
    version: Interpreter,
    variables: Mapping[str, str],
) -> tuple[Interpreter, Path]:
    """Installs the packages, and installs them again if they require another Python and the repository names
    no version. Later builds begin with the required version."""
    wanted = state.sources.wanted_python
    notes = EngineNotes(state.caches.own / "pythons.json")
    digest = await subprocesses.in_thread(python.digest, dependencies, version, variables)
    minor, package = await subprocesses.in_thread(notes.find, digest)
    if not minor:
        try:
            return version, await _venv(state, dependencies, version, variables)
        except ToolFailed as failed:
            required = required_by_packages(failed.lines, wanted)
            if required is None:
                raise
            minor, package = required
            state.say(f"Installing again with Python {minor}: {package} requires it.")
            await subprocesses.in_thread(notes.note, digest, minor, package)
    other = await _interpreter(state, PythonRequirement(minor, package, is_strict=True))
    return other, await _venv(state, dependencies, other, variables)


async def _interpreter(
    state: BuildState, requirement: PythonRequirement, *, use_newest: bool = True
) -> Interpreter:
    version = await find_python(state.tools, state.toolchains, state.held, requirement, use_newest=use_newest)
    if version.complaint:
        state.say(version.complaint)
    if version.fetched is None:
        return version
    own = await state.keep(version.fetched, "python")
    return replace(version, path=str(own / Path(version.path).relative_to(version.fetched)))


def _place_programs(state: BuildState, version: Interpreter) -> None:
    """Adds the folder of a Python outside of the PATH behind the application's own programs. An instance can
    only read programs in its PATH."""
    if version.programs:
        state.places.append((version.programs, version.programs))


async def _project(
    state: BuildState,
    dependencies: python.PythonDependencies,
    version: Interpreter,
    venv: Path,
    variables: Mapping[str, str],
) -> None:
    site = state.made / "site"  # the only part of the artifact that a step may change
    await subprocesses.in_thread(make_folders, site)
    state.tools.cells.writable.append(site)
    await python.project(state.tools, version, dependencies, venv, site, variables)
    state.places.append((site / "bin", state.final / "site" / "bin"))
    state.environment["PYTHONPATH"] = str(state.final / "site")


async def _venv(
    state: BuildState,
    dependencies: python.PythonDependencies,
    version: Interpreter,
    variables: Mapping[str, str],
) -> Path:
    digest = await subprocesses.in_thread(python.digest, dependencies, version, variables)
    if dependencies.command:
        digest = f"own-{name_of(state.order.key)}"
    deps, is_present = await state.hold_dependencies(digest)
    if is_present:
        state.say("The Python dependencies have not changed: they are used as they were installed before.")
    else:
        venv = await python.environment(state.tools, version, deps)
        if dependencies.command:
            await python.install_by(
                dependencies.command, state.tools, version, venv, dependencies.cwd, variables
            )
        elif dependencies.manager:
            program = await find_program(dependencies.manager, state.tools, state.toolchains, state.held)
            cwd = await python.scratch(state.tools, dependencies)
            await install_locked(dependencies.manager, program, state.tools, venv, cwd, variables)
        await python.install(state.tools, version, dependencies, venv, variables)
        await subprocesses.in_thread(complete, deps)
    (state.made / "venv").symlink_to(Path("..", deps.parent.name, deps.name, "venv"))
    return deps / "venv"
