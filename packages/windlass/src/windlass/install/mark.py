"""The mark of a data directory: a file with the installation id, which the database contains too.

The mark includes the newest event of the database when it was last used with this directory. With it, a start
recognizes an older or diverged state of the same database.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from windlass.base.atomic_files import write_whole
from windlass.base.kernel import Process, current_process, is_running
from windlass.config import BadSetting, Settings
from windlass.install.server_id import home_of

if TYPE_CHECKING:
    from windlass.store import Reads

MARK_FILE: Final = "installation"


class Mark(Struct, frozen=True, kw_only=True):
    installation: str
    event: int = 0
    """Number of the newest event."""
    hash: str = ""
    """The event's hash in the hash chain; empty if the event has none."""
    database: str = ""
    """The kind of database that the data directory was used with."""
    engine: str = ""
    """The engine that ran the services."""
    folder: str = ""
    """The absolute path of the data directory on the machine where it was last used."""
    home: str = ""
    """The identity of the data directory, which a copy does not have; see `server_id.home_of`."""
    server: Process | None = None
    """The process of the server that uses the data directory; None after it was stopped."""


def file_of(settings: Settings) -> Path:
    return Path(settings.data_dir) / MARK_FILE


def read(settings: Settings) -> Mark | None:
    try:
        return msgspec.json.decode(file_of(settings).read_bytes(), type=Mark)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise BadSetting(
            f"the file {file_of(settings)} is damaged: bring back a copy of it, or remove it if this data "
            "directory belongs to this database"
        ) from error


def write(settings: Settings, database_mark: Mark) -> None:
    """Replaces the mark atomically, because several replicas may write to one data directory."""
    write_whole(file_of(settings), msgspec.json.encode(database_mark) + b"\n", draft=str(os.getpid()))


async def present(
    settings: Settings, installation: str, reads: Reads, engine: str, server: Process | None = None
) -> Mark:
    """Returns a mark for the current state of the database. `server`: the process that uses the data
    directory."""
    event, hash = await reads.events.newest()
    return Mark(
        installation=installation,
        event=event,
        hash=hash.hex() if hash else "",
        database=kind_of(settings),
        engine=engine,
        folder=_folder(settings),
        home=home_of(Path(settings.data_dir)),
        server=server,
    )


def _folder(settings: Settings) -> str:
    return str(Path(settings.data_dir).resolve())


def original_of(settings: Settings) -> Path | None:
    """Returns the data directory from which this one was copied, if it still exists.

    Returns None for PostgreSQL: data directories of servers that share a database may be copies, and each
    server has its own id.
    """
    seen = read(settings)
    if seen is None or not seen.folder or settings.database_url:
        return None
    here, there = Path(settings.data_dir), Path(seen.folder)
    try:
        if there.samefile(here):
            return None
        other = msgspec.json.decode((there / MARK_FILE).read_bytes(), type=Mark)
    except (OSError, msgspec.MsgspecError):
        return None
    return there if other.installation == seen.installation else None


def server_of_original(settings: Settings) -> Process | None:
    """Returns the running server of the data directory from which this one was copied, wherever that is now.

    Returns None for PostgreSQL, as `original_of` does.
    """
    seen = read(settings)
    if seen is None or seen.server is None or settings.database_url:
        return None
    if seen.home == home_of(Path(settings.data_dir)) or seen.server == current_process():
        return None
    return seen.server if is_running(seen.server) else None


def is_copy(settings: Settings) -> bool:
    """Returns whether a start with this data directory is refused because its original is in use."""
    with suppress(BadSetting):  # a damaged mark is reported later
        return original_of(settings) is not None or server_of_original(settings) is not None
    return False


def kind_of(settings: Settings) -> str:
    return "PostgreSQL" if settings.database_url else "SQLite"
