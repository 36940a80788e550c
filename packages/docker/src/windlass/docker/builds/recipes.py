"""Chooses the Dockerfile of a build: the repository's Dockerfile, or a Dockerfile generated from the detected
recipe.

Metadata that only the recipe knows, such as process types, is stored in an image label.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base import dockerignore
from windlass.base.file_names import read_beginning
from windlass.builders.builder import FILES_BUILDER, BuildError, BuildSettings, Order
from windlass.builders.folder_recipe import tree_of
from windlass.builders.node_packages import Package, builds_of, package, workspace_of
from windlass.builders.plan import DockerfileChoice, open_problems, plan_of
from windlass.detect import Recipe, Tree, advice_for, detect, language_named
from windlass.detect.dockerfile import DockerfileOptions, argv, dockerfile, is_static
from windlass.detect.dockerfile.instructions import is_plain_path
from windlass.detect.known_files import KnownFiles
from windlass.detect.procfile import PROCFILE, read_procfile
from windlass.detect.recipe import MAX_LENGTH
from windlass.docker.builds.context import EXTERNAL_DOCKERFILE, BuildContext, dockerfile_of, folder_of
from windlass.docker.builds.files import files_of
from windlass.docker.builds.image_metadata import ImageNotes

NOT_SENT: Final = ".git\n.hg\n.svn\n**/node_modules\n**/__pycache__\n.venv\n"
"""Default ignore patterns for a generated Dockerfile. The repository's .dockerignore follows them."""


class ChosenDockerfile(Struct, frozen=True):
    files: BuildContext
    stage: str | None
    notes: ImageNotes = ImageNotes()
    lines: tuple[str, ...] = ()
    """Lines for the build log."""


def choose_dockerfile(order: Order, caches: bool) -> ChosenDockerfile:
    """Chooses the Dockerfile for an application's folder. `caches`: whether the engine supports cache
    mounts."""
    folder = folder_of(order)
    if order.settings.builder == FILES_BUILDER:
        return ChosenDockerfile(files_of(order), None)
    if order.settings.is_dockerfile_left_out:
        return _dockerfile_of_recipe(order, folder, caches)
    if files := dockerfile_of(order, folder):
        return _dockerfile_of_repository(order, folder, files)
    if order.settings.builder == "DOCKERFILE":
        raise BuildError(
            "builder: add a Dockerfile, or set builder to AUTO: there is none in the folder that is deployed."
        )
    return _dockerfile_of_recipe(order, folder, caches)


def _dockerfile_of_repository(order: Order, folder: Path, files: BuildContext) -> ChosenDockerfile:
    """Returns the repository's Dockerfile, with the port of its web process in the notes."""
    choice = DockerfileChoice(
        path=order.dockerfile,
        text=files.text.decode(errors="replace"),
        stage=order.stage,
        arguments=order.arguments,
    )
    recipe = plan_of(tree_of(folder), order.settings, choice).recipe
    notes = msgspec.structs.replace(_notes_of_procfile(folder), web_port=recipe.port)
    return ChosenDockerfile(files, order.stage, notes, tuple(_detected_values(recipe, "start", "port")))


def _dockerfile_of_recipe(order: Order, folder: Path, caches: bool) -> ChosenDockerfile:
    tree = tree_of(folder)
    recipe = plan_of(tree, order.settings).recipe
    if not recipe.is_runnable and not order.settings.has_command:
        raise BuildError(" ".join(recipe.problems))
    options = DockerfileOptions(
        variables=tuple(order.arguments),
        caches=caches,
        own=order.service,
        mounts=order.settings.mounts,
    )
    if workspace := _workspace_of(recipe, order, folder):
        below = folder.relative_to(workspace.folder).as_posix()
        options = msgspec.structs.replace(options, below=below)
        tree = tree_of(workspace.folder)
        recipe = _built_in_workspace(recipe, detect(tree), folder, workspace, order.settings)
        folder = workspace.folder
    elif below := _below_what_it_needs(recipe, tree, order, folder):
        options = msgspec.structs.replace(options, below=below, works_below=True)
        folder = Path(os.path.realpath(order.source))
    try:
        text = dockerfile(recipe, tree, options)
        theirs = dockerignore.read_for_dockerfile(folder)
    except ValueError as error:
        raise BuildError(str(error)) from error
    files = BuildContext(
        folder=folder,
        dockerfile=EXTERNAL_DOCKERFILE,
        text=text.encode(),
        ignore=dockerignore.Ignore((*dockerignore.read(NOT_SENT).patterns, *theirs.patterns)),
        outside=True,
    )
    return ChosenDockerfile(
        files, None, _notes_of_recipe(recipe), tuple(_build_log_lines(order, recipe, text))
    )


