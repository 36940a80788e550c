"""Stores which folder links this user has written or confirmed, one file per folder.

A cloned repository may contain a link that names any service of this user. Without confirmation, a stranger's
code could replace that service and run with its secrets.
"""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec

from windlass.base.atomic_files import write_whole
from windlass.base.private import private_folder
from windlass.cli.linked_folder import LINK_FILE, FolderLink, LinkedFolder
from windlass.cli.user_folders import settings_folder
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.tables import plain

_LINK_FOLDER: Final = "links"


def note_link(folder: Path, link: FolderLink) -> None:
    """Records that this user has confirmed the link. If writing fails, the user is asked again next time."""
    file = _confirmation_file(folder)
    with suppress(OSError):
        private_folder(file.parent)
        write_whole(file, _confirmation_content(folder, link), durable=False)


def confirm_link(link: LinkedFolder, server: str, *, sure: bool) -> None:
    """Asks for confirmation of a link that this user has neither written nor confirmed. Raises InvalidUsage
    without a terminal."""
    if sure or _is_noted(link):
        return
    where = f"{plain(link.link.path)} on {plain(server)}"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidUsage(
            f"give --yes to deploy {link.folder} to {where}: the {LINK_FILE} in it was neither written nor "
            "confirmed by this user"
        )
    click.echo(
        f"The {LINK_FILE} of {link.folder} came with its files: you have not linked this folder.", err=True
    )
    click.confirm(f"Deploy these files to {where}?", abort=True, err=True)
    note_link(link.folder, link.link)


def _is_noted(link: LinkedFolder) -> bool:
    try:
        return _confirmation_file(link.folder).read_bytes() == _confirmation_content(link.folder, link.link)
    except OSError:
        return False


def _confirmation_file(folder: Path) -> Path:
    return settings_folder() / _LINK_FOLDER / hashlib.sha256(bytes(folder.resolve())).hexdigest()


def _confirmation_content(folder: Path, link: FolderLink) -> bytes:
    return bytes(folder.resolve()) + b"\n" + msgspec.json.encode(link) + b"\n"
