"""The checks of `windlass doctor`, which report problems with their remedies and change nothing.

This module checks the installation. `machine` checks the engine and the tools of the machine.
"""

from __future__ import annotations

import asyncio
import os
import platform
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import apsw
import msgspec

from windlass.base.clock import MINUTE, SECOND, stamp
from windlass.base.errors import Unavailable
from windlass.base.private import is_read_only, owner_of
from windlass.base.subprocesses import in_thread
from windlass.config import BadSetting, Settings, to_type, unknown_variables
from windlass.control.context.log_store import replaced_folder
from windlass.control.records.deployments import particulars
from windlass.control.records.sealing_keys import read_keys
from windlass.engines.findings import TIMEOUT, Finding, fail, ok, warn
from windlass.install.database import file_of, reading_snapshot
from windlass.install.key import WrongKey, check_keys, key_file, load_encryption
from windlass.install.ownership import DatabaseMismatch, examine, inventory, refusal, refuse_copy
from windlass.install.server_id import existing_owner_id
from windlass.operate.backup import log_folder
from windlass.operate.clusters import clusters
from windlass.operate.disk import disk
from windlass.operate.domain_certificates import examine_certificates
from windlass.operate.explain import OperatorError, explain_errors
from windlass.operate.first_steps import way_to_write
from windlass.operate.keys import examine_keys
from windlass.operate.machine import ports, runs
from windlass.operate.place_owners import (
    check_owners,
    examine_disk,
    examine_organizations,
    examine_sharing,
)
from windlass.operate.zone_credentials import examine_zone_credentials
from windlass.store.archive import Snapshot
from windlass.store.migrate import Changed, find_missing, migrations, newest
from windlass.store.sqlite import TooOld, check_version
from windlass.terminal.command_errors import CommandRefused

_EARLIEST_TIME = 1_780_000_000_000
"""A time before this code was written; a clock that shows an earlier time is wrong."""
_MAX_NAMED_SERVICES: Final = 5
"""Number of services that a finding lists by name."""


async def diagnose(settings: Settings) -> list[Finding]:
    return [
        _python(),
        _sqlite(),
        *_settings(),
        *await asyncio.to_thread(lambda: [*_folder(settings)]),
        *([finding async for finding in _data_directory_findings(settings)] if _may_enter(settings) else ()),
        *await asyncio.to_thread(ports, settings),
        *[finding async for finding in runs(settings)],
        *await examine_zone_credentials(settings),
    ]


async def _data_directory_findings(settings: Settings) -> AsyncIterator[Finding]:
    """Runs the checks that need access to the data directory."""
    yield _key(settings)
    async for finding in _database(settings):
        yield finding
    async for finding in _installation(settings):
        yield finding
    for finding in _logs(settings):
        yield finding
    for finding in await _clusters(settings):
        yield finding


async def _clusters(settings: Settings) -> Sequence[Finding]:
    """Checks connected clusters. Returns no finding if the database cannot be read, which `_database`
    reports."""
    try:
        with explain_errors(*_OWN_WORDS):
            return await clusters(settings)
    except (CommandRefused, TimeoutError, Unavailable, OperatorError):
        return ()


def _python() -> Finding:
    return ok("Python", f"{platform.python_version()} at {sys.executable}")


def _sqlite() -> Finding:
    version = apsw.sqlite_lib_version()
    try:
        check_version(version)
    except TooOld as error:
        return fail("SQLite", version, str(error))
    return ok("SQLite", f"{version}, which keeps what it has committed")


def _settings() -> Iterator[Finding]:
    for name in unknown_variables():
        yield warn("Settings", f"{name} is not a setting", "is it misspelled? `windlass config` lists all")


def _folder(settings: Settings) -> Iterator[Finding]:
    folder = Path(settings.data_dir).absolute()
    nearest = _nearest(settings)
    if nearest == folder and folder.is_dir() and not _may_enter(settings):
        owner = owner_of(folder)
        problem = f"{folder} cannot be read by this user, so its key, database and services were not checked"
        advice = f"run `windlass doctor` as its owner, {owner}: `sudo -u {owner} windlass doctor …`"
        yield fail("Data directory", problem, advice)
    elif not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK) or is_read_only(nearest):
        advice = f"{way_to_write(nearest)}, or choose another with --data-dir (WINDLASS_DATA_DIR)"
        yield fail("Data directory", f"{nearest} cannot be written", advice)
    elif nearest == folder:
        yield ok("Data directory", f"{folder} can be written")
    else:
        yield ok("Data directory", f"{folder} is made by the first start")
    yield disk(folder, nearest, settings.disk_reserve_bytes, settings.upload_reserve_bytes)