def _workspace_of(recipe: Recipe, order: Order, folder: Path) -> Package | None:
    """Returns the Node workspace that contains the application; None if the application is not part of
    one."""
    if recipe.language != "Node":
        return None
    workspace = workspace_of(folder, Path(os.path.realpath(order.source)))
    is_plain = workspace and is_plain_path(folder.relative_to(workspace.folder).as_posix())
    return workspace if is_plain else None


def _below_what_it_needs(recipe: Recipe, tree: Tree, order: Order, folder: Path) -> str:
    """Returns the application's path in its repository if the build needs files outside its folder; otherwise
    an empty text."""
    below = folder.relative_to(os.path.realpath(order.source)).as_posix()
    language = language_named(recipe.language)
    is_inside = below != "." and is_plain_path(below) and not is_static(recipe)
    return below if is_inside and language and language.needs_files_outside(tree) else ""


def _built_in_workspace(
    recipe: Recipe, root: Recipe, folder: Path, workspace: Package, settings: BuildSettings
) -> Recipe:
    """Returns the recipe changed to install and build from the workspace's folder."""
    place = shlex.quote(folder.relative_to(workspace.folder).as_posix())
    started, framework = recipe.start, recipe.build
    builds = builds_of(
        package(folder), workspace, started, framework=framework, command=settings.build_command
    )
    steps = " && ".join(map(shlex.join, builds))
    install = settings.install_command or root.install or "npm install"
    of_workspace = {
        field: "It is that of the workspace."
        for field, own in (("install", settings.install_command), ("build", settings.build_command))
        if not own
    }
    changed = msgspec.structs.replace(
        recipe,
        install=install,
        build=f"cd {place} && {steps}",
        reasons={**recipe.reasons, **of_workspace},
    )
    if not steps:
        changed.forget("build")
    return changed


def _notes_of_procfile(folder: Path) -> ImageNotes:
    """Returns the Procfile's process types for an application with a Dockerfile. The release command is
    ignored: images that were built before may already run it themselves."""
    procfile = read_procfile(KnownFiles(Tree([PROCFILE], partial(read_beginning, folder))).text(PROCFILE))
    return ImageNotes(
        {name: argv(command) for name, command in procfile.commands.items() if len(command) <= MAX_LENGTH}
    )


def _notes_of_recipe(recipe: Recipe) -> ImageNotes:
    if is_static(recipe):
        return ImageNotes(is_static=True, static_fallback=recipe.static_fallback)
    return ImageNotes(
        {process.name: argv(process.command) for process in recipe.processes},
        argv(recipe.release) if recipe.release else (),
    )


def _detected_values(recipe: Recipe, *names: str) -> Iterator[str]:
    """Yields lines for the build log: the values with these names, or all."""
    for name, value, reason in recipe.values:
        if name in names or not names:
            yield f"Detected {name.replace('_', ' ')}: {value} ({reason.rstrip('.')})."


def _build_log_lines(order: Order, recipe: Recipe, text: str) -> Iterator[str]:
    yield from _detected_values(recipe)
    problems = (problem for problem in recipe.problems if problem != advice_for(recipe))
    yield from open_problems(problems, order.variables)
    yield "The image is built by this Dockerfile:"
    yield from (f"  {line}" for line in text.splitlines())
