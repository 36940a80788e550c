"""The id of a server as the owner of its place. It consists of a data directory's id and a machine's id."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.atomic_files import sync, write_whole
from windlass.base.ids import new_id
from windlass.config import Settings

SERVER_ID_FILE: Final = "server"
_MACHINE_ID_FILE: Final = Path("/etc/machine-id")
_BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")


def owner_id(settings: Settings) -> str:
    """Returns the owner id of the server of this data directory.

    A copy of the directory on another machine has another owner id, because its services run on the first
    machine.
    """
    return f"{_folder_id(Path(settings.data_dir) / SERVER_ID_FILE)}@{_machine_id()}"


def existing_owner_id(settings: Settings) -> str:
    """Returns the owner id, or an empty string if the data directory has none yet. Writes nothing."""
    file = Path(settings.data_dir) / SERVER_ID_FILE
    return owner_id(settings) if file.exists() else ""


def home_of(folder: Path) -> str:
    """Returns an identity of the data directory that only servers sharing this very folder have in common.

    A copy of the folder has another identity, even on a copy of the machine. Empty before the first start.
    """
    if not folder.exists():
        return ""
    about = folder.stat()
    return f"{_read(_BOOT_ID_FILE)}:{about.st_dev}:{about.st_ino}"


def _folder_id(file: Path) -> str:
    """Returns the data directory's id. The first server to call this creates it."""
    with suppress(FileNotFoundError):
        return file.read_text().strip()
    draft = file.with_name(f"{SERVER_ID_FILE}.{os.getpid()}")
    write_whole(draft, f"{new_id()}\n".encode())
    with suppress(FileExistsError):
        os.link(draft, file)
    draft.unlink()
    sync(file.parent)
    return file.read_text().strip()


def _machine_id() -> str:
    """Returns the machine's id; empty in containers, which have no permanent id."""
    return _read(_MACHINE_ID_FILE)


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text().strip()
    return ""
