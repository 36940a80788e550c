"""Generates the Dockerfile of a recipe: dependencies before the code, separate build stages, a slim last
stage.

The application runs as an unprivileged user that can write to its folder and its home. The program receives
signals directly, without a shell in between. Values of the recipe are untrusted; `instructions` ensures that
a value cannot leave its instruction.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from windlass.detect.dockerfile import (
    compiled_stages,
    instructions,
    node_stages,
    python_stages,
    scripted_stages,
)
from windlass.detect.dockerfile.base_images import SLIM
from windlass.detect.dockerfile.stages import (
    APP_FOLDER,
    BuildStage,
    DockerfileOptions,
    Planner,
    RunStep,
    Stages,
)
from windlass.detect.install_variables import reaches_installation
from windlass.detect.known_files import KnownFiles
from windlass.detect.recipe import SITE_FOLDER, Recipe
from windlass.detect.tree import Tree

_PLAIN_PATTERN: Final = re.compile(r"[\w./:@%+,=-]+(?: +[\w./:@%+,=-]+)*", re.ASCII)
_QUOTED_PATTERN: Final = re.compile(r"'[^']*'|\"[^\"`$\\]*\"")
_EXPANSION_PATTERN: Final = re.compile(r"\$\{\w+(?:[:=?+-][^{}$`'\"]*)?\}|\$\([^()`]*\)", re.ASCII)
_SHELL_SYNTAX_CHARACTERS: Final = frozenset("'\"`;|&<>(){}\n\r\\#")
_ASSIGNMENT_PATTERN: Final = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_SHELL_BUILTINS: Final = frozenset(
    [
        *("exec", "cd", "export", "set", "unset", "source", ".", "eval", "trap", "ulimit", "umask", ":", "!"),
        *("if", "for", "while", "until", "case", "then", "do", "wait", "exit", "return", "alias", "read"),
    ]
)


def argv(command: str) -> tuple[str, ...]:
    """Returns the argument list that starts a command. If the command contains variables such as `PORT`, a
    shell expands them and then replaces itself with the program."""
    words = command.split()
    if _PLAIN_PATTERN.fullmatch(command) and "=" not in words[0] and words[0] not in _SHELL_BUILTINS:
        return tuple(words)
    return ("sh", "-c", with_exec(command))


def with_exec(command: str) -> str:
    """Returns the command with `exec` before its last program, so that signals reach the program itself.

    Only commands of the form `a && b` are changed.
    """
    before, _, last = command.rpartition("&&")
    last = last.strip()
    if not _is_one_program(last) or not _is_closed(before):
        return command
    program = f"exec env {last}" if _ASSIGNMENT_PATTERN.match(last) else f"exec {last}"
    return f"{before.rstrip()} && {program}" if before.strip() else program


def _is_one_program(text: str) -> bool:
    bare = _EXPANSION_PATTERN.sub("X", _QUOTED_PATTERN.sub("X", text))
    words = bare.split()
    return bool(words) and words[0] not in _SHELL_BUILTINS and not _SHELL_SYNTAX_CHARACTERS & set(bare)


def _is_closed(text: str) -> bool:
    """Returns whether all quotes are closed at the end of the text."""
    return not set("'\"`\\") & set(_QUOTED_PATTERN.sub("X", text))


USER_ID: Final = 10001
FILE_COMMENT: Final = "# Written by Windlass from the recipe of this folder."

_WEB_PROCESSES: Final = ("web", "app")
_VARIABLE_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+", re.ASCII)
_WITHHELD_VARIABLES: Final = frozenset(
    [
        *(
            "PATH",
            "HOME",
            "TMPDIR",
            "USER",
            "SHELL",
            "IFS",
            "HOSTNAME",
            "NODE_ENV",
            "PYTHONHOME",
            "PYTHONPATH",
        ),
        *("VIRTUAL_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "MIX_ENV", "RAILS_ENV", "RACK_ENV", "BUNDLE_PATH"),
        "PERL5LIB",
    ]
)
"""Variables of the service that are not passed to the build, because build tools would no longer find their
own files."""
_PLANNERS: Final[Mapping[str, Planner]] = {
    "Python": python_stages.plan,
    "Node": node_stages.plan,
    "Go": compiled_stages.go,
    "Rust": compiled_stages.rust,
    "Java": compiled_stages.java,
    ".NET": compiled_stages.dotnet,
    "Ruby": scripted_stages.ruby,
    "PHP": scripted_stages.php,
    "Deno": scripted_stages.deno,
    "Elixir": scripted_stages.elixir,
    "Perl": scripted_stages.perl,
    "HTML": scripted_stages.plan_plain,
    "Shell": scripted_stages.plan_plain,
    "": scripted_stages.plan_plain,
}
"""The function that plans the stages of each language."""


def dockerfile(recipe: Recipe, tree: Tree, options: DockerfileOptions | None = None) -> str:
    """Returns the Dockerfile of a runnable recipe. Raises ValueError with a readable message if a system
    package has an invalid name."""
    options = options or DockerfileOptions()
    stages = _PLANNERS[recipe.language](recipe, KnownFiles(tree), options)
    if is_static(recipe):
        _add_site(stages, recipe)
    blocks = [FILE_COMMENT]
    for number, stage in enumerate(stages.builds):
        before = stages.builds[number - 1].name if number else ""
        blocks.append("\n".join(_build_stage(stage, stages, recipe, options, before)))
    last = _site_stage(stages, recipe) if is_static(recipe) else _last_stage(stages, recipe, options)
    blocks.append("\n".join(last))
    return "\n\n".join(blocks) + "\n"


def is_static(recipe: Recipe) -> bool:
    return bool(recipe.static_folder and not recipe.start)


def serves(recipe: Recipe) -> bool:
    """Returns whether the first process listens on a port."""
    return bool(recipe.start) and (not recipe.processes or recipe.processes[0].name in _WEB_PROCESSES)


def _build_stage(
    stage: BuildStage, stages: Stages, recipe: Recipe, options: DockerfileOptions, previous_stage: str
) -> Iterator[str]:
    yield f"FROM {stage.image} AS {stage.name}"
    if packages := [] if previous_stage else _needed_system_packages(recipe, stages, stages.build_packages):
        yield instructions.apt(packages)
    for image, path in stage.borrowed:
        yield f"COPY --from={image} {path} /usr/local/bin/"
    if stage.environment:
        yield instructions.env(stage.environment)
    yield from _run_instructions(stage.tools, options)
    yield f"WORKDIR {APP_FOLDER}"
    arguments = [
        name
        for name in options.variables
        if _VARIABLE_PATTERN.fullmatch(name) and name not in _WITHHELD_VARIABLES
    ]
    yield from (f"ARG {name}" for name in arguments if reaches_installation(name))
    if stage.manifests and not options.works_below:
        yield from instructions.copy(stage.manifests)
        yield from _run_instructions(stage.install, options)
    yield f"COPY --from={previous_stage} {APP_FOLDER} ./" if previous_stage else "COPY . ./"
    if options.works_below:
        yield f"WORKDIR {options.folder}"
        yield from _run_instructions(stage.install, options)
    yield from (f"ARG {name}" for name in arguments if not reaches_installation(name))
    yield from _run_instructions(stage.build, options)


def _last_stage(stages: Stages, recipe: Recipe, options: DockerfileOptions) -> Iterator[str]:
    yield f"FROM {stages.image}"
    yield f'LABEL org.opencontainers.image.base.name="{stages.image}"'
    if packages := _needed_system_packages(recipe, stages, stages.packages):
        yield instructions.apt(packages)
    for image, path in stages.borrowed:
        yield f"COPY --from={image} {path} /usr/local/bin/"
    yield from _run_instructions(stages.tools, options)
    yield (
        f"RUN groupadd --gid {USER_ID} runner \\\n"
        f"    && useradd --uid {USER_ID} --gid {USER_ID} --no-log-init --create-home runner \\\n"
        f"    && install --directory --owner={USER_ID} --group={USER_ID} {APP_FOLDER}"
    )
    if options.mounts:
        folders = shlex.join(options.mounts)
        yield instructions.run(f"install --directory --owner={USER_ID} --group={USER_ID} -- {folders}")
    yield f"WORKDIR {options.folder}"
    yield from _copy_instructions(stages, options)
    if stages.environment:
        yield instructions.env(stages.environment)
    yield f"USER {USER_ID}:{USER_ID}"
    if serves(recipe) and recipe.port:
        yield f"EXPOSE {recipe.port}"
        yield from _health_check(stages, recipe)
    if recipe.start:
        yield f"CMD {instructions.json_words(argv(stages.start or recipe.start))}"


def _copy_instructions(stages: Stages, options: DockerfileOptions) -> Iterator[str]:
    if not stages.builds:
        yield f"COPY --chown={USER_ID}:{USER_ID} . {f'{APP_FOLDER}/' if options.works_below else './'}"
        return
    source = stages.builds[-1].name
    for path in stages.results:
        owner = f" --chown={USER_ID}:{USER_ID}" if path == APP_FOLDER else ""
        yield f"COPY --from={source}{owner} {path} {path}"


def _health_check(stages: Stages, recipe: Recipe) -> Iterator[str]:
    if stages.check is None:
        return
    port = str(recipe.port)
    path = f"/{recipe.health_path.lstrip('/')}"
    check = (*stages.check.page, port, path) if recipe.health_path else (*stages.check.port, port)
    options = "--interval=30s --timeout=5s --start-period=60s"
    yield f"HEALTHCHECK {options} \\\n    CMD {instructions.json_words(check)}"


def _add_site(stages: Stages, recipe: Recipe) -> None:
    """Adds the step that copies the static files into a folder with a fixed name."""
    folder = recipe.static_folder.rstrip("/") or "."
    if not stages.builds and instructions.is_plain_path(folder):
        return
    if not stages.builds:
        stages.builds = [BuildStage(image=SLIM)]
    quoted = shlex.quote(folder)
    missing = shlex.quote(
        f"ERROR: Make the build write to the folder {folder}: it is not there after the build."
    )
    command = f"if [ ! -d {quoted} ]; then echo {missing} >&2; exit 1; fi; cp -R -- {quoted} {SITE_FOLDER}"
    stages.builds[-1].build.append(RunStep(command))


def _site_stage(stages: Stages, recipe: Recipe) -> Iterator[str]:
    yield "FROM scratch"
    if stages.builds:
        yield f"COPY --from={stages.builds[-1].name} {SITE_FOLDER} {SITE_FOLDER}"
    else:
        yield f"COPY {recipe.static_folder.rstrip('/') or '.'} {SITE_FOLDER}"


def _needed_system_packages(recipe: Recipe, stages: Stages, extra_packages: list[str]) -> list[str]:
    own = [package for package in recipe.system_packages if package not in stages.replaced_packages]
    return list(dict.fromkeys([*extra_packages, *own]))


def _run_instructions(steps: list[RunStep], options: DockerfileOptions) -> Iterator[str]:
    for step in steps:
        yield instructions.run(step.command, step.caches if options.caches else ())
