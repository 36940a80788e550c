"""Commands of a recipe as words for an engine: the program gets the signals, no shell stands before it."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w./:@%+,=-]+(?: +[\w./:@%+,=-]+)*", re.ASCII)
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"`$\\]*\"")
_EXPANSION: Final = re.compile(r"\$\{\w+(?:[:=?+-][^{}$`'\"]*)?\}|\$\([^()`]*\)", re.ASCII)
_SYNTAX: Final = frozenset("'\"`;|&<>(){}\n\r\\#")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_NOT_PROGRAMS: Final = frozenset(
    [
        *("exec", "cd", "export", "set", "unset", "source", ".", "eval", "trap", "ulimit", "umask", ":", "!"),
        *("if", "for", "while", "until", "case", "then", "do", "wait", "exit", "return", "alias", "read"),
    ]
)


def argv(command: str) -> tuple[str, ...]:
    """Returns the words that start a command. `PORT` and other variables are read by a shell, which the
    program then replaces."""
    words = command.split()
    if _PLAIN.fullmatch(command) and "=" not in words[0] and words[0] not in _NOT_PROGRAMS:
        return tuple(words)
    return ("sh", "-c", with_exec(command))


def with_exec(command: str) -> str:
    """Returns the command with `exec` before its last program: a signal reaches the program itself.

    Commands of any other form than `a && b` stay as they are."""
    before, _, last = command.rpartition("&&")
    last = last.strip()
    if not _is_one_program(last) or not _is_closed(before):
        return command
    program = f"exec env {last}" if _ASSIGNMENT.match(last) else f"exec {last}"
    return f"{before.rstrip()} && {program}" if before.strip() else program


def _is_one_program(text: str) -> bool:
    bare = _EXPANSION.sub("X", _QUOTED.sub("X", text))
    words = bare.split()
    return bool(words) and words[0] not in _NOT_PROGRAMS and not _SYNTAX & set(bare)


def _is_closed(text: str) -> bool:
    """True if no quote is open at the end of the text."""
    return not set("'\"`\\") & set(_QUOTED.sub("X", text))
