"""The names of all commands with a help line for each, so that `--help` does not load the registry.

The table is computed from the commands, and cached for the user until a file that declares commands changes.
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

_TABLE_FILE: Final = "commands.json"
_DECLARING_FOLDERS: Final = ("cli", "cli/everyday", "operate", "families", "core/declare", "core/settings")
"""Folders whose files declare commands, in every package."""
_WHOLE_LENGTH: Final = 1000
_ENTRY_POINT_GROUP: Final = "windlass.commands"


class GroupLines(Struct, frozen=True):
    """The help lines of a command group that is derived from the API: of the group and of each command."""

    about: str
    words: dict[str, str]


class CommandTable(Struct, frozen=True):
    """The help lines of all commands."""

    digest: str
    """A digest that changes with every file that declares commands."""
    groups: dict[str, GroupLines]
    others: dict[str, str]
    """Help lines of commands that are not derived from the API."""
    machine: dict[str, str]
    """Commands of installed packages that act on the server's machine, as `module:attribute`."""


def command_table(compute: Callable[[str], CommandTable]) -> CommandTable:
    """Returns the table from the cache if it is up to date. Otherwise computes and caches it."""
    digest = _digest_of_declarations()
    if kept := _read_cache(digest):
        return kept
    table = compute(digest)
    file = cache_folder() / _TABLE_FILE
    with suppress(OSError):  # a user without a home folder: the next call computes the table again
        private_folder(file.parent)
        write_whole(file, msgspec.json.encode(table), durable=False, draft=f"new{os.getpid()}")
    return table


def place_of(name: str) -> str:
    """Returns the `module:attribute` of a package's command; empty if no package has a command with this
    name.

    The table is not computed here, because a starting server needs nothing else of it.
    """
    kept = _read_cache(_digest_of_declarations())
    return (commands_of_packages() if kept is None else kept.machine).get(name, "")


def _read_cache(digest: str) -> CommandTable | None:
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        kept = msgspec.json.decode((cache_folder() / _TABLE_FILE).read_bytes(), type=CommandTable)
        if kept.digest == digest:
            return kept
    return None


def line_about(command: click.Command) -> str:
    return command.get_short_help_str(_WHOLE_LENGTH)


def commands_of_packages() -> dict[str, str]:
    """Returns the commands that installed packages declare as entry points of the group
    `windlass.commands`."""
    return {entry.name: entry.value for entry in entry_points(_ENTRY_POINT_GROUP)}


def _digest_of_declarations() -> str:
    """Returns a digest of the names, sizes and modification times of the declaring files, and of the
    modification times of the folders in `sys.path`."""
    parts = [VERSION]
    for portion in sorted(windlass.__path__):
        parts.append(portion)
        for folder in (*_DECLARING_FOLDERS, *_families_folders_of_kinds(portion)):
            with suppress(FileNotFoundError), os.scandir(Path(portion) / folder) as scan:
                files = sorted((entry.name, entry.stat()) for entry in scan if entry.name.endswith(".py"))
                parts += [f"{folder}/{name} {status.st_size} {status.st_mtime_ns}" for name, status in files]
    for folder in sys.path:
        with suppress(OSError):
            parts.append(f"{folder} {Path(folder).stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _families_folders_of_kinds(portion: str) -> list[str]:
    """Returns the `families` folders of packages with their own service kinds."""
    return sorted(f"{path.parent.name}/{path.name}" for path in Path(portion).glob("*/families"))
