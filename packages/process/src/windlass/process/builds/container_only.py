"""Detects, before anything is installed, that a Dockerfile needs a container engine.

The error offers to follow the recipe instead, if there is one. A recipe is the detected way to build and
start the same files. A Dockerfile whose last stage is the image of a web server only serves static files.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from windlass.base.shell import plain_words
from windlass.builders.builder import BuildError
from windlass.builders.dockerfile import Dockerfile, Stage
from windlass.builders.dockerfile_hints import Command, ExecForm, Hints
from windlass.builders.folder_recipe import recipe_of
from windlass.builders.instructions import Instruction
from windlass.builders.node_packages import Package
from windlass.detect import Recipe
from windlass.process.builds.layout import Layout
from windlass.process.builds.tools import find_program, machine_path

_FOLDERS: Final = {
    "caddy": "/usr/share/caddy",
    "httpd": "/usr/local/apache2/htdocs",
    "nginx": "/usr/share/nginx/html",
    "nginx-unprivileged": "/usr/share/nginx/html",
}
"""The folder that each web server image serves by default."""
_PROGRAMS: Final = {"caddy", "httpd", "httpd-foreground", "nginx", "nginx-debug"}
_ONLY_IN_IMAGES: Final = {"apache2-foreground", "docker-php-entrypoint", "php-fpm"}
"""Programs by which images start their own servers, whatever the image is called."""
_CHANGES_NOTHING: Final = {"CMD", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "WORKDIR"}


def name_of_image(base: str) -> str:
    """Returns the name of an image without its registry, tag and digest."""
    return base.rpartition("/")[2].partition("@")[0].partition(":")[0]


def starts_web_server(image: str, argv: Sequence[str]) -> bool:
    """Returns whether the command starts a server that only images have, or the image belongs to a known web
    server and the command starts this server, or is empty."""
    if len(argv) == 3 and posixpath.basename(argv[0]) in ("sh", "bash") and argv[1] == "-c":
        argv = plain_words(argv[2])
    program = posixpath.basename(argv[0]) if argv else ""
    return program in _ONLY_IN_IMAGES or (
        name_of_image(image) in _FOLDERS and (not argv or program in _PROGRAMS)
    )


def serves_the_site(dockerfile: Dockerfile, recipe: Recipe) -> bool:
    """Returns whether the Dockerfile only copies one folder of the repository for a web server to serve, and
    the recipe serves the same folder unchanged."""
    stage = dockerfile.stages[-1]
    if len(dockerfile.stages) > 1 or recipe.build or not recipe.static_folder:
        return False
    if not {instruction.name for instruction in stage.instructions} <= _CHANGES_NOTHING | {"ADD", "COPY"}:
        return False
    return list(_copied_folders(stage)) == [posixpath.normpath(recipe.static_folder)]


def _copied_folders(stage: Stage) -> Iterator[str]:
    """Yields the source of each ADD or COPY to the folder that the web server serves, and an empty string for
    each other ADD or COPY."""
    served = _FOLDERS.get(name_of_image(stage.base))
    place = "/"
    for instruction in stage.instructions:
        if instruction.name == "WORKDIR":
            place = posixpath.join(place, instruction.text)
        elif instruction.name in ("ADD", "COPY"):
            *sources, to = _words(instruction)
            goes_there = posixpath.normpath(posixpath.join(place, to)) == served and not instruction.flags
            yield posixpath.normpath(sources[0].strip("/")) if goes_there and len(sources) == 1 else ""


def _words(instruction: Instruction) -> Sequence[str]:
    return instruction.json or instruction.text.split()


_PROVIDED_PROGRAM_PATTERN: Final = re.compile(r"python[\d.]*|node|npm|npx|yarn|pnpm|bun|uv")
"""Programs that a build provides if the machine lacks them."""
_PIP_PATTERN: Final = re.compile(r"\b(?:pip[\d.]*|uv pip) install\b")
_GLOBAL_INSTALL_PATTERN: Final = re.compile(
    r"\b(?:npm (?:i|install|add) (?:-g|--global)|yarn global add) ([^&|;]{0,500}+)"
)
_IMAGES: Final = {
    "Deno": r"deno",
    "Go": r"golang",
    "Java": r"maven|gradle|eclipse-temurin|openjdk|amazoncorretto|.*jdk.*",
    "Node": r"node|bun",
    "PHP": r"php|composer",
    "Python": r"python|uvicorn-gunicorn.*|uwsgi-nginx.*",
    "Ruby": r"ruby",
    "Rust": r"rust",
}
"""For each language, a pattern for the names of the images that build its applications."""
_HARMLESS_VARIABLES: Final = {
    "HOST", "HOSTNAME", "NODE_ENV", "PATH", "PORT", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED",
}  # fmt: skip
"""Variables that a Dockerfile may set without effect, because each recipe sets its own values."""
_OF_SERVER_PATTERN: Final = re.compile(r"LISTEN_PORT|(?:NGINX|STATIC|UWSGI)_[A-Z_]+")
"""Variables for the web server in `uwsgi-nginx` images. A recipe starts its own server, which does not need
them."""
_OF_TOOLS_PATTERN: Final = re.compile(
    r"(?:BUN|BUNDLE|CARGO|COREPACK|GEM|NEXT_TELEMETRY|NPM|PIP|PIPENV|PNPM|POETRY|RUSTUP|UV|YARN)_\w+"
    r"|GO(?:CACHE|PATH|ROOT)|JAVA_HOME|VIRTUAL_ENV"
)
"""Variables for the tools that install packages. The steps of a recipe set their own."""
_IMAGE_PATH_PATTERN: Final = re.compile(r"(?<![\w./$}~-])/[\w.@+-]|:///")
"""Matches a path of the image in the value of a variable."""
_REFERENCE_PATTERN: Final = re.compile(r"\$\{?([A-Za-z_]\w{0,100})")
_UNREAD: Final = ("Fix ", "Make ", "Shorten ")
"""How problems of a recipe begin whose files could not be read."""
_PLAIN_IMAGES: Final = frozenset({"alpine", "debian", "ubuntu"})
_DOCKER_ADVICE: Final = "deploy to a cluster with the Docker engine"


class NeedsContainer(BuildError):
    """Raised if a Dockerfile has instructions that the process engine cannot follow."""

    def __init__(self, message: str, reason: str, recipe: Recipe) -> None:
        super().__init__(message)
        self.reason = reason
        self.recipe = recipe

    def __reduce__(self) -> tuple[type[NeedsContainer], tuple[str, str, Recipe]]:
        """Supports pickling, because the exception may come from another process and has additional
        arguments."""
        return type(self), (str(self), self.reason, self.recipe)

    def gives_the_same(self, dockerfile: Dockerfile, hints: Hints) -> bool:
        """Returns whether the recipe leads to the same application as the Dockerfile.

        This is the case if both only serve the same folder, and the Dockerfile sets no variables. Otherwise
        the recipe must be runnable, and all its files readable; the recipe must have a build command, or the
        Dockerfile no command; a stage must use an image of the recipe's language, or the Dockerfile must
        start nothing in an image of none; and the variables that the Dockerfile sets must mean the same
        outside of its image (`kept_variables`).
        """
        if serves_the_site(dockerfile, self.recipe) and not hints.environment:
            return True
        images = _IMAGES.get(self.recipe.language)
        # Without a command in the Dockerfile, its image or a Compose file has the command, so the recipe's is
        # used.
        is_whole = self.recipe.build or hints.command is None
        is_unread = any(problem.startswith(_UNREAD) for problem in self.recipe.problems)
        if not (images and self.recipe.is_runnable and is_whole) or is_unread:
            return False
        bases = [name_of_image(stage.base) for stage in dockerfile.stages]
        kept = kept_variables(dockerfile, hints)
        is_plain = hints.command is None and _PLAIN_IMAGES.issuperset(bases)
        return (is_plain or any(re.fullmatch(images, base) for base in bases)) and not any(
            _IMAGE_PATH_PATTERN.search(value) for value in kept.values()
        )


def kept_variables(dockerfile: Dockerfile, hints: Hints) -> dict[str, str]:
    """Returns the variables of a Dockerfile that the application gets if the recipe is followed: all except
    those for tools, for a web server of the image, those that each recipe sets itself
    (`_HARMLESS_VARIABLES`), and paths of the image to which the instructions of the Dockerfile refer."""
    text = "\n".join(step.text for stage in dockerfile.stages for step in stage.instructions)
    referred = {match[1] for match in _REFERENCE_PATTERN.finditer(text)}
    has_server = any(name_of_image(stage.base).startswith("uwsgi-nginx") for stage in dockerfile.stages)
    return {
        name: value
        for name, value in hints.environment.items()
        if not (
            name in _HARMLESS_VARIABLES
            or _OF_TOOLS_PATTERN.fullmatch(name)
            or (has_server and _OF_SERVER_PATTERN.fullmatch(name))
            or (name in referred and _IMAGE_PATH_PATTERN.search(value))
        )
    }


def check_start(hints: Hints, layout: Layout, name: Path, installs: bool) -> None:
    """Refuses a start command whose program is made by a Dockerfile instruction. `installs` is whether the
    build installs packages, which may contain the program."""
    missing = _missing_file(hints.command, layout, installs) if hints.command else ""
    steps = [instruction for instruction in hints.skipped if instruction.makes_files]
    if not missing or not steps:
        return
    base = missing.rpartition("/")[2]
    step = next((step for step in steps if base in step.shown), steps[-1])
    reason = (
        f"{name} makes {missing} in line {step.line} ({step.shown[:80]}), and the process engine runs no "
        "instruction of a Dockerfile."
    )
    if "/" not in missing and _PIP_PATTERN.search(step.shown):
        raise BuildError(f"Add {missing} to requirements.txt, or {_DOCKER_ADVICE}: {reason}")
    raise refusal(layout.app, reason)


def check_web_server(hints: Hints, layout: Layout, name: Path) -> None:
    """Refuses to start a web server of the image: the machine may have no such server, or one that serves
    other files."""
    if starts_web_server(hints.image, _argv_of(hints.command) if hints.command else []):
        image = name_of_image(hints.image)
        reason = f"{name} starts the web server of the image {image}, and the process engine has no images."
        raise refusal(layout.app, reason)


def check_global_program(hints: Hints, layout: Layout, name: Path, package: Package | None) -> None:
    """Refuses a start command whose program is only installed by `npm install --global` in the Dockerfile."""
    argv = _argv_of(hints.command) if hints.command else []
    if not argv or (package and argv[0] in {**package.dependencies, **package.development}):
        return
    for step in hints.skipped:
        if argv[0] in " ".join(_GLOBAL_INSTALL_PATTERN.findall(step.shown)).split():
            reason = (
                f"{name} installs {argv[0]} in line {step.line}, and the process engine runs no instruction "
                "of a Dockerfile."
            )
            raise refusal(layout.app, reason)


def refusal(folder: Path, reason: str) -> NeedsContainer:
    """Returns the error about a Dockerfile that the process engine cannot follow."""
    recipe = recipe_of(folder)
    if not recipe.is_runnable:
        message = f"D{_DOCKER_ADVICE[1:]}, or set builder to RECIPE and start_command: {reason}"
    else:
        message = f"Set builder to RECIPE, or {_DOCKER_ADVICE}: {reason} {_describe(recipe)}"
    return NeedsContainer(message, reason, recipe)


def _describe(recipe: Recipe) -> str:
    steps = [("built", recipe.build), ("started", recipe.start)]
    done = " and ".join(f"{verb} with `{command}`" for verb, command in steps if command)
    served = f"the folder {recipe.static_folder} is served" if not recipe.start else ""
    what = ", and ".join(filter(None, [done, served]))
    named = recipe.framework or recipe.language or "of its own"
    return f"The recipe of these files is {named}: {'it is ' if done else ''}{what}."


def _missing_file(command: Command, layout: Layout, installs: bool) -> str:
    """Returns the program or the Java archive of the command if it is neither in the repository nor on this
    machine. Returns an empty string otherwise."""
    argv = _argv_of(command)
    if not argv:
        return ""
    if _is_missing(argv[0], layout, installs):
        return argv[0]
    return _missing_archive(argv, layout)


def _argv_of(command: Command) -> Sequence[str]:
    return command.argv if isinstance(command, ExecForm) else plain_words(command.text)


def _missing_archive(argv: Sequence[str], layout: Layout) -> str:
    if Path(argv[0]).name != "java" or "-jar" not in argv[:-1]:
        return ""
    archive = argv[argv.index("-jar") + 1]
    return "" if "$" in archive or _exists(archive, layout) else archive


def _is_missing(program: str, layout: Layout, installs: bool) -> bool:
    name = program.rpartition("/")[2]
    is_script = name.endswith(".sh")  # packages install none
    may_be_installed = installs and not is_script and ("/" not in program or "/bin/" in program)
    is_known = may_be_installed or bool(_PROVIDED_PROGRAM_PATTERN.fullmatch(name))
    return not (is_known or _exists(program, layout) or find_program(name, machine_path()))


def _exists(path: str, layout: Layout) -> bool:
    here = layout.here(path)
    return "/" in path and os.path.lexists(here if here.startswith("/") else layout.folder / here)
