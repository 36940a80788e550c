"""Parses a Procfile: the processes of an application, and the release command, which runs once per
release."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.detect.recipe import WEB_PROCESS

PROCFILE: Final = "Procfile"
MAX_PROCESSES: Final = 100
_RELEASE_PROCESS: Final = "release"
_LINE_PATTERN: Final = re.compile(r"([A-Za-z0-9_-]{1,60}+)[ \t]*+:[ \t]*+(\S.*)")


class Processes(Struct, frozen=True):
    """The commands that a file in the repository declares."""

    commands: Mapping[str, str] = {}
    release: str = ""
    problem: str = ""
    """The remedy for a malformed file; empty if the file is valid."""

    @property
    def main(self) -> str:
        return main_process(self.commands)


def read_procfile(text: str) -> Processes:
    lines = [
        (number, line)
        for number, line in enumerate(map(str.strip, text.splitlines()), 1)
        if line and not line.startswith("#")
    ]
    matches = [_LINE_PATTERN.fullmatch(line) for _, line in lines]
    processes = processes_of(((match[1], match[2]) for match in matches if match), f"the {PROCFILE}")
    for (number, _), match in zip(lines, matches, strict=True):
        if not match:
            return replace(
                processes,
                problem=f"Write line {number} of the Procfile as `web: command`: it has another form.",
            )
    return processes


def processes_of(pairs: Iterable[tuple[str, str]], file: str) -> Processes:
    """Returns the processes that a file declares. Of two processes with the same name, the first wins."""
    commands: dict[str, str] = {}
    for name, command in pairs:
        commands.setdefault(name, command)
    release = commands.pop(_RELEASE_PROCESS, "")
    if len(commands) <= MAX_PROCESSES:
        return Processes(commands, release)
    problem = f"Name at most {MAX_PROCESSES} processes in {file}: it names {len(commands)}."
    return Processes(dict(islice(commands.items(), MAX_PROCESSES)), release, problem)


def main_process(names: Collection[str], default: str = WEB_PROCESS) -> str:
    """Returns the process that an application runs by default: `web`, or the only process. Empty if the
    application has to choose one of several processes."""
    if default in names:
        return default
    return next(iter(names)) if len(names) == 1 else ""


def exists_only_at_heroku(command: str) -> bool:
    """Returns whether the command is one of Heroku's PHP servers, such as `heroku-php-apache2 web/`."""
    program = next(iter(command.split()), "")
    return program.removeprefix("vendor/bin/").startswith("heroku-php-")
