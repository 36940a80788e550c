"""Finds the port in a Dockerfile's command and replaces it with the port of the instance.

In a container, a program can use any port. Without a container, the port may be in use or need root. The
engine sets the variable WINDLASS_PORT_80 to the instance's port if the application declares port 80.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from windlass.base.lazy import lazy_pattern
from windlass.builders.dockerfile_hints import Command, ExecForm, Shell, text_of
from windlass.detect import Recipe

_PORT_PATTERN: Final = lazy_pattern(
    r"(?<![\w.:'$-])(?P<flag>(?:-b|--[a-z]+)=)?(?P<before>0\.0\.0\.0:|:|--(?:[a-z]+[.-])?port[= ]|-[pl] )"
    r"(?P<port>\d{2,5})(?![\w.:])"
)
_SERVER_PATTERN: Final = lazy_pattern(
    r"(?:^|[\s/&;'\"])(?:gunicorn|uvicorn|hypercorn|daphne|granian|waitress-serve|fastapi (?:run|dev)"
    r"|streamlit run|flask (?:\S+ ){0,3}run|manage\.py runserver|http\.server|puma|rackup|unicorn"
    r"|thin start|rails s(?:erver)?|php -S|next start|http-server)(?:\s|$)"
)
_FILE_PATTERN: Final = lazy_pattern(r"(?:^|[\s/])(?P<stem>\w[\w-]*)\.(?:py|[cm]?js|rb)(?:\s|$)")
DEFAULT_PORT: Final = 8000
"""The assumed port of a server whose command contains no port. If the server is found to listen on another
port, that port is used."""
_ASKS_FOR_PORT_PATTERN: Final = lazy_pattern(r"\$(?:PORT\b|\{PORT\b)")
_WORKER_PATTERN: Final = lazy_pattern(
    r"(?<![\w-])(?:workers?|celery|sidekiq|resque|rq|dramatiq|huey|beat|scheduler|queue:work|good_job|bot)(?![\w-])"
)
_WRAPPER_WORDS: Final = frozenset(
    {"exec", "sh", "bash", "/bin/sh", "/bin/bash", "-c", "npx", "tini", "dumb-init", "--"}
)
_PACKAGE_MANAGERS: Final = frozenset({"npm", "yarn", "pnpm", "bun"})
_SHELLS: Final = frozenset({"sh", "bash", "ash", "/bin/sh", "/bin/bash", "/bin/ash"})


def fixed_port(command: Command | None, exposed: Collection[int]) -> int | None:
    """Returns the only port in a command. Returns None if there are several, or if the image exposes only
    other ports."""
    named = {int(match["port"]) for match in _matches(command, exposed)} if command else set()
    number = named.pop() if len(named) == 1 else 0
    return number if 0 < number < 2**16 and number in (exposed or {number}) else None


def web_port(command: Command | None, recipe: Recipe) -> int:
    """Returns the port of a command that starts a known HTTP server, or the program that the recipe starts.

    A command that names no file is the recipe's if it begins with the same program, a package manager or the
    path of a program. A worker gets 0.
    """
    if command is None:
        return 0
    text = text_of(command)
    if _SERVER_PATTERN.search(text):
        return recipe.port or DEFAULT_PORT
    file = _FILE_PATTERN.search(text)
    if file and not re.search(rf"\b{re.escape(file['stem'])}\b", recipe.start):
        return 0
    if not file and not _may_be_started_by(text, recipe):
        return 0
    return 0 if names_worker(text) else recipe.port


def _may_be_started_by(text: str, recipe: Recipe) -> bool:
    words = [word.strip("'\"") for word in text.split() if word not in _WRAPPER_WORDS]
    program = words[0] if words else ""
    return "/" in program or program in _PACKAGE_MANAGERS or program in recipe.start.split()[:1]


def asks_for_port(text: str) -> bool:
    """Returns whether a command line uses the variable PORT."""
    return bool(_ASKS_FOR_PORT_PATTERN.search(text))


def names_worker(text: str) -> bool:
    """Returns whether a command line names a program that does not listen, such as a worker."""
    return bool(_WORKER_PATTERN.search(text))


def with_given_port(command: Command, number: int) -> Command:
    """Returns the command with `number` replaced by the variable that contains the instance's port."""
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
        for match in _PORT_PATTERN.finditer(text_of(command))
        if match["before"] not in short or int(match["port"]) in exposed
    ]


def _text_with(text: str, number: int) -> str:
    def given(match: re.Match[str]) -> str:
        start = f"{match['flag'] or ''}{match['before']}"
        return f"{start}${{WINDLASS_PORT_{number}:-{number}}}" if int(match["port"]) == number else match[0]

    return _PORT_PATTERN.sub(given, text)
