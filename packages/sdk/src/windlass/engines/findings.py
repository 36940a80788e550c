"""Findings of `windlass doctor`: a level, a subject, and a remedy."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

TIMEOUT: Final = 5
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


def ok(subject: str, state: str) -> Finding:
    return Finding(Level.OK, subject, state)


def warn(subject: str, state: str, advice: str) -> Finding:
    return Finding(Level.WARN, subject, state, advice)


def fail(subject: str, state: str, advice: str) -> Finding:
    return Finding(Level.FAIL, subject, state, advice)


def first_line_from(*command: str) -> str:
    """Returns the first line of a program's output; empty if the program is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]


class KernelLimit(Struct, frozen=True):
    """A kernel limit that all services share."""

    name: str
    enough: int

    @property
    def file(self) -> str:
        return self.name.replace(".", "/")


AIO_LIMIT: Final = KernelLimit("fs.aio-max-nr", 1_048_576)
INOTIFY_LIMIT: Final = KernelLimit("fs.inotify.max_user_instances", 1024)
"""Limit of inotify instances per user id. Containers share the user ids of the machine."""
NEIGHBOUR_LIMIT: Final = KernelLimit("net.ipv4.neigh.default.gc_thresh3", 8192)
"""Limit of neighbour table entries, shared by all networks. A container can create an entry for each address
of its network."""
PROC_SYS: Final = Path("/proc/sys")
_LIMITS_SUBJECT: Final = "Kernel limits"


def kernel_limits(limits: Sequence[KernelLimit], proc: Path = PROC_SYS) -> Finding:
    small = []
    for limit in limits:
        with suppress(OSError, ValueError):
            if int((proc / limit.file).read_text()) < limit.enough:
                small.append(limit)
    if not small:
        return ok(_LIMITS_SUBJECT, "they have room for many services")
    state = f"{', '.join(limit.name for limit in small)}: one service can use it up for all others"
    lines = " ".join(f"{limit.name}={limit.enough}" for limit in small)
    return warn(
        _LIMITS_SUBJECT, state, f"`sysctl -w {lines}`, and the same in /etc/sysctl.d for the next boot"
    )
