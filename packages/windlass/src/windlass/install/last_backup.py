"""The record of the last backup: a file in the data directory, which is included in the metrics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.atomic_files import write_whole
from windlass.config import Settings

BACKUP_FILE: Final = "last-backup"


class BackupNote(Struct, frozen=True, kw_only=True):
    at: int
    """The time of the snapshot that the backup contains."""


def write(settings: Settings, backup_note: BackupNote) -> None:
    file = Path(settings.data_dir) / BACKUP_FILE
    write_whole(file, msgspec.json.encode(backup_note) + b"\n", draft=str(os.getpid()))
    owner = file.parent.stat()
    if owner.st_uid != os.geteuid():  # the operator is root, and the server is not
        os.chown(file, owner.st_uid, owner.st_gid)


def read(settings: Settings) -> BackupNote | None:
    """Returns the record of the last backup, or None if it is missing or unreadable."""
    try:
        return msgspec.json.decode((Path(settings.data_dir) / BACKUP_FILE).read_bytes(), type=BackupNote)
    except (OSError, msgspec.MsgspecError):
        return None
