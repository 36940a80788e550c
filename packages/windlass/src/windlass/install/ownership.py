"""Checks that the data directory and the engine belong to the database of the settings.

A start calls this module before it starts, writes or deletes anything. The checks change nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from windlass.base.clock import SystemClock
from windlass.builders.builder import BuildError, BuilderUnavailable
from windlass.config import Settings, to_type
from windlass.control.background.service_data import INSTALLATION_KEY, ServiceDataStores, records
from windlass.control.context.log_store import LOGS_FOLDER, Logs
from windlass.control.records.stored_clusters import place_of
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import StoredData
from windlass.families.cluster import Cluster
from windlass.install import mark
from windlass.install.database import file_of, reading_snapshot
from windlass.install.mark import Mark
from windlass.install.parts import Parts, real_parts
from windlass.routers.sites.store import SITES_FOLDER, SiteStore
from windlass.store.archive import Snapshot, level

_log = logging.getLogger(__name__)

ENGINE_TIMEOUT: Final = 5.0
"""Seconds that an engine may take to respond."""
_MAX_NAMED_SERVICES: Final = 5

PartsFor = Callable[[str], Awaitable[Parts]]
"""A function that returns the parts of the installation with a given id."""


class DatabaseMismatch(Exception):
    """Raised if the data directory or the engine belongs to another database, or to a newer state of this
    one."""


class OwnershipReport(Struct, kw_only=True):
    """The services that were found on this machine, compared with the database."""

    mark: Mark | None
    """The mark of the data directory."""
    installation: str = ""
    """The installation id in the database; empty if the database was never used."""
    event: int = 0
    """Number of the newest event in the database."""
    reason: str = ""
    """The reason why the data directory and the database do not belong together; empty if they do."""
    unknown: dict[str, dict[str, StoredData]] = field(default_factory=dict)
    """Services that are neither present nor deleted in the database, by the label (installation id) of their
    containers."""
    is_lost: bool = False
    """Whether programs are running whose files are missing from the data directory."""
    aside: int = 0
    """Number of services that were set aside earlier."""
    lost: list[str] = field(default_factory=list)
    """Services that should have more volumes with data than were found."""
    unseen: str = ""
    """The reason why the engine could not be examined; empty if it was."""

    @property
    def found(self) -> dict[str, StoredData]:
        return {service: kept for services in self.unknown.values() for service, kept in services.items()}


class DatabaseState(Struct, frozen=True):
    """The part of a database's state that is compared with the data directory."""

    installation: str = ""
    event: int = 0
    hash: str = ""
    """The hash, in the database, of the newest event that the data directory has seen."""
    present: frozenset[str] = frozenset()
    """Services that exist in the database."""
    deleted: frozenset[str] = frozenset()
    volumes: Mapping[str, Collection[str]] = {}
    """Names of volumes with data, by service."""


async def examine(settings: Settings, create_parts: PartsFor | None = None) -> OwnershipReport:
    """Compares the services found on this machine with the database.

    `create_parts`: returns the parts of a server; by default, those of the settings.
    """
    # The order of reading matters, because everything may grow meanwhile: first the mark and the services
    # found, then the database, so that the database never seems to be behind.
    seen = mark.read(settings)
    database = await read_state(settings, seen)
    report = OwnershipReport(mark=seen, installation=database.installation, event=database.event)
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT):
            await _count(settings, report, database, create_parts or _real_parts_for(settings))
    except (EngineError, BuildError) as error:  # including an unavailable engine
        report.unseen = str(error)
    except TimeoutError:
        report.unseen = "the engine did not list what runs here in time"
    report.reason = _reason(settings, report, database)
    return report


async def check_start(settings: Settings, create_parts: PartsFor, *, adopt: bool) -> OwnershipReport:
    """Raises DatabaseMismatch if the data directory and the database do not belong together, unless `adopt`
    is set. Raises it in any case if the data directory is a copy and its original still exists."""
    refuse_copy(settings)
    report = await examine(settings, create_parts)
    if report.reason and not adopt:
        raise DatabaseMismatch(refusal(settings, report))
    if report.lost:
        _log.error(
            "volumes that hold data of services are not there: `windlass doctor` says what to do",
            extra={"services": report.lost},
        )
    return report


