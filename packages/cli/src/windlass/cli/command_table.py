"""The names of all commands with a line about each, so that `--help` needs no registry.

The table is computed from the commands themselves, and kept in the user's cache until a file changes that
declares one.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct

import windlass
from windlass.base.atomic_files import write_whole
from windlass.base.entry_points import entry_points
from windlass.base.private import private_folder
from windlass.base.version import VERSION
from windlass.cli.user_folders import cache_folder

_FILE: Final = "commands.json"
_DECLARING: Final = ("cli", "cli/everyday", "operate", "families", "core/declare")
"""Folders of the files that declare commands, in any package."""
_WHOLE: Final = 1000
_GROUP: Final = "windlass.commands"


class GroupLines(Struct, frozen=True):
    """A group of commands that follows from the API: a line about it, and one about each command."""

    about: str
    words: dict[str, str]


class CommandTable(Struct, frozen=True):
    """All commands, as they are listed."""

    digest: str
    """A digest that changes with every file that declares commands."""
    groups: dict[str, GroupLines]
    others: dict[str, str]
    """Help lines of the commands that are not derived from the API."""
    machine: dict[str, str]
    """Commands that installed packages bring for the machine of a server, as `module:attribute`."""


def command_table(compute: Callable[[str], CommandTable]) -> CommandTable:
    """Returns the table, from the cache if nothing has changed since."""
    digest = _digest()
    if kept := _read_cache(digest):
        return kept
    table = compute(digest)
    file = cache_folder() / _FILE
    with suppress(OSError):  # a user without a home: the next call computes it again
        private_folder(file.parent)
        write_whole(file, msgspec.json.encode(table), durable=False, draft=f"new{os.getpid()}")
    return table


def place_of(name: str) -> str:
    """Returns the place of a command that an installed package brings; empty if there is none of the name. A
    server that starts has no other use for the table, so it is not computed here."""
    kept = _read_cache(_digest())
    return (commands_of_packages() if kept is None else kept.machine).get(name, "")


def _read_cache(digest: str) -> CommandTable | None:
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        kept = msgspec.json.decode((cache_folder() / _FILE).read_bytes(), type=CommandTable)
        if kept.digest == digest:
            return kept
    return None


def line_about(command: click.Command) -> str:
    return command.get_short_help_str(_WHOLE)


def commands_of_packages() -> dict[str, str]:
    """Returns the commands that installed packages name as entry points of the group `windlass.commands`."""
    return {entry.name: entry.value for entry in entry_points(_GROUP)}


def _digest() -> str:
    """Returns a digest of names, sizes and times of the declaring files, and of the folders into which
    packages are installed."""
    parts = [VERSION]
    for portion in sorted(windlass.__path__):
        parts.append(portion)
        for folder in (*_DECLARING, *_of_kinds(portion)):
            with suppress(FileNotFoundError), os.scandir(Path(portion) / folder) as scan:
                files = sorted((entry.name, entry.stat()) for entry in scan if entry.name.endswith(".py"))
                parts += [f"{folder}/{name} {status.st_size} {status.st_mtime_ns}" for name, status in files]
    for folder in sys.path:
        with suppress(OSError):
            parts.append(f"{folder} {Path(folder).stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _of_kinds(portion: str) -> list[str]:
    """Returns the folders of families that packages bring with their kinds of services."""
    return sorted(f"{path.parent.name}/{path.name}" for path in Path(portion).glob("*/families"))
