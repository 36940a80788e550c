"""Turns texts into commands, as a shell does."""

from __future__ import annotations

import re
import shlex
from typing import Final

SHELL: Final = "/bin/sh"

# `exec` must not precede shell builtins and syntax, because it would change their meaning.
_SHELL_SYNTAX_PATTERN: Final = re.compile(r"[;&|<>(){}`\n]|\$\(")
_SHELL_WORDS: Final = (
    "! . : [ [[ alias break case cd command continue do done elif else esac eval exec exit export fi for "
    "function if local read return set shift source test then time times trap true type ulimit umask unset "
    "until wait while"
)
_BUILTINS: Final = frozenset(_SHELL_WORDS.split())
_ASSIGNMENT_PATTERN: Final = re.compile(r"[A-Za-z_]\w*=")
_EXPANSION_PATTERN: Final = re.compile(r"\$\{\w++[^}]*+\}")


def shell_command(text: str) -> tuple[str, ...]:
    """Returns the arguments to run a text in a shell. A plain command replaces the shell process, so that it
    receives signals directly."""
    is_plain = plain_words(text) and not text.lstrip().startswith("exec ")
    return (SHELL, "-c", f"exec {text.strip()}" if is_plain else text)


def plain_words(text: str) -> list[str]:
    """Returns the words of a plain command; an empty list if the text has shell syntax."""
    if _SHELL_SYNTAX_PATTERN.search(_EXPANSION_PATTERN.sub("$X", text)):
        return []
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    if words[:1] == ["exec"]:
        words = words[1:]
    if not words or words[0] in _BUILTINS or _ASSIGNMENT_PATTERN.match(words[0]) or "$" in words[0]:
        return []
    return words