async def check(settings: Settings) -> None:
    """Raises DatabaseMismatch unless the data directory belongs to the database. Used by commands that run
    beside the server."""
    refuse_copy(settings)
    seen = mark.read(settings)
    report = OwnershipReport(mark=seen)
    report.reason = _reason(settings, report, await read_state(settings, seen)) if seen else ""
    if report.reason:
        raise DatabaseMismatch(refusal(settings, await examine(settings)))


def refuse_copy(settings: Settings) -> None:
    """Raises DatabaseMismatch if the data directory is a copy and its original still exists, or a server runs
    with the original under another name. Both would control the same processes and containers."""
    if server := mark.server_of_original(settings):
        raise DatabaseMismatch(
            f"stop the server of the process {server.pid} first, or restore a backup into another folder to "
            f"have both: {settings.data_dir} is a copy of its data directory, and would control the services "
            "that run from there"
        )
    if original := mark.original_of(settings):
        raise DatabaseMismatch(
            f"rename or remove {original} if it is not needed any more, or restore a backup into another "
            f"folder to have both: {settings.data_dir} is a copy of it, and would control the services that "
            "run from there"
        )


def _real_parts_for(settings: Settings) -> PartsFor:
    return partial(real_parts, settings, SystemClock())


async def without_record(settings: Settings, recorded: Container[str]) -> dict[str, StoredData]:
    """Returns the services found on this machine that are not in `recorded`. An unreachable engine counts as
    empty."""
    seen = mark.read(settings)
    report = OwnershipReport(mark=seen)
    database = await read_state(settings, seen)
    try:
        async with asyncio.timeout(ENGINE_TIMEOUT):
            await _collect_services(settings, report, database, _real_parts_for(settings))
    except (EngineUnavailable, BuilderUnavailable, TimeoutError):
        pass
    return _exclude(report.found, recorded)


async def read_state(settings: Settings, database_mark: Mark | None) -> DatabaseState:
    """Reads the state of the database. An empty or missing file is a database that was never used."""
    if not settings.database_url and (not file_of(settings).exists() or not file_of(settings).stat().st_size):
        return DatabaseState()
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        id = await moment.fact(INSTALLATION_KEY) if level(await moment.applied()) else None
        if id is None:
            return DatabaseState()
        reads = moment.reads
        present, deleted = frozenset(await reads.statuses.services()), frozenset(await moment.deleted())
        event, _ = await reads.events.newest()
        hash = await reads.events.hash(database_mark.event) if database_mark else None
        return DatabaseState(
            id.decode(),
            event=event,
            hash=hash.hex() if hash else "",
            present=present,
            deleted=deleted,
            volumes=await _volumes_here(settings, moment),
        )


async def _volumes_here(settings: Settings, snapshot: Snapshot) -> Mapping[str, Collection[str]]:
    """Returns the volumes of the services that run on this machine's engine."""
    volumes, reads = await snapshot.volumes(), snapshot.reads
    for id in await reads.statuses.clusters():
        row = await reads.resources.get(id)
        if row is not None and place_of(row.read(Cluster)) != settings.place:
            for service in await reads.statuses.on_cluster(id):
                volumes.pop(service, None)
    return volumes


async def _count(
    settings: Settings, report: OwnershipReport, database: DatabaseState, create_parts: PartsFor
) -> None:
    await _collect_services(settings, report, database, create_parts)
    report.lost = _without_volumes(settings, report, database)
    if report.found:
        database = await read_state(settings, report.mark)
    recorded = database.present | database.deleted
    report.unknown = {
        label: rest for label, services in report.unknown.items() if (rest := _exclude(services, recorded))
    }


async def _collect_services(
    settings: Settings, report: OwnershipReport, database: DatabaseState, create_parts: PartsFor
) -> None:
    """Collects all services found on this machine by label, including services that are in the database."""
    for label in _labels(settings, report, database):
        async with holdings(settings, create_parts, label) as held:
            report.aside = len(held.records())
            services = await held.services()
            report.unknown[label] = _exclude(services, report.found)
            report.is_lost = report.is_lost or any(kept.is_lost for kept in services.values())


def _without_volumes(settings: Settings, report: OwnershipReport, database: DatabaseState) -> list[str]:
    """Returns the services with fewer volumes than the database records.

    Comparing numbers is enough, because a single volume is never deleted alone. Services that were set aside
    still have their volumes.
    """
    here, aside = report.found, records(Path(settings.data_dir))
    return sorted(
        service
        for service, names in database.volumes.items()
        if service not in aside and len(names) > here.get(service, StoredData()).volumes
    )


