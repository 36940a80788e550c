"""Finds the process that listens on a port of this machine, for error messages."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base import kernel
from windlass.config import Settings
from windlass.engines.rollout import kernel_listeners as listening
from windlass.gateway.files import CONTROL, folder_of, socket_of
from windlass.install.engines import providers

_MAX_COMMAND_LENGTH: Final = 80
"""Number of characters of a command line that are shown."""


def holder_of(port: int, settings: Settings) -> str:
    """Returns a description of the process that listens on a port; empty if the process cannot be found."""
    inodes = listening.read_listeners().get(port, set())
    for pid in _processes() if inodes else ():
        if inodes & listening.sockets([pid]):
            return _describe(pid, settings)
    return ""


def find_lost_gateway(port: int, settings: Settings) -> int:
    """Returns the id of the process on a port if it is a gateway of this data directory without its files;
    else 0.

    The files are missing if the disk of the data directory is not mounted, for example.
    """
    folder = folder_of(settings.data_dir)
    if socket_of(folder, CONTROL).exists():
        return 0
    inodes = listening.read_listeners().get(port, set())
    for pid in _processes() if inodes else ():
        if inodes & listening.sockets([pid]) and _is_gateway_of(pid, folder):
            return pid
    return 0


def _is_gateway_of(pid: int, folder: Path) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b"windlass.gateway" in words and os.fsencode(folder) in words
    return False


def _processes() -> Iterator[int]:
    return (process.pid for process in kernel.all_processes() if not process.dead)


def _describe(pid: int, settings: Settings) -> str:
    user, service = kernel.user(pid), _service_of(pid, settings)
    text = f"process {pid} ({command_of(pid)})"
    if user is not None:
        text += f" of the user {_name(user)}"
    return f"{text}, which is of the service {service} of this installation" if service else text


def command_of(pid: int) -> str:
    """Returns the command line of a process, shortened, without terminal control characters."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        text = shlex.join(word.decode(errors="replace") for word in words)
        plain = "".join(letter if letter.isprintable() else "?" for letter in text)
        return plain if len(plain) <= _MAX_COMMAND_LENGTH else plain[: _MAX_COMMAND_LENGTH - 1] + "…"
    return "ended"


def _name(user: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return str(user)


def _service_of(pid: int, settings: Settings) -> str:
    found = (provider.service_of(pid, Path(settings.data_dir)) for provider in providers().values())
    return next(filter(None, found), "")
