"""The plan of a build: how the files of a folder are installed, built and started.

`plan_of` is a pure function. Builders follow its result, and `windlass detect`, `windlass init`, the API and
the console show it. A builder that has to differ writes the reason to the build log.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.builders import dockerfile
from windlass.builders.builder import BuildSettings
from windlass.builders.command_ports import asks_for_port, fixed_port, names_worker, web_port
from windlass.builders.dockerfile_hints import Command, Hints, is_below, read_hints, text_of
from windlass.builders.instructions import DockerfileError
from windlass.detect import Recipe, Tree, advice_for, apply_settings, detect
from windlass.detect.database_names import kind_of_type
from windlass.detect.known_files import MAX_FILE_BYTES, KnownFiles
from windlass.detect.node_scripts import runs_build, scripts_of, scripts_of_installation
from windlass.detect.procfile import PROCFILE, Processes, exists_only_at_heroku, read_procfile
from windlass.detect.recipe import WEB_PROCESS, NeededDatabase, ProcessType

DEFAULT_DOCKERFILE: Final = "Dockerfile"
_FIELDS_WITHOUT_DOCKERFILE: Final = (
    "system_packages",
    "added_packages",
    "release",
    "processes",
    "static_folder",
    "static_fallback",
)
"""Values of a recipe that no builder uses with a Dockerfile."""
_CHECKED_PORT_PATTERN: Final = re.compile(
    r"\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0):([1-9]\d{1,3}|[1-5]\d{4})\b", re.ASCII
)
"""Matches the port in the address that a HEALTHCHECK asks."""
_ASKED_VARIABLE_PATTERN: Final = re.compile(r"Set the variable (\w+) to ")
_NO_ADDRESS_REMARK: Final = (
    "It gets no public address, because no file shows that it serves HTTP. If it does, "
)


class DockerfileChoice(Struct, frozen=True):
    """The settings of an application that choose a Dockerfile and its stage."""

    path: str | None = None
    """None: the file named Dockerfile, if it exists."""
    text: str = ""
    """The content of this Dockerfile, if it was read; it may be outside of the folder."""
    stage: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    executes: bool = True
    """Whether the builder executes the instructions of a Dockerfile. Otherwise, it follows only the command,
    ports and variables, installs the packages that the files name, and prefers a Procfile."""


class BuildPlan(Struct, frozen=True):
    recipe: Recipe
    hints: Hints | None = None
    """The values of the Dockerfile that is followed; None without a Dockerfile."""
    trouble: str = ""
    """The reason why the Dockerfile cannot be read; empty if it can, or if there is none."""


def plan_of(
    tree: Tree,
    settings: BuildSettings = BuildSettings(),  # noqa: B008 (frozen)
    choice: DockerfileChoice = DockerfileChoice(),  # noqa: B008 (frozen)
) -> BuildPlan:
    files = KnownFiles(tree)
    name = _dockerfile(files, settings, choice)
    if not name:
        return BuildPlan(_with_remarks(_recipe_of(tree, settings), settings))
    try:
        hints = _hints(files, name, choice)
    except DockerfileError as error:
        recipe = _recipe_of(tree, settings)
        recipe.problems.append(f"Fix {name}, {error}.")
        return BuildPlan(recipe, trouble=f"{name} {error}.")
    recipe = _recipe_of(_working_tree(tree, hints), settings)
    recipe = _with_dockerfile(recipe, files, name, hints, choice)
    return BuildPlan(_with_remarks(recipe, settings), hints)


def _dockerfile(files: KnownFiles, settings: BuildSettings, choice: DockerfileChoice) -> str:
    """Returns the path of the Dockerfile that is followed; empty if there is none, or if the recipe is."""
    name = posixpath.normpath((choice.path or DEFAULT_DOCKERFILE).lstrip("/"))
    if settings.is_dockerfile_left_out or not (choice.text or files.has(name)):
        return ""
    prefers_procfile = not choice.executes and settings.builder != "DOCKERFILE" and files.has(PROCFILE)
    return "" if prefers_procfile and _is_followed(read_procfile(files.text(PROCFILE))) else name


def _is_followed(procfile: Processes) -> bool:
    command = procfile.commands.get(procfile.main, "")
    return bool(procfile.commands) and not exists_only_at_heroku(command)


def _hints(files: KnownFiles, name: str, choice: DockerfileChoice) -> Hints:
    read = dockerfile.read(choice.text or files.beginning(name, MAX_FILE_BYTES))
    stage = read.stage(choice.stage)
    if stage is None:
        raise DockerfileError(1, f"there is no stage {choice.stage} in it")
    return read_hints(read, stage, choice.arguments)


def _recipe_of(tree: Tree, settings: BuildSettings) -> Recipe:
    recipe = apply_settings(detect(tree), settings)
    if settings.has_command:
        recipe.problems = [problem for problem in recipe.problems if problem != advice_for(recipe)]
    return recipe


def _working_tree(tree: Tree, hints: Hints) -> Tree:
    """Returns the files of the folder in which the Dockerfile starts its command, if it exists."""
    if not is_below(hints.workdir, hints.top):
        return tree
    folder = posixpath.relpath(hints.workdir, hints.top)
    return tree.below(folder) if folder in tree.folders() else tree


def _with_dockerfile(
    detected_recipe: Recipe, files: KnownFiles, name: str, hints: Hints, choice: DockerfileChoice
) -> Recipe:
    recipe = replace(
        detected_recipe, reasons={**detected_recipe.reasons}, problems=_own_problems(detected_recipe)
    )
    command = hints.command
    recipe.forget(*_FIELDS_WITHOUT_DOCKERFILE, "port", "dockerfile", "only_folder")
    if choice.executes:
        recipe.forget("install", "build")
        recipe.choose(f"{name} is there: it installs and builds.", dockerfile=name)
    else:
        _keep_build(recipe, files, command)
        recipe.choose(
            f"{name} is there: its command, ports and variables are used. Its other instructions are not "
            "executed; the packages that the files name are installed.",
            dockerfile=name,
        )
    if command is not None:
        recipe.forget("start")
        recipe.choose(f"It is the command of {name}.", start=text_of(command))
    elif choice.executes:
        recipe.forget("start")
        recipe.remarks.append(f"{name} has no CMD: its base image {hints.image[:200]} says what is started.")
    if recipe.start:
        recipe.choose(recipe.reasons["start"], processes=[ProcessType(WEB_PROCESS, recipe.start)])
    _choose_port(recipe, detected_recipe, name, hints)
    return recipe


def _own_problems(detected_recipe: Recipe) -> list[str]:
    """Returns the problems except that nothing says how it is started, because the Dockerfile does."""
    return [problem for problem in detected_recipe.problems if problem != advice_for(detected_recipe)]


def _keep_build(recipe: Recipe, files: KnownFiles, command: Command | None) -> None:
    """Plans the script `build` of package.json, unless the command or the installation runs it already. Other
    builds are a matter of the Dockerfile."""
    scripts = scripts_of(files.json("package.json")) if files.has("package.json") else {}
    own = [scripts[name] for name in scripts_of_installation(scripts)]
    recipe.forget("build")
    if "build" in scripts and not runs_build(scripts, text_of(command) if command else "", *own):
        recipe.choose(
            f"It is the build script of package.json: `{scripts['build']}`.",
            build=f"{recipe.package_manager or 'npm'} run build",
        )


def _choose_port(recipe: Recipe, detected_recipe: Recipe, name: str, hints: Hints) -> None:
    if hints.ports:
        recipe.choose(f"{name} exposes it.", port=hints.ports[0])
        return
    without = f"{name} exposes no port"
    if port := fixed_port(hints.command, ()):
        recipe.choose(f"{without}, and its command names this one.", port=port)
    if (named := hints.environment.get("PORT", "")).isdecimal() and 0 < int(named[:6]) < 2**16:
        recipe.choose(f"{without}, and sets PORT to this one.", port=int(named[:6]))
    checks = [step.shown for step in hints.skipped if step.shown.upper().startswith("HEALTHCHECK")]
    if checks and (asked := _CHECKED_PORT_PATTERN.search(checks[-1])):
        recipe.choose(f"{without}, and its HEALTHCHECK asks this one.", port=int(asked[1]))
    if port := web_port(hints.command, detected_recipe):
        usual = detected_recipe.reasons.get("port", "Its server listens there unless PORT names another.")
        recipe.choose(f"{without}. {usual}", port=port)


def _with_remarks(recipe: Recipe, settings: BuildSettings) -> Recipe:
    """Adds the databases to create, and that there will be no public address, if no file shows that the web
    process serves HTTP."""
    recipe.remarks += [database_remark(need) for need in recipe.databases]
    if recipe.required_variables:
        recipe.remarks.append(required_remark(recipe.required_variables))
    serves = settings.has_command or recipe.static_folder or recipe.port or asks_for_port(recipe.start)
    is_web = not recipe.processes or recipe.processes[0].name == WEB_PROCESS
    if serves or not (recipe.start and is_web) or names_worker(recipe.start):
        return recipe
    way = (
        "add EXPOSE with its port, or set ports."
        if recipe.dockerfile
        else "set ports, or read PORT in start."
    )
    recipe.remarks.append(f"{_NO_ADDRESS_REMARK}{way}")
    return recipe


def open_problems(problems: Iterable[str], variables: Container[str]) -> Iterator[str]:
    """Yields the problems without those that ask for variables which are set."""
    for problem in problems:
        asked = _ASKED_VARIABLE_PATTERN.match(problem)
        if asked is None or asked[1] not in variables:
            yield problem


def required_remark(names: Sequence[str]) -> str:
    """Returns which variables to set before the first deployment, and how."""
    settings = " ".join(f"{name}=…" for name in names)
    return (
        f"The code fails unless {_listed(names)} {'is' if len(names) == 1 else 'are'} set: "
        f"`windlass env set {settings}` before the first deployment, or `windlass secrets set` for secrets."
    )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def database_remark(need: NeededDatabase) -> str:
    """Returns what to create and to set for a database."""
    title = kind_of_type(need.type).title
    settings = " ".join(f"'{variable.name}={variable.value}'" for variable in need.variables)
    creation = f"windlass database create --name {shlex.quote(need.name)} --type {need.type} …"
    return (
        f"It needs a {title} database. `windlass init` creates one and sets its variables, as do "
        f"`{creation}` and `windlass env set {settings}`."
    )