def _nearest(settings: Settings) -> Path:
    """Returns the data directory, or its nearest existing parent folder."""
    folder = Path(settings.data_dir).absolute()
    return next(path for path in (folder, *folder.parents) if os.path.exists(path))  # noqa: PTH110 (it never raises)


def _may_enter(settings: Settings) -> bool:
    folder = _nearest(settings)
    return os.access(folder, os.X_OK) and (
        os.access(folder, os.R_OK) or folder != Path(settings.data_dir).absolute()
    )


def _key(settings: Settings) -> Finding:
    file = key_file(settings)
    if settings.key:
        return _sound_key(settings, "given as WINDLASS_KEY or in the settings file")
    if not file.exists():
        if file_of(settings).exists():
            return fail("Key", f"{file} is missing", "bring it back, or set WINDLASS_KEY: secrets need it")
        return ok("Key", f"{file} is made by the first start")
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o077:
        return warn("Key", f"{file} is open to other users (mode {mode:04o})", f"chmod 600 {file}")
    return _sound_key(settings, f"{file}, for its owner only")


def _sound_key(settings: Settings, where: str) -> Finding:
    try:
        encryption = load_encryption(settings)
    except (BadSetting, OSError) as error:
        return fail("Key", str(error), "bring back the key of this installation")
    return ok("Key", f"{where} (fingerprint {encryption.fingerprint})")


_OWN_WORDS: Final = (CommandRefused, TimeoutError, Unavailable, BadSetting)
"""Errors for which the database check has its own messages."""


async def _database(settings: Settings) -> AsyncIterator[Finding]:
    """Checks that the database responds, and that it fits this version, key and clock."""
    try:
        with explain_errors(*_OWN_WORDS):
            async with asyncio.timeout(TIMEOUT * 2), reading_snapshot(settings) as line:
                moment = Snapshot(line)
                yield await _form(moment)
                if await moment.applied():
                    yield await _check_key(settings, moment)
                    yield await _builds(settings, moment)
                    for finding in await _owners(settings, moment):
                        yield finding
                    for finding in await _neighbours(settings, moment):
                        yield finding
                    for finding in await _certificates(settings, moment):
                        yield finding
                    yield _clock(await moment.last_change())
                    return
    except CommandRefused as error:
        yield ok("Database", str(error))
    except TimeoutError:
        yield fail("Database", "does not answer", "is it running, and reachable from here?")
    except (Unavailable, BadSetting) as error:
        yield fail("Database", str(error), "check WINDLASS_DATABASE_URL, and that PostgreSQL is running")
    except OperatorError as error:
        page = "versions" if isinstance(error.__cause__, Changed) else "missing-data"
        yield fail("Database", str(error), f"see the manual, docs/{page}.md")
    yield _clock(None)


async def _owners(settings: Settings, snapshot: Snapshot) -> Sequence[Finding]:
    """Checks the owners of places, organizations with a place of their own, and disk shares.

    Returns no findings for a database with pending migrations, because its tables may be different.
    """
    if find_missing(migrations(), await snapshot.applied()):
        return ()
    owners = await check_owners(snapshot.reads, existing_owner_id(settings), await snapshot.now())
    reads = snapshot.reads
    return (*owners, *await examine_organizations(reads), *await examine_disk(reads))


async def _neighbours(settings: Settings, snapshot: Snapshot) -> Sequence[Finding]:
    """Warns if several organizations have services that share a resource of the machine."""
    if find_missing(migrations(), await snapshot.applied()):
        return ()
    try:
        return await examine_sharing(snapshot.reads, settings)
    except BadSetting:
        return ()  # the check of the engine reports it


async def _certificates(settings: Settings, snapshot: Snapshot) -> Sequence[Finding]:
    """Checks that certificates of domains are renewed, if this installation serves HTTPS."""
    if not settings.https_port or find_missing(migrations(), await snapshot.applied()):
        return ()
    return [await examine_certificates(snapshot.reads, await snapshot.now())]


