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


def write(settings: Settings, note: BackupNote) -> None:
    write_whole(
        Path(settings.data_dir) / BACKUP_FILE, msgspec.json.encode(note) + b"\n", draft=str(os.getpid())
    )


def read(settings: Settings) -> BackupNote | None:
    """Returns the record of the last backup, or None if it is missing or unreadable."""
    try:
        return msgspec.json.decode((Path(settings.data_dir) / BACKUP_FILE).read_bytes(), type=BackupNote)
    except (OSError, msgspec.MsgspecError):
        return None