def _exclude(services: Mapping[str, StoredData], other_services: Container[str]) -> dict[str, StoredData]:
    return {service: kept for service, kept in services.items() if service not in other_services}


def _labels(settings: Settings, report: OwnershipReport, database: DatabaseState) -> list[str]:
    """Returns the labels that containers of this installation may have, the current label first."""
    labels = [database.installation, report.mark.installation if report.mark else ""]
    return [*dict.fromkeys(label for label in labels if label)] or ["none"]


@asynccontextmanager
async def holdings(
    settings: Settings, create_parts: PartsFor, installation: str
) -> AsyncIterator[ServiceDataStores]:
    """Opens the stored data of an installation, without a running server."""
    parts, data = await create_parts(installation), Path(settings.data_dir)
    logs, sites = Logs(data / LOGS_FOLDER, settings.log_retention_bytes), SiteStore(data / SITES_FOLDER)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(parts.engine.stop)
        closing.push_async_callback(parts.builder.stop)
        closing.callback(logs.close)
        yield ServiceDataStores(
            parts.engine,
            parts.builder,
            parts.servers,
            data,
            shared=(logs, sites),
        )


# Error messages


def _reason(settings: Settings, report: OwnershipReport, database: DatabaseState) -> str:
    place = _database_text(settings)
    if report.is_lost and report.mark is None:
        return f"programs run from {settings.data_dir}, and their files are not in it"
    if not database.installation:
        if report.mark is None and not report.found:
            return ""
        return f"{place} is empty, and {settings.data_dir} belongs to an installation that was used before"
    if report.mark is None:
        return f"{place} does not know all that is here" if report.found else ""
    if report.mark.installation != database.installation:
        return f"{place} belongs to another installation than {settings.data_dir}"
    if report.mark.event > database.event:
        return (
            f"{place} is older than {settings.data_dir}: its newest event is number {database.event}, and "
            f"number {report.mark.event} was seen here"
        )
    if report.mark.hash and database.hash and report.mark.hash != database.hash:
        return f"{place} has a different history than when {settings.data_dir} was last used with it"
    return f"{place} does not know all that is here" if report.found else ""


def _database_text(settings: Settings) -> str:
    if settings.database_url:
        return "the database that WINDLASS_DATABASE_URL names"
    return f"the database {file_of(settings)}"


def refusal(settings: Settings, report: OwnershipReport) -> str:
    if report.is_lost and report.mark is None:
        return (
            f"mount the disk of {settings.data_dir}, and start again: {report.reason}. Nothing was begun or "
            "changed. Where they are lost for good, continue without them: "
            f"`{to_type(settings, 'serve --adopt')}`, which ends those programs"
        )
    return (
        f"start with the database that belongs to {settings.data_dir} ({_hint(settings, report)}), or go on "
        f"with this one: `{to_type(settings, 'serve --adopt')}`. Nothing was begun or changed: "
        f"{report.reason}. Without a record in it: {inventory(report.found)}. With --adopt these are set "
        "aside, which ends them and keeps what they stored; see `windlass set-aside --help`"
    )


def _hint(settings: Settings, report: OwnershipReport) -> str:
    used = report.mark.database if report.mark else mark.kind_of(settings)
    if used != mark.kind_of(settings):
        if settings.database_url:
            return f"it was used with {file_of(settings)}: start without WINDLASS_DATABASE_URL"
        return "it was used with PostgreSQL: set WINDLASS_DATABASE_URL"
    if settings.database_url:
        return "look at WINDLASS_DATABASE_URL"
    return f"bring back {file_of(settings)}, or restore a backup"


def inventory(services: Mapping[str, StoredData]) -> str:
    if not services:
        return "no service"
    names = sorted(kept.name or service for service, kept in services.items())
    shown = ", ".join(names[:_MAX_NAMED_SERVICES]) + (", …" if len(names) > _MAX_NAMED_SERVICES else "")
    instances, volumes = (
        sum(getattr(kept, what) for kept in services.values()) for what in ("instances", "volumes")
    )
    return f"services {len(services)} ({shown}), with instances {instances} and volumes {volumes}"
