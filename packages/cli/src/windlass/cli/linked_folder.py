"""`.windlass.toml`: links a folder to a service, so that commands need no names. Contains no secrets."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from windlass.base.atomic_files import write_whole
from windlass.base.private import owner_of
from windlass.base.toml import parse_toml
from windlass.cli.contexts import normal_url
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.tables import plain

LINK_FILE: Final = ".windlass.toml"
_MAX_FILE_SIZE: Final = 64 * 1024
_FILE_COMMENT: Final = (
    "# Links this folder with a service of Windlass: `windlass up` deploys it. No secrets belong here.\n"
)


class FolderLink(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The names of the linked service, and the address of its server."""

    url: str = ""
    project: str
    environment: str
    application: str

    @property
    def place(self) -> str:
        """The path of the environment."""
        return f"{self.project}/{self.environment}"

    @property
    def path(self) -> str:
        return f"{self.place}/{self.application}"


class LinkedFolder(Struct, frozen=True):
    folder: Path
    link: FolderLink


def current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise CommandFailed("go to another folder: this one was removed") from error


def find_linked_folder(start: Path) -> LinkedFolder | None:
    """Returns the nearest linked folder: the start folder or a parent folder, up to the root of the
    repository."""
    for folder in _folders_to_search(start):
        if (link := _read(folder / LINK_FILE)) is not None:
            return LinkedFolder(folder, link)
    return None


def write_link(folder: Path, link: FolderLink) -> Path:
    """Writes the link file. Returns its path."""
    lines = [f"{name} = {_toml_text(value)}" for name, value in msgspec.to_builtins(link).items()]
    file = folder / LINK_FILE
    content = (_FILE_COMMENT + "\n".join(lines) + "\n").encode()
    try:
        write_whole(file, content, durable=False, draft=f"new{os.getpid()}")
        file.chmod(0o644)  # readable for everyone who works in this folder, because it contains no secrets
    except OSError as error:
        raise CommandFailed(f"let this user write {file}: {error.strerror}") from error
    return file


def remove_link(folder: Path) -> None:
    (folder / LINK_FILE).unlink(missing_ok=True)


def _folders_to_search(start: Path) -> Iterator[Path]:
    """Yields the folders that may be linked. Stops at a parent folder that belongs to another user."""
    me = os.geteuid()
    for folder in (start, *start.parents):
        if folder != start and _owner(folder) != me:
            return
        yield folder
        if (folder / ".git").exists():
            return


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:  # a folder that this user may not access
        return None


def _read(file: Path) -> FolderLink | None:
    """Returns the link in a file. None if the file is missing or belongs to another user."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CommandFailed(f"let this user read {file}: {error.strerror}") from error
    with os.fdopen(opened, "rb") as stream:
        status = os.fstat(opened)
        if status.st_uid != os.geteuid():
            click.echo(f"{file} is ignored: it belongs to the user {owner_of(file)}.", err=True)
            return None
        if not stat.S_ISREG(status.st_mode):
            raise CommandFailed(f"move {file} away: it is not a file")
        return _parse(file, stream.read(_MAX_FILE_SIZE))


def _parse(file: Path, content: bytes) -> FolderLink:
    try:
        fields: dict[str, Any] = parse_toml(content.decode())
        link = msgspec.convert(fields, FolderLink)
    except (ValueError, msgspec.ValidationError) as error:
        raise CommandFailed(
            f"fix {file}, or write it again with `windlass link`: {plain(str(error))}"
        ) from error
    if link.url:
        normal_url(link.url)
    return link


def _toml_text(value: str) -> str:
    # JSON strings are valid TOML strings, except for one character that JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
