"""The file format of a backup: a zip with `manifest.json`, a JSON Lines file for each table, and the log
files.

The manifest contains the checksum of every other file. It is signed with the installation's key, so that a
damaged or modified backup is rejected before a restore changes anything. The backup does not contain the key.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import io
import os
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Self, cast

import msgspec
from msgspec import Struct

from windlass.base.clock import stamp
from windlass.base.encryption import Encryption, with_id
from windlass.store.archive import ArchiveTable, level, tables
from windlass.store.migrate import in_form_of_release
from windlass.store.tables.sealed import COLUMNS
from windlass.terminal.command_errors import CommandRefused

ARCHIVE_FORMAT: Final = "windlass backup 1"
MANIFEST, SEAL = "manifest.json", "manifest.seal"
LOGS_PREFIX = "logs/"
USERS_FILE = "users.json"
_BATCH_BYTES: Final = 1 << 20
"""Size of a batch of rows, in bytes of lines."""
_BLOCK = 1 << 20
_SERVICES: Final = {"status": "id", "tombstone": "service"}
"""Tables whose rows belong to services, and the column with the service's id."""
_DAMAGE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    ValueError,
    msgspec.MsgspecError,
)


class BadArchive(CommandRefused):
    """Raised if a backup file cannot be restored."""


class ArchiveFile(Struct, frozen=True, kw_only=True):
    """The manifest's entry for a file of the archive."""

    file: str
    sha256: str
    rows: int = 0


