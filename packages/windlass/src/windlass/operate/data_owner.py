"""Checks that a command runs as the user to whom the data directory belongs.

Files that root makes in the data directory of another user cannot be read by that user's server.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.base.private import owner_of
from windlass.config import Settings
from windlass.terminal.command_errors import CommandRefused


def check_data_owner(settings: Settings, command: str) -> None:
    """Raises CommandRefused if the data directory belongs to another user. `command`: the words after
    `windlass`."""
    folder = Path(settings.data_dir).absolute()
    if folder.is_dir() and folder.stat().st_uid != os.geteuid():
        owner = owner_of(folder)
        raise CommandRefused(
            f"run this as the owner of {folder}, {owner}: `sudo -u {owner} windlass {command} …`, as the "
            "server could not read files of another user"
        )
