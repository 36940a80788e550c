"""The first steps of a start, before the modules of the server are imported.

The gateway is a separate process. Its imports take half as long as the server's, so both start concurrently.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from windlass.base.private import is_read_only, private_folder
from windlass.config import Settings
from windlass.gateway.files import folder_of
from windlass.gateway.starting import start_missing_gateway
from windlass.install.mark import is_copy
from windlass.terminal.command_errors import CommandRefused


def begin(settings: Settings) -> int:
    """Starts the gateway with its stored routes if it is not running. Returns its process id, or 0.

    The gateway keeps running if the start of the server fails. It ends by itself if it has nothing to serve.
    None is started for a copy of a data directory: it would take the ports and visitors of the original.
    """
    check_folder(settings)
    if is_copy(settings):
        return 0
    with suppress(OSError):  # for example a full disk: the server starts the gateway later
        return start_missing_gateway(private_folder(folder_of(settings.data_dir)))
    return 0


def check_folder(settings: Settings) -> None:
    """Creates the data directory if it is missing. Raises CommandRefused unless it can be read and
    written."""
    folder = Path(settings.data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CommandRefused(
            f"the data directory {folder} cannot be made: {error.strerror}: choose another with --data-dir"
        ) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise CommandRefused(
            f"the data directory {folder} cannot be read and written by this user: {way_to_write(folder)}, "
            "or choose another with --data-dir"
        )


def way_to_write(folder: Path) -> str:
    """Returns advice for a folder that cannot be written."""
    if is_read_only(folder):
        return "mount its disk writable, as it is read-only now (a damaged one becomes that: see `dmesg`)"
    return "change its permissions"