class Manifest(Struct, frozen=True, kw_only=True):
    format: str
    windlass: str
    created_at: str
    database: str
    key_fingerprint: str
    """The id of the key that seals new values. It signs the manifest."""
    migrations: dict[int, str]
    """The applied migrations, by number, with their checksums. They define the form of the tables."""
    counts: dict[str, int]
    """Number of rows, by table."""
    tables: list[ArchiveFile]
    logs: list[ArchiveFile]
    keys: tuple[str, ...] = ()
    """The ids of all keys that the backup needs; empty in backups of earlier versions, which need only
    one."""
    users: ArchiveFile | None = None
    """The file with the services' user ids on the machine."""

    @property
    def form(self) -> Mapping[int, str]:
        """The migrations of the tables, with the numbers of this version."""
        return in_form_of_release(self.migrations)

    def with_ids(self, table: ArchiveTable, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Adds the key id to sealed values, which backups from before 0.1.0 lack."""
        places = {table.columns.index(one.column) for one in COLUMNS if one.table == table.name}
        if self.form == self.migrations or not places:
            return rows
        return [
            [
                with_id(value, self.key_fingerprint) if place in places and value else value
                for place, value in enumerate(row)
            ]
            for row in rows
        ]

    @property
    def parts(self) -> list[ArchiveFile]:
        return [*self.tables, *self.logs, *([self.users] if self.users else [])]


# Writing a backup


class ArchiveWriter:
    """Streams files into a zip, and computes their manifest entries.

    Leaving the context closes the zip; the underlying file stays open.
    """

    def __init__(self, file: IO[bytes], start_position: int) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._at = stamp(start_position)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # after a failed backup; `finish` closes a complete one
            self._zip.close()

    async def table(self, table: ArchiveTable, rows: AsyncIterator[Sequence[Any]]) -> ArchiveFile:
        name, count = f"tables/{table.name}.jsonl", 0
        with self._opened(name) as file:
            async for row in rows:
                file.write(_line(table, row))
                count += 1
        return ArchiveFile(file=name, sha256=file.digest, rows=count)

    def log(self, name: str, lines: IO[bytes]) -> ArchiveFile:
        """Archives a log up to its current size. The log may grow meanwhile."""
        left = lines.seek(0, os.SEEK_END)
        lines.seek(0)
        with self._opened(LOGS_PREFIX + name) as file:
            while left > 0 and (block := lines.read(min(left, _BLOCK))):
                file.write(block)
                left -= len(block)
        return ArchiveFile(file=LOGS_PREFIX + name, sha256=file.digest)

    def users(self, user_ids: Mapping[str, int]) -> ArchiveFile:
        with self._opened(USERS_FILE) as file:
            file.write(msgspec.json.encode(user_ids))
        return ArchiveFile(file=USERS_FILE, sha256=file.digest)

    def finish(self, manifest: Manifest, encryption: Encryption) -> None:
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        for name, content in ((MANIFEST, text), (SEAL, _signature(manifest, text, encryption))):
            with self._opened(name) as file:
                file.write(content)
        self._zip.close()

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[_DigestReader]:
        about = zipfile.ZipInfo(name, _zip_time(self._at))
        about.compress_type = zipfile.ZIP_DEFLATED
        about.external_attr = 0o600 << 16
        with self._zip.open(about, "w", force_zip64=True) as file:
            yield _DigestReader(file)


class _DigestReader:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._sha256.update(data)
        self._file.write(data)

    @property
    def digest(self) -> str:
        return self._sha256.hexdigest()


def _line(table: ArchiveTable, row: Sequence[Any]) -> bytes:
    values = list(row)
    for place in table.binary:
        values[place] = _to_json(values[place])
    return msgspec.json.encode(values) + b"\n"


def _to_json(value: bytes | None) -> Any:
    """Returns bytes as text if possible, because most of them are JSON, otherwise in base64."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _from_json(value: Any) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    return None if value is None else str(value).encode()


def _zip_time(timestamp: str) -> tuple[int, int, int, int, int, int]:
    return (
        int(timestamp[:4]),
        int(timestamp[5:7]),
        int(timestamp[8:10]),
        int(timestamp[11:13]),
        int(timestamp[14:16]),
        int(timestamp[17:19]),
    )


def _signature(manifest: Manifest, text: bytes, encryption: Encryption) -> bytes:
    return encryption.signature(manifest.key_fingerprint, b"backup", text).encode()


# Reading a backup


class Archive:
    """A backup file that is open for reading. Created by `Archive.opened`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._zip = archive
        self._text = archive.read(MANIFEST)
        self.manifest = msgspec.json.decode(self._text, type=Manifest)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path) -> Iterator[Archive]:
        with contextlib.ExitStack() as stack:
            with _translated_errors(path):
                archive = cls(stack.enter_context(zipfile.ZipFile(path)))
                if archive.manifest.format != ARCHIVE_FORMAT:
                    raise BadArchive(
                        f"{path} is a {archive.manifest.format!r}, and this reads a {ARCHIVE_FORMAT!r}"
                    )
            yield archive

    def verify(self, encryption: Encryption) -> None:
        """Verifies the signature and all checksums before any content is used. Raises BadArchive."""
        with _translated_errors(Path(str(self._zip.filename))):
            if not hmac.compare_digest(
                self._zip.read(SEAL), _signature(self.manifest, self._text, encryption)
            ):
                raise BadArchive("the backup was changed after it had been made: take another one")
            for part in self.manifest.parts:
                self._verify(part)

    def _verify(self, archived_file: ArchiveFile) -> None:
        sha256 = hashlib.sha256()
        with self._zip.open(archived_file.file) as file:
            while block := file.read(_BLOCK):
                sha256.update(block)
        if sha256.hexdigest() != archived_file.sha256:
            raise BadArchive(f"{archived_file.file} in the backup is damaged: take another one")

    def batches(self, table: ArchiveTable) -> Iterator[list[Sequence[Any]]]:
        """Yields the rows of a table in batches. The batches fit into memory whatever the size of the
        rows."""
        file = f"tables/{table.name}.jsonl"
        if any(part.file == file for part in self.manifest.tables):
            with self._zip.open(file) as unpacked, io.BufferedReader(cast(io.RawIOBase, unpacked)) as lines:
                while batch := lines.readlines(_BATCH_BYTES):
                    yield [_row(table, line) for line in batch]

    def users(self) -> dict[str, int]:
        """Returns the user id of each service on the machine; empty for backups of earlier versions."""
        if self.manifest.users is None:
            return {}
        return msgspec.json.decode(self._zip.read(self.manifest.users.file), type=dict[str, int])

    def services(self) -> set[str]:
        """Returns the ids of all services in the backup, including deleted services."""
        values: set[str] = set()
        for table in tables(level(self.manifest.form)):
            if column := _SERVICES.get(table.name):
                place = table.columns.index(column)
                values |= {row[place] for rows in self.batches(table) for row in rows}
        return values

    def extract_logs(self, folder: Path) -> None:
        for part in self.manifest.logs:
            inside = PurePosixPath(part.file).relative_to(PurePosixPath(LOGS_PREFIX))
            if ".." in inside.parts or inside.is_absolute():
                raise BadArchive(f"{part.file} does not belong into a backup")
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._zip.open(part.file) as file, target.open("wb") as written:
                while block := file.read(_BLOCK):
                    written.write(block)


def _row(table: ArchiveTable, line: bytes) -> Sequence[Any]:
    values = msgspec.json.decode(line)
    for place in table.binary:
        values[place] = _from_json(values[place])
    return tuple(values)


@contextlib.contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise BadArchive(f"there is no file {path}") from error
    except OSError as error:
        raise BadArchive(f"{path} cannot be read: {error.strerror or error}") from error
    except _DAMAGE_ERRORS as error:
        raise BadArchive(f"{path} is no backup of Windlass, or a damaged one: {error}") from error
