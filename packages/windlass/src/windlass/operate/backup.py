"""Creates a backup of an installation while it runs, and restores an installation from a backup.

The format does not depend on the database: a backup from SQLite can be restored into PostgreSQL, and vice
versa.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from windlass.base.atomic_files import move, sync
from windlass.base.cleanup import on_failure
from windlass.base.clock import Clock, SystemClock, stamp
from windlass.base.encryption import Encryption
from windlass.base.filelock import try_lock
from windlass.base.isolation.users import Users, range_of
from windlass.base.log import log
from windlass.base.subprocesses import in_thread
from windlass.base.version import VERSION
from windlass.config import Settings
from windlass.control.context.log_store import LOGS_FOLDER, recover, replaced_folder, restored_folder
from windlass.control.context.upload_files import UPLOADS_FOLDER
from windlass.control.records.sealing_keys import read_keys
from windlass.engines.workload import StoredData
from windlass.install import last_backup, mark
from windlass.install.database import reading_snapshot, replacing
from windlass.install.engines import forget_removals
from windlass.install.key import WrongKey, check_key, check_keys, key_file, load_encryption
from windlass.install.last_backup import BackupNote
from windlass.install.ownership import check, inventory, read_state, without_record
from windlass.operate.archive import ARCHIVE_FORMAT, Archive, ArchiveFile, ArchiveWriter, Manifest
from windlass.sources.push.repositories import REPOSITORIES_FOLDER
from windlass.store.archive import Refill, Snapshot
from windlass.store.migrate import migrations
from windlass.terminal.command_errors import CommandRefused

_log = log("backup")
AFTER_RESTORE: Final = (
    "People sign in to the console again. API tokens, members, roles and invitations are those of that time, "
    "too: remove again what was removed since."
)
_OPEN_OURS = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_BEGINNINGS: Final = (b"", b"PK")
"""The first bytes of a backup, which is a zip archive; none if it was killed before them."""
_PARTIAL_PATTERN: Final = re.compile(r"\..+\.[0-9a-f]{8}\.partial")


async def backup(settings: Settings, file: Path, clock: Clock | None = None) -> Manifest:
    """Writes a snapshot of the installation to `file`. A failed backup leaves no file."""
    encryption = load_encryption(settings)
    await check(settings)
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        keys = await read_keys(moment.reads) if await moment.applied() else None
        if keys is None:
            raise CommandRefused("there is nothing to back up: this installation was never started")
        check_keys(encryption, keys)
        now = (clock or SystemClock()).now()
        with _write_then_rename(file) as written, ArchiveWriter(written, now) as writer:
            tables = {
                table.name: await writer.table(table, moment.rows(table)) for table in await moment.tables()
            }
            manifest = Manifest(
                format=ARCHIVE_FORMAT,
                windlass=VERSION,
                created_at=stamp(now),
                database=moment.database,
                key_fingerprint=keys.current,
                keys=keys.needed,
                migrations=await moment.applied(),
                counts={name: part.rows for name, part in tables.items()},
                tables=list(tables.values()),
                logs=list(_logs(writer, log_folder(settings))),
                users=writer.users(_users(settings).all()),
            )
            writer.finish(manifest, encryption)
    _note(settings, BackupNote(at=now))
    return manifest


def to_keep_beside(settings: Settings, backup: Manifest) -> Iterator[str]:
    """Yields messages about data that a restore needs and the backup does not contain."""
    where = "WINDLASS_KEY" if settings.key else key_file(settings)
    yield (
        f"The key ({backup.key_fingerprint}) is not in it. Keep {where} in another place: without it, this "
        f"backup cannot be restored."
    )
    yield "Volumes and databases of services are not in it: copy them, too, as docs/backup.md says."
    uploads = Path(settings.data_dir) / UPLOADS_FOLDER
    if any(uploads.glob("*/*")):
        yield f"Copy the folder {uploads}, too: uploaded folders are not in it."
    repositories = Path(settings.data_dir) / REPOSITORIES_FOLDER
    if any(repositories.glob("*/HEAD")):
        yield f"Copy the folder {repositories}, too: what was pushed is not in it."


def _note(settings: Settings, backup_note: BackupNote) -> None:
    """Records the backup for metrics. A failure is only logged, because the backup itself is complete."""
    try:
        last_backup.write(settings, backup_note)
    except OSError as error:
        _log.warning("metrics will not show this backup", extra={"error": str(error)})


async def restore(
    settings: Settings,
    file: Path,
    *,
    force: bool,
    report_progress: Callable[[str], None] = lambda message: None,
) -> Manifest:
    """Replaces the installation by a backup, in one transaction. The backup is verified before anything
    changes.

    `report_progress` is called with messages for the operator before the change.
    """
    with Archive.opened(file) as archive:
        manifest = archive.manifest
        encryption = _encryption_of(settings, manifest)
        _check_age(manifest)
        folder = Path(settings.data_dir)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # noqa: ASYNC240 (nothing else runs in this process)
        async with replacing(settings) as line:
            refill = Refill(line)
            archive.verify(encryption)
            orphans = await without_record(settings, archive.services())
            if await refill.occupied() and not force:
                raise CommandRefused(
                    f"this installation is not empty: --force replaces all that is in it{_losses(orphans)}"
                )
            if orphans:
                report_progress(
                    f"Services without a record in this backup stay as they are{_losses(orphans)}"
                )
            with _logs_beside(settings, archive, orphans) as put_logs:
                # The records are deleted before the commit, when no server runs whose late calls they would
                # reject.
                await in_thread(forget_removals, settings)
                await _refill(settings, archive, refill)
                put_logs()
    if not orphans:
        await _mark(settings)
    return manifest


async def _refill(settings: Settings, archive: Archive, refill: Refill) -> None:
    """Replaces all tables of the database with the tables of a backup."""
    for table in await refill.clear(archive.manifest.form):
        for rows in archive.batches(table):
            await refill.fill(table, archive.manifest.with_ids(table, rows))
    # User ids are recorded before the commit: recording an unused id is harmless, assigning an id twice is
    # not.
    if users := archive.users():
        await in_thread(_users(settings).merge, users)
    await refill.finish(archive.manifest.form)


async def _mark(settings: Settings) -> None:
    """Updates the data directory's mark to the restored state, if the mark belongs to this installation."""
    seen = mark.read(settings)
    if seen and (await read_state(settings, seen)).installation == seen.installation:
        async with reading_snapshot(settings) as line:
            reads = Snapshot(line).reads
            mark.write(settings, await mark.present(settings, seen.installation, reads, seen.engine))


