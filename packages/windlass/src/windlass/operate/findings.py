"""Findings of `windlass doctor`: a level, a subject, and a remedy."""

from __future__ import annotations

import subprocess
from enum import StrEnum
from typing import Final

from msgspec import Struct

SECONDS: Final = 5
"""Time limit of each check."""


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    level: Level
    what: str
    found: str
    advice: str = ""


def ok(what: str, state: str) -> Finding:
    return Finding(Level.OK, what, state)


def warn(what: str, state: str, advice: str) -> Finding:
    return Finding(Level.WARN, what, state, advice)


def fail(what: str, state: str, advice: str) -> Finding:
    return Finding(Level.FAIL, what, state, advice)


def first_line_from(*command: str) -> str:
    """The first line of what a program says; nothing, if it is not there or does not work."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]
