"""Chooses the parts of a recipe that a build follows. A recipe is the detected way to install, build and
start the files of a repository.

Three sources of a start command are preferred to a recipe without a framework, because they are more
reliable. In order of priority: a command that the author wrote for another platform, the start script of
package.json, and a file with a usual name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.builders.builder import BuildError, BuildSettings
from windlass.builders.dockerfile_hints import Command, Shell
from windlass.builders.folder_recipe import tree_of
from windlass.builders.node_packages import Package
from windlass.builders.plan import plan_of
from windlass.detect import (
    Recipe,
    Toolchain,
    advice_for,
    is_built,
    language_named,
    start_by_author,
)
from windlass.engines.workload import StaticSite
from windlass.process.builds import python
from windlass.process.builds.language_tools import OR_DOCKER, is_installed, programs_of
from windlass.process.builds.start import (
    CHOSEN_PROCESS,
    Start,
    by_package,
    by_usual_files,
    nothing_found,
    without_npm,
)

NATIVE_LANGUAGES: Final = ("Python", "Node")
"""Languages with a dedicated installer in this package, which shares dependencies between builds."""
_SHOWN_VALUES: Final = (
    "language",
    "language_version",
    "framework",
    "release",
    "static_folder",
    "static_fallback",
)
_OF_START: Final = ("start", "added_packages")
_NUMBER_PATTERN: Final = re.compile(r"[\d.]+")


class RecipeSteps(Struct, frozen=True):
    """The commands of a recipe whose language has no dedicated installer in this package."""

    toolchain: Toolchain
    commands: tuple[tuple[str, str], ...]
    """The title of each step, such as "Installing the dependencies", with its command."""
    version: str
    """The version of the language that the repository requires."""
    why: str
    """The reason why this language was detected, as part of a message."""


class FollowedRecipe(Struct, frozen=True):
    """The start command and the other results of a recipe that a build follows."""

    start: Start
    build: str = ""
    """The build command of a Node application, which is used if package.json has no script for it, or if it
    needs variables."""
    prepare: str = ""
    """The build command of a Python application, for example to collect static files."""
    static_folder: str = ""
    """A folder that the build creates and the gateway serves."""
    added: tuple[str, ...] = ()
    """Python packages that the start command needs although no file of the repository lists them."""
    port: int = 0
    """The port of the web process unless PORT is set. 0 if no file shows a web process."""
    steps: RecipeSteps | None = None
    """The commands that install and build an application in a language without a dedicated installer."""
    lines: tuple[str, ...] = ()
    """Lines for the build log: each value that the build uses, with its reason."""


def follow(
    folder: Path,
    package: Package | None,
    settings: BuildSettings,
    procfile: Start | None = None,
) -> FollowedRecipe:
    """Returns the steps of the recipe for a folder, with the commands of its Procfile if it has one. A
    configured static folder has priority over the Procfile."""
    procfile = None if settings.static_folder else procfile
    tree = tree_of(folder)
    recipe = plan_of(tree, replace(settings, builder="RECIPE", dockerfile_raw="")).recipe
    is_named = bool(recipe.start) and recipe.start == start_by_author(tree)
    steps = _steps_of(recipe, package, folder, procfile, is_named=is_named)
    package = None if steps else package
    follows_recipe = is_named or steps is not None
    start = procfile or _start_by(recipe, package, folder, settings, follows_recipe=follows_recipe)
    is_its_own = procfile is None and bool(recipe.start) and start == _start_of(recipe, package)
    is_built_here = recipe.language == "Node" and is_built(recipe.framework)
    is_made = (is_built_here and bool(recipe.build)) or _is_generated(recipe)
    is_site = bool(settings.static_folder) or (procfile is None and is_made)
    release = Shell(recipe.release) if recipe.release else None
    return FollowedRecipe(
        start=replace(
            start,
            processes=start.processes if procfile else _processes_of(recipe, start),
            release=release,
        ),
        build=recipe.build if recipe.language == "Node" else "",
        prepare=recipe.build if recipe.language == "Python" else "",
        static_folder=recipe.static_folder if is_site else "",
        added=tuple(recipe.added_packages) if is_its_own or is_site else (),
        port=recipe.port,
        steps=steps,
        lines=(
            *_replaced(recipe, steps, start),
            *(recipe.problems if procfile else _lines_of(recipe, is_its_own=is_its_own)),
        ),
    )


def _start_by(
    recipe: Recipe,
    package: Package | None,
    folder: Path,
    settings: BuildSettings,
    *,
    follows_recipe: bool,
) -> Start:
    """Returns the start of an application without a Procfile. Raises BuildError if nothing can be started."""
    if settings.static_folder or _is_generated(recipe):
        return _static(recipe)
    if recipe.processes and not recipe.is_runnable:
        return Start(None, CHOSEN_PROCESS)
    is_its_own = follows_recipe and bool(recipe.start)
    start = _start_of(recipe, package) if is_its_own else _choose_start(recipe, package, folder)
    if start is None and not settings.has_command:
        raise _nothing_to_start(recipe, folder)
    return start or Start(None, "the command that is set in the application")


def _processes_of(recipe: Recipe, start: Start) -> Mapping[str, Command]:
    """Returns the commands of all process types. The main process has the command that was chosen here."""
    processes: dict[str, Command] = {process.name: Shell(process.command) for process in recipe.processes}
    if start.command:
        processes[recipe.processes[0].name if recipe.processes else "web"] = start.command
    return processes


def _choose_start(recipe: Recipe, package: Package | None, folder: Path) -> Start | None:
    if recipe.language == "Node" and is_built(recipe.framework):
        return _start_of_built(recipe, package)
    if recipe.language in NATIVE_LANGUAGES and recipe.start:
        return _start_of(recipe, package)
    # The machine has no toolchain for this language, or nothing says how the language is started.
    return by_package(package) or by_usual_files(folder) or _start_without_build(recipe, package)


def _replaced(recipe: Recipe, steps: RecipeSteps | None, start: Start) -> Iterator[str]:
    """Yields why a build differs from the plan: the machine lacks the toolchain of a language."""
    language = language_named(recipe.language)
    toolchain = language.toolchain if language and recipe.language not in NATIVE_LANGUAGES else None
    if toolchain and not steps and recipe.is_runnable and not is_installed(toolchain):
        yield (
            f"Not as planned: this is {recipe.language}, and the machine that runs Windlass has no "
            f"{toolchain.program}. It is started by {start.origin}."
        )


def _lines_of(recipe: Recipe, *, is_its_own: bool) -> Iterator[str]:
    for name, value, reason in recipe.values:
        if name in _SHOWN_VALUES or (is_its_own and name in _OF_START):
            yield f"Detected {name.replace('_', ' ')}: {value} ({reason.rstrip('.')})."
    yield from recipe.problems


def _nothing_to_start(recipe: Recipe, folder: Path) -> BuildError:
    has_reason = recipe.candidates or recipe.framework or recipe.problems != [advice_for(recipe)]
    if has_reason and recipe.problems:
        return BuildError(" ".join(recipe.problems))
    return nothing_found(folder, recipe.language)


def _steps_of(
    recipe: Recipe,
    package: Package | None,
    folder: Path,
    procfile: Start | None,
    *,
    is_named: bool,
) -> RecipeSteps | None:
    """Returns the steps for a language without a dedicated installer.

    Returns None if there are no steps, or if the machine lacks the toolchain and something else can be
    started.
    """
    language = language_named(recipe.language)
    toolchain = language.toolchain if language and language.name not in NATIVE_LANGUAGES else None
    if toolchain is None or (procfile and _starts_another(procfile, toolchain, package, folder)):
        return None
    is_here = is_installed(toolchain)
    if (
        procfile is None
        and not is_named
        and not (is_here and recipe.framework)
        and (by_package(package) or by_usual_files(folder))
    ):
        return None
    if not is_here:
        if procfile:
            return None
        if recipe.is_runnable and not toolchain.wheel:
            raise _missing_toolchain(recipe, toolchain)
    named = (("Installing the dependencies", recipe.install), ("Building", recipe.build))
    return RecipeSteps(
        toolchain=toolchain,
        commands=tuple((name, command) for name, command in named if command),
        version=recipe.language_version,
        why=f"This is {recipe.language} ({recipe.reasons['language'].rstrip('.')})",
    )


def _starts_another(procfile: Start, toolchain: Toolchain, package: Package | None, folder: Path) -> bool:
    """Returns whether the repository has Python or Node dependencies and the Procfile does not start a
    program of the toolchain."""
    if package is None and python.declaration_of(folder) is None:
        return False
    program = next(iter(programs_of(procfile.text)), "")
    return "/" not in program and program not in toolchain.programs


def _missing_toolchain(recipe: Recipe, toolchain: Toolchain) -> BuildError:
    """Returns the error for a missing toolchain. The build fails with it before it runs commands."""
    shown_by = recipe.reasons["language"].rstrip(".")
    return BuildError(
        f"Install {toolchain.title}{_version(recipe)} on this machine: "
        f"`{toolchain.installation(recipe.language_version)}`. This is {recipe.language} ({shown_by}), and "
        f"the machine that runs Windlass has no {toolchain.program}.{OR_DOCKER}"
    )


def _version(recipe: Recipe) -> str:
    version = recipe.language_version
    if not version:
        return ""
    return f" {version} or newer" if _NUMBER_PATTERN.fullmatch(version) else f" {version}"


def _is_generated(recipe: Recipe) -> bool:
    """Returns whether a build in a language other than Node generates static files."""
    return recipe.language != "Node" and bool(recipe.build and recipe.static_folder) and not recipe.start


def _start_of(recipe: Recipe, package: Package | None) -> Start:
    command = Shell(recipe.start.removeprefix("npx "))
    return Start(without_npm(command, package), f"its recipe: {recipe.reasons['start'].rstrip('.')}")


def _start_of_built(recipe: Recipe, package: Package | None) -> Start | None:
    if recipe.static_folder:
        return _static(recipe)
    return _start_of(recipe, package) if recipe.start else by_package(package)


def _start_without_build(recipe: Recipe, package: Package | None) -> Start | None:
    """Returns the start according to the recipe, or None. A recipe that installs or builds is only followed
    for Node."""
    if recipe.language != "Node" and (recipe.install or recipe.build):
        return None
    if recipe.static_folder:
        return _static(recipe)
    return _start_of(recipe, package) if recipe.start else None


def _static(recipe: Recipe) -> Start:
    folder = recipe.static_folder
    named = f"the folder {folder}" if folder != "." else "its own folder"
    return Start(
        None,
        f"the gateway, from {named}",
        site=StaticSite(folder=folder, derived_fallback=recipe.static_fallback),
    )
