"""The port on which the command of a Dockerfile serves, and how it gets the one of its instance.

In a container each program has all ports for itself. Without one, a port may be taken or need root. The
engine sets WINDLASS_PORT_80 where the application declares port 80.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from windlass.detect import Recipe
from windlass.process.builds.dockerfile_hints import Command, ExecForm, Shell

_PORT: Final = re.compile(
    r"(?<![\w.:'$-])(?P<flag>(?:-b|--[a-z]+)=)?(?P<before>0\.0\.0\.0:|:|--(?:[a-z]+[.-])?port[= ]|-[pl] )"
    r"(?P<port>\d{2,5})(?![\w.:])"
)
_SERVER: Final = re.compile(
    r"(?:^|[\s/&;'\"])(?:gunicorn|uvicorn|hypercorn|daphne|granian|waitress-serve|fastapi (?:run|dev)"
    r"|streamlit run|flask (?:\S+ ){0,3}run|manage\.py runserver|http\.server|puma|rackup|unicorn"
    r"|thin start|rails s(?:erver)?|php -S|next start|http-server)(?:\s|$)"
)
_FILE: Final = re.compile(r"(?:^|[\s/])(?P<stem>\w[\w-]*)\.(?:py|[cm]?js|rb)(?:\s|$)")
USUAL: Final = 8000
"""The port of a server that names none. If it is found to listen on another, it gets that one."""
_SHELLS: Final = frozenset({"sh", "bash", "ash", "/bin/sh", "/bin/bash", "/bin/ash"})


def fixed_port(command: Command | None, exposed: Collection[int]) -> int | None:
    """Returns the port that a command names for its server, if it names just one and no other is exposed."""
    named = {int(match["port"]) for match in _matches(command, exposed)} if command else set()
    number = named.pop() if len(named) == 1 else 0
    return number if 0 < number < 2**16 and number in (exposed or {number}) else None


def web_port(command: Command | None, recipe: Recipe) -> int:
    """Returns a port for a command that starts a known server of HTTP, or the file that the recipe starts;
    0 for others."""
    if command is None:
        return 0
    if _SERVER.search(_text_of(command)):
        return USUAL
    file = _FILE.search(_text_of(command))
    serves = file and re.search(rf"\b{re.escape(file['stem'])}\b", recipe.start)
    return recipe.port if serves else 0


def with_given_port(command: Command, number: int) -> Command:
    """Returns the command with the port that stands for `number` where the application declares it."""
    match command:
        case Shell(text):
            return replace(command, text=_text_with(text, number))
        case ExecForm((shell, "-c", text, *rest)) if shell in _SHELLS:
            return ExecForm((shell, "-c", _text_with(text, number), *rest))
    return Shell(_text_with(shlex.join(command.argv), number))


def _matches(command: Command, exposed: Collection[int]) -> list[re.Match[str]]:
    short = ("-p ", "-l ")
    return [
        match
        for match in _PORT.finditer(_text_of(command))
        if match["before"] not in short or int(match["port"]) in exposed
    ]


def _text_of(command: Command) -> str:
    return command.text if isinstance(command, Shell) else " ".join(command.argv)


def _text_with(text: str, number: int) -> str:
    def given(match: re.Match[str]) -> str:
        start = f"{match['flag'] or ''}{match['before']}"
        return f"{start}${{WINDLASS_PORT_{number}:-{number}}}" if int(match["port"]) == number else match[0]

    return _PORT.sub(given, text)