def _losses(orphans: Mapping[str, StoredData]) -> str:
    return f"; without a record then: {inventory(orphans)}" if orphans else ""


def _users(settings: Settings) -> Users:
    return Users(Path(settings.data_dir), range_of(settings.isolation_users))


def log_folder(settings: Settings) -> Path:
    return Path(settings.data_dir) / LOGS_FOLDER


def _encryption_of(settings: Settings, manifest: Manifest) -> Encryption:
    """Loads the keys, and checks that they include all keys of the backup, which does not contain them."""
    if not settings.key and not key_file(settings).exists():
        raise WrongKey(
            f"this backup was sealed with the key {manifest.key_fingerprint}, and there is no key here: put "
            f"the file `key` of that installation at {key_file(settings)}, or set WINDLASS_KEY"
        )
    encryption = load_encryption(settings)
    for id in (manifest.key_fingerprint, *manifest.keys):
        check_key(encryption, id, "this backup")
    return encryption


def _check_age(manifest: Manifest) -> None:
    later = manifest.form.keys() - {migration.number for migration in migrations()}
    if later:
        raise CommandRefused(
            f"this backup was made by Windlass {manifest.windlass}, and this is {VERSION}, which is "
            "older: install that version or a later one"
        )
    if manifest.form != manifest.migrations and len(manifest.keys) > 1:
        raise CommandRefused(
            "finish the replacement of the key where this backup was made (`windlass key rotate`), and make "
            "another backup there: this one needs several keys"
        )


def _logs(writer: ArchiveWriter, folder: Path) -> Iterator[ArchiveFile]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with contextlib.suppress(FileNotFoundError), path.open("rb") as lines:  # it may be deleted meanwhile
            yield writer.log(path.relative_to(folder).as_posix(), lines)


@contextlib.contextmanager
def _write_then_rename(file: Path) -> Iterator[IO[bytes]]:
    """Opens a temporary file for writing, and renames it to `file` after it was written to the disk
    completely."""
    _remove_partial_files(file.absolute().parent)
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}.partial")
    try:
        with os.fdopen(os.open(partial, _OPEN_OURS, 0o600), "wb") as written:
            try_lock(written.fileno())
            yield written
            written.flush()
            os.fsync(written.fileno())
        partial.replace(file)
        sync(file.parent)
    finally:
        partial.unlink(missing_ok=True)


def _remove_partial_files(folder: Path) -> None:
    """Removes what killed backups have left in a folder. The kernel released their locks."""
    for left in folder.glob(".*.partial"):
        if _PARTIAL_PATTERN.fullmatch(left.name):
            with contextlib.suppress(OSError), left.open("rb") as file:
                if file.read(2) in _BEGINNINGS and try_lock(file.fileno()):
                    left.unlink()


@contextlib.contextmanager
def _logs_beside(
    settings: Settings, archive: Archive, orphans: Iterable[str]
) -> Iterator[Callable[[], None]]:
    """Unpacks the backup's logs into a folder beside the current logs.

    Yields a function that replaces the current logs with the unpacked logs. The present logs of `orphans` are
    kept.
    """
    folder = log_folder(settings)
    fresh, stale = restored_folder(folder), replaced_folder(folder)

    def put() -> None:
        if folder.exists():
            folder.rename(stale)
        fresh.rename(folder)
        for service in orphans:
            move(stale / service, folder / service)
        sync(folder.parent)

    recover(folder)
    with on_failure(lambda: recover(folder)):
        fresh.mkdir(mode=0o700)
        archive.extract_logs(fresh)
        yield put
    for done in (fresh, stale):
        shutil.rmtree(done, ignore_errors=True)
