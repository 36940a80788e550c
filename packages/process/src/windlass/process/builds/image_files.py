"""Detects that the start command of a Dockerfile needs files which only its image has at this place: a script
that COPY takes out of the folder of a build, or a program that RUN installs and a script of the repository
starts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from windlass.base.shell import plain_words
from windlass.builders.builder import BuildError
from windlass.builders.dockerfile import Dockerfile, Stage
from windlass.builders.dockerfile_hints import ExecForm, Hints, is_below
from windlass.builders.instructions import Instruction
from windlass.builders.small_files import read_small_text
from windlass.process.builds import tree
from windlass.process.builds.container_only import refusal
from windlass.process.builds.layout import Layout
from windlass.process.builds.tools import find_program, machine_path

CODE: Final = re.compile(r"[^\s*?$]+\.(?:[cm]?[jt]sx?|php|pl|py|rb)")
"""Matches the path of a script."""
_EXECUTED_PATTERN: Final = re.compile(r"^[ \t]*+exec[ \t]++([\w.+-]++)(?=[ \t\n]|\Z)", re.MULTILINE)
"""Matches the program that replaces a shell script."""
_MOST_SCRIPT_CHARACTERS: Final = 20_000


def check_moved_script(
    dockerfile: Dockerfile, stage: Stage, hints: Hints, layout: Layout, name: Path
) -> None:
    """Refuses a start command whose script a COPY instruction moves out of the folder of a build, such as
    `.next/standalone/server.js` to `server.js`. A build without containers leaves it where it is."""
    script = next((word for word in _words_of(hints) if CODE.fullmatch(word)), "")
    path = posixpath.normpath(posixpath.join(hints.workdir, script))
    if not script or (layout.folder / layout.here(path)).exists():
        return
    tops = {hints.top, *_working_folders(dockerfile)}
    copies = [(step, origin) for step in stage.instructions for origin in _origins(step, path, hints)]
    wanted = posixpath.relpath(path, hints.top)
    if any(
        is_below(origin, top) and posixpath.relpath(origin, top) == wanted
        for _, origin in copies
        for top in tops
    ):
        return
    if copies:
        step = copies[-1][0]
        reason = (
            f"{name} moves {script} to its place in line {step.line} ({step.shown[:80]}), and the process "
            "engine runs no instruction of a Dockerfile."
        )
        raise refusal(layout.app, reason)


def check_program_of_script(hints: Hints, layout: Layout, name: Path, known: Sequence[str]) -> None:
    """Refuses a script of the repository as the start command if it executes a program that only an
    instruction of the Dockerfile installs, such as one that restarts the application after each change.
    `known`: the names of the packages that are installed."""
    words = _words_of(hints)
    file = tree.resolve_inside(layout.app, layout.folder / layout.here(words[0])) if words else None
    if file is None or not file.is_file():
        return
    found = _EXECUTED_PATTERN.findall(read_small_text(file)[:_MOST_SCRIPT_CHARACTERS])
    program = found[-1] if found else ""
    if not program or program in known or find_program(program, machine_path()):
        return
    for step in hints.skipped:
        if step.shown.startswith("RUN ") and re.search(
            rf"(?<![\w-]){re.escape(program)}(?![\w-])", step.shown
        ):
            reason = (
                f"{words[0]} starts {program}, which {name} installs in line {step.line}, and the process "
                "engine runs no instruction of a Dockerfile."
            )
            # The script may do more than the recipe does, so that the recipe is only offered.
            raise BuildError(str(refusal(layout.app, reason)))


def _words_of(hints: Hints) -> Sequence[str]:
    command = hints.command
    if command is None:
        return ()
    return command.argv if isinstance(command, ExecForm) else plain_words(command.text)


def _working_folders(dockerfile: Dockerfile) -> Iterator[str]:
    for stage in dockerfile.stages:
        place = "/"
        for step in stage.instructions:
            if step.name == "WORKDIR":
                place = posixpath.normpath(posixpath.join(place, step.text))
                yield place


def _origins(step: Instruction, path: str, hints: Hints) -> Iterator[str]:
    """Yields the paths in another stage from which a COPY instruction may take the file `path`."""
    if step.name != "COPY" or step.flag("from") is None:
        return
    *sources, to = step.json or step.text.split()
    target = posixpath.normpath(posixpath.join(hints.workdir, to))
    for source in sources:
        origin = posixpath.normpath(posixpath.join("/", source))
        if path == target or (posixpath.basename(origin), posixpath.dirname(path)) == (
            posixpath.basename(path),
            target,
        ):
            yield origin
        elif is_below(path, target) and not CODE.fullmatch(origin):
            yield posixpath.normpath(posixpath.join(origin, posixpath.relpath(path, target)))
