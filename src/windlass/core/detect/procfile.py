"""Reads a Procfile: the processes of an application, and the command that runs once for a release."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct

from windlass.core.detect.recipe import WEB

PROCFILE: Final = "Procfile"
MOST_PROCESSES: Final = 100
_RELEASE: Final = "release"
_LINE: Final = re.compile(r"([A-Za-z0-9_-]{1,60}+)[ \t]*+:[ \t]*+(\S.*)")


class Processes(Struct, frozen=True):
    """The commands that a file of the repository names. Of two with the same name, the first counts."""

    commands: Mapping[str, str] = {}
    release: str = ""
    wrong_line: int = 0
    """The number of the first line that has another form, or 0."""

    @property
    def main(self) -> str:
        return main_process(self.commands)

    @property
    def advice(self) -> str:
        """Says how to write the wrong line. Empty if there is none."""
        if not self.wrong_line:
            return ""
        return f"Write line {self.wrong_line} of the Procfile as `web: command`: it has another form."


def read_procfile(text: str) -> Processes:
    lines = [
        (number, line)
        for number, line in enumerate(map(str.strip, text.splitlines()), 1)
        if line and not line.startswith("#")
    ]
    matches = [_LINE.fullmatch(line) for _, line in lines]
    wrong = (number for (number, _), match in zip(lines, matches, strict=True) if not match)
    return processes_of(((match[1], match[2]) for match in matches if match), next(wrong, 0))


def processes_of(pairs: Iterable[tuple[str, str]], wrong_line: int = 0) -> Processes:
    commands: dict[str, str] = {}
    for name, command in islice(pairs, MOST_PROCESSES):
        commands.setdefault(name, command)
    release = commands.pop(_RELEASE, "")
    return Processes(commands, release, wrong_line)


def main_process(names: Collection[str], usual: str = WEB) -> str:
    """Returns the process that an application runs unless it chooses another: `web`, or the only one. Empty
    if it has to choose: to start one of several without being asked may start the wrong one."""
    if usual in names:
        return usual
    return next(iter(names)) if len(names) == 1 else ""


def exists_only_at_heroku(command: str) -> bool:
    """True for the commands by which PHP is served there, such as `heroku-php-apache2 web/`."""
    program = next(iter(command.split()), "")
    return program.removeprefix("vendor/bin/").startswith("heroku-php-")
