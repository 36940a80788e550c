"""Resolves the start command: finds its program and makes its paths relative to the working folder."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from msgspec import Struct

from windlass.base.shell import plain_words
from windlass.builders.builder import BuildError, Say
from windlass.builders.dockerfile_hints import Command, ExecForm, Shell
from windlass.detect.python_runners import without_runner
from windlass.process.builds import container_only, tools
from windlass.process.builds.image_files import CODE
from windlass.process.builds.language_tools import OR_DOCKER, advice_to_install
from windlass.process.builds.layout import Layout

_PYTHON_PATTERN = re.compile(r"python(3(\.\d+)?)?")
_SCRIPT_SUFFIXES: Final = {
    "python": (".py",),
    "node": (".js", ".mjs", ".cjs", "/index.js", "/package.json", ".json"),
    "sh": (),
    "bash": (),
}
"""Programs whose first word is a script, with the endings that may be left out."""
_RUNS_FILES: Final = frozenset(["bun", "deno", "php", "ruby", "perl", "tsx", "ts-node"])
"""Further programs that run a script. Their first words may also be a subcommand, or a script of
package.json."""


class Site(Struct, frozen=True, kw_only=True):
    """The folders in which the command will run."""

    layout: Layout
    path: tuple[str, ...]
    """Folders of programs during the build."""
    final: tuple[str, ...]
    """The final paths of the same folders, in the same order."""
    undone: tuple[str, ...] = ()
    """Dockerfile instructions that were not executed. They may be the reason why a file is missing."""


def resolve_command(command: Command, site: Site, write_line: Say) -> tuple[str, ...]:
    match command:
        case ExecForm(argv):
            return _exec(argv, site, write_line)
        case Shell(text, shell):
            return _in_shell(without_runner(text), shell, site, write_line)


def _exec(argv: Sequence[str], site: Site, write_line: Say) -> tuple[str, ...]:
    if not argv[0]:
        raise BuildError("Name the command that starts the application: the present one is empty.")
    first, *rest = (site.layout.here(word) for word in argv)
    program = _program(argv[0], first, site, write_line)
    _check_script(program, rest, site)
    if "/" not in program or program.startswith("/"):
        return (program, *rest)
    # A relative path is only valid in the working folder, so a shell resolves it after the process is there.
    return ("/bin/sh", "-c", 'exec "$0" "$@"', program, *rest)


def _in_shell(text: str, shell: Sequence[str], site: Site, write_line: Say) -> tuple[str, ...]:
    here = site.layout.here(text).strip()
    words = plain_words(here)
    if words:
        program = _program(
            plain_words(text.strip())[0] if plain_words(text.strip()) else words[0],
            words[0],
            site,
            write_line,
        )
        plain = [word for word in words[1:] if "$" not in word]
        if len(plain) == len(words) - 1 or (plain and plain[0] == words[1]):
            _check_script(program, plain, site)
        # The word is replaced only if it is written without quotes and escapes.
        if here.startswith(words[0]):
            here = shlex.quote(program) + here[len(words[0]) :]
        if not here.startswith("exec "):
            here = f"exec {here}"
    first = _program(shell[0], shell[0], site, write_line)
    return (first, *shell[1:], here)


def _program(program: str, folder: str, site: Site, write_line: Say) -> str:
    name = program.rpartition("/")[2]
    if "/" not in program:
        return _on_path(name, site) or _refuse_missing(program, site)
    ours = folder if not folder.startswith("/") else ""
    if ours:
        place = site.layout.folder / ours
        if place.is_file() and os.path.realpath(place).startswith(os.path.realpath(site.layout.app)):
            _executable(place, program, write_line)
            return ours if "/" in ours else f"./{ours}"
        # The Dockerfile makes a virtual environment that does not exist here, such as
        # /app/.venv/bin/gunicorn.
        return (_on_path(name, site) if "/bin/" in program else None) or _refuse_missing(program, site)
    if (installed := _on_path(name, site)) and (
        _PYTHON_PATTERN.fullmatch(name) or not os.access(program, os.X_OK)
    ):
        return installed
    if installed and tools.find_program(name, site.path[:1]):
        return installed
    return (
        program
        if os.access(program, os.X_OK) and Path(program).is_file()
        else installed or _refuse_missing(program, site)
    )


def _on_path(name: str, site: Site) -> str | None:
    """Returns the final path of a program. Each name of Python leads to the application's Python."""
    if _PYTHON_PATTERN.fullmatch(name) and tools.find_program("python", site.path[:1]):
        name = "python"
    for now, final in zip(site.path, site.final, strict=True):
        if path := tools.find_program(name, [now]):
            return str(Path(final) / Path(path).name)
    return None


def _executable(path: Path, program: str, write_line: Say) -> None:
    mode = path.stat().st_mode
    if not mode & 0o100:
        write_line(f"{program} is made executable.")
        path.chmod(mode | 0o111)


def _check_script(program: str, arguments: Sequence[str], site: Site) -> None:
    """Refuses a command such as `python main.py` if the script is absent."""
    name = _PYTHON_PATTERN.sub("python", Path(program).name)
    if name in _RUNS_FILES:
        arguments = [word for word in arguments[:2] if word != "run"][:1]
        arguments = arguments if arguments and CODE.fullmatch(arguments[0]) else []
    elif name not in _SCRIPT_SUFFIXES:
        return
    if not arguments or arguments[0].startswith("-"):
        return
    if arguments[0].startswith("/") and not site.layout.image:
        return
    folder = site.layout.folder
    if any((folder / f"{arguments[0]}{end}").exists() for end in ("", *_SCRIPT_SUFFIXES.get(name, ()))):
        return
    _refuse_missing(f"{name} {arguments[0]}", site, arguments[0])


def _refuse_missing(program: str, site: Site, file: str = "") -> NoReturn:
    lines = "; ".join(site.undone[:3]).removesuffix(".")
    if lines and site.layout.image:
        missing = f"file {file}" if file else f"program {program}"
        why = f"there is no {missing}, and it may be made by what is not executed here: {lines}."
        raise container_only.refusal(site.layout.app, why)
    why = f" It may be made by what is not executed here: {lines}." if lines else ""
    whole = " Or deploy to a cluster with the Docker engine, which builds the whole Dockerfile."
    otherwise = why + whole * site.layout.image
    if file:
        raise BuildError(
            f"Commit the file {file}, or correct the start command {program}: there is no file {file}."
            f"{otherwise}"
        )
    if "/" in program and not program.startswith("/") and ".bin/" not in program:  # no package brings it
        raise BuildError(
            f"Commit the file {program}, or correct the start command: there is no file {program}.{otherwise}"
        )
    if advice := advice_to_install(program, f"The start command begins with {program}"):
        raise BuildError(f"{advice}{otherwise or OR_DOCKER}")
    raise BuildError(
        f"Add {program} to the dependencies, or correct the start command: {program} is neither a "
        f"file of the application nor a program of this machine.{otherwise}"
    )