async def _installation(settings: Settings) -> AsyncIterator[Finding]:
    """Checks that the data directory, the engine and the database belong together."""
    try:
        await in_thread(refuse_copy, settings)
        with explain_errors():
            report = await examine(settings)
    except BadSetting as error:
        yield fail("Installation", str(error), "a start is refused until then")
        return
    except DatabaseMismatch as error:
        yield fail("Installation", f"{settings.data_dir} is a copy: a start is refused", str(error))
        return
    except OperatorError:
        return  # the check of the database reports it
    if report.reason:
        yield fail("Installation", f"{report.reason}: {inventory(report.found)}", refusal(settings, report))
    elif report.unseen:
        advice = (
            "start the engine, and run `windlass doctor` again: its services were not compared with the "
            "database"
        )
        yield warn("Installation", report.unseen, advice)
    elif report.mark:
        yield ok("Installation", f"{report.installation}, in data directory and database")
    else:
        yield ok("Installation", "the next start marks the data directory")
    if report.lost:
        advice = (
            "bring the volumes back, or uninstall these services and deploy them again, which starts them "
            "empty: until then they do not run"
        )
        problem = f"{len(report.lost)} services have lost their data: "
        yield fail("Volumes", problem + ", ".join(await _names(settings, report.lost)), advice)
    if report.aside:
        shown = to_type(settings, "set-aside list")
        advice = f"`{shown}` shows them; restore them, or purge them for good"
        yield warn("Set aside", f"{report.aside} services, with their data", advice)


def _logs(settings: Settings) -> Iterator[Finding]:
    if replaced_folder(log_folder(settings)).exists():
        advice = "start the server, which finishes the restore, or repeat it"
        yield warn("Logs", "a restore was interrupted while it moved log lines", advice)


async def _names(settings: Settings, services: Iterable[str]) -> list[str]:
    async with reading_snapshot(settings) as line:
        rows = [await Snapshot(line).reads.resources.get(service) for service in services]
    return [str(msgspec.json.decode(row.body)["name"]) for row in rows if row]


async def _form(snapshot: Snapshot) -> Finding:
    applied = await snapshot.applied()
    waiting = find_missing(migrations(), applied)
    if not applied:
        return ok("Database", f"{snapshot.database} answers; the first start creates the tables")
    form = f"{snapshot.database} answers, with schema {max(applied)}"
    if waiting:
        return ok("Database", f"{form}; the next start brings it to {newest()}")
    return ok("Database", f"{form}, which is up to date")


async def _check_key(settings: Settings, snapshot: Snapshot) -> Finding:
    state = await read_keys(snapshot.reads)
    try:
        encryption = load_encryption(settings)
        if state is not None:
            check_keys(encryption, state)
    except (WrongKey, BadSetting, OSError) as error:
        return fail("Secrets", "cannot be opened", str(error))
    if state is None:
        return ok("Secrets", "are not there yet")
    return await examine_keys(snapshot.reads, state, encryption)


async def _builds(settings: Settings, snapshot: Snapshot) -> Finding:
    """Warns of builds outside the data directory, which happens when the data directory was moved.

    Static sites are not checked, because the data directory has copies of their files. Neither are jobs with
    a timetable, which are built when they are due.
    """
    folder, outside = await in_thread(Path(settings.data_dir).resolve), []
    for service, _, id in await snapshot.reads.statuses.serving():
        deployment = await snapshot.reads.deployments.get(id)
        build = particulars(deployment).made if deployment else None
        if build is None or build.artifact.kind != "native" or build.artifact.static:
            continue
        is_here = Path(build.artifact.ref).is_relative_to(folder)
        if not is_here and not await snapshot.reads.timetables.get(service):
            outside.append(service)
    if not outside:
        return ok("Builds", "all are in the data directory")
    names = await _names(settings, outside[:_MAX_NAMED_SERVICES])
    shown = ", ".join(names) + (", …" if len(outside) > _MAX_NAMED_SERVICES else "")
    advice = (
        "start the server, which builds them again, as after a move of the data directory. If it runs "
        "already, their status says why it could not; servers of other machines build theirs"
    )
    return warn("Builds", f"services built in another folder than {folder}: {len(outside)} ({shown})", advice)


def _clock(newest_time: int | None) -> Finding:
    now = time.time_ns() // 1_000_000
    if now < _EARLIEST_TIME:
        return fail(
            "Clock", f"{stamp(now)} is long ago", "set the clock: tokens and certificates expire by it"
        )
    if newest_time is not None and newest_time > now + MINUTE:
        behind = f"{(newest_time - now) // SECOND} seconds behind what was recorded last"
        advice = (
            "set the clock, by NTP if you can; if it is right now, restart the server once: this warning "
            "ends with the next change"
        )
        return warn("Clock", f"{stamp(now)}, {behind}", advice)
    return ok("Clock", stamp(now))
