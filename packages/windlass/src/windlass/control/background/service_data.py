"""Service data outside the database: in the engine, builds, database servers and logs.

Data is erased only if the database contains a deletion record of its service. If a service is unknown to the
database, its instances are ended and its data is set aside: moved to `set-aside/`, or kept in the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.atomic_files import write_whole
from windlass.base.folder_removal import erase
from windlass.base.log import log
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import Builder, BuilderUnavailable
from windlass.control.background.all_places import OtherDatabase
from windlass.control.context.call import ITSELF
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.context.places import LOCAL_ID
from windlass.control.deploying.restored_database import report_unknown_services
from windlass.control.people.organizations import NO_PARENT
from windlass.control.records.recording import About, emit
from windlass.core.access import SYSTEM
from windlass.core.words.events import Event
from windlass.engines.engine import Engine, EngineUnavailable
from windlass.engines.servers import Servers
from windlass.engines.workload import StoredData
from windlass.families.cluster import cluster
from windlass.families.organization import organization
from windlass.store import Tx

RECORD_FILE: Final = "record.json"
SET_ASIDE: Final = "set-aside"
"""The name of the folder for services that were set aside, in the data directory."""
INSTALLATION_KEY: Final = "installation"
"""The key under which the database stores the installation's id."""
MAX_SET_ASIDE: Final = 20
"""The largest number of services that are set aside together at the engine of a cluster."""
_MAX_NAME_LENGTH: Final = 63
_log = log("holdings")


class SweptStore(Protocol):
    """A component whose data is erased after the deletion of its service."""

    async def services(self) -> Collection[str]: ...

    async def sweep(self, deleted_services: Collection[str]) -> None: ...


class ServiceDataStore(SweptStore, Protocol):
    """A component that stores data of services; `engines.engine` documents the methods."""

    async def set_aside(self, service: str, destination: Path) -> None: ...

    async def put_back(self, service: str, source: Path) -> None: ...


class SetAside(Struct, frozen=True, kw_only=True):
    """The record of a service that was set aside."""

    service: str
    name: str
    installation: str
    """The id of the installation. An engine may label its data with this id."""
    at: int
    why: str
    instances: int = 0
    volumes: int = 0
    engine: str = ""
    """The engine that ran the service. Only this engine can put the service back or erase it."""
    is_whole: bool = True
    """Indicates whether all data was moved. False during the move and after an interruption, when some data
    may still be in place."""
    place: str = LOCAL_ID
    """The cluster whose engine ran the service, or `LOCAL_ID`."""
    is_known: bool = True
    """Indicates whether this version can read the record. If not, the service is neither put back nor
    erased."""


class Occupied(Exception):
    """The service has new data in place, which is not overwritten."""


class OtherVersion(Exception):
    """Raised if another version of Windlass has set the service aside."""


class OtherEngine(Exception):
    """The service ran on another engine than the settings name."""


def folder_of(data: Path, service: str) -> Path:
    return data / SET_ASIDE / service


def records(data: Path) -> dict[str, SetAside]:
    """Returns the records of all services that are set aside, by service id."""
    return {file.parent.name: _read(file) for file in sorted((data / SET_ASIDE).glob(f"*/{RECORD_FILE}"))}


def _read(file: Path) -> SetAside:
    """Reads a record. A damaged record still lists its service, so that the service stays visible."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=SetAside)
    except msgspec.ValidationError:
        why = "another version of Windlass has recorded it, and this one cannot read that"
        return _unread(file, why, is_known=False)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _unread(file, "its record is damaged", is_known=True)


def _unread(file: Path, reason: str, *, is_known: bool) -> SetAside:
    return SetAside(service=file.parent.name, name="", installation="", at=0, why=reason, is_known=is_known)


class ServiceDataStores:
    def __init__(
        self,
        engine: Engine,
        builder: Builder,
        servers: Servers,
        data: Path,
        *,
        shared: Sequence[ServiceDataStore] = (),
        place: str = LOCAL_ID,
    ) -> None:
        """`shared` contains stores with data of all places, and is passed only for the local place."""
        self.engine, self.builder, self.place = engine, builder, place
        self._files: Sequence[ServiceDataStore] = (builder, servers, *shared)
        self._data = data

    async def services(self) -> dict[str, StoredData]:
        """Returns all services with data in place, including services that are only partly set aside."""
        in_files: dict[str, StoredData] = {}
        for holder in self._files:
            in_files |= dict.fromkeys(await holder.services(), StoredData())
        # An engine may report services without instances and volumes. They have no data that could be lost.
        notable = {id: kept for id, kept in (await self.engine.services()).items() if _has_something(kept)}
        done = {id for id, record in self.records().items() if record.is_whole}
        in_place = {id: kept for id, kept in (in_files | notable).items() if id not in done}
        if self.place == LOCAL_ID:
            return in_place
        # The engine of a cluster is not trusted, and the id becomes a folder name.
        return {id: kept for id, kept in in_place.items() if ids.is_id(id)}

    def records(self) -> Mapping[str, SetAside]:
        return records(self._data)

    async def set_aside(self, record: SetAside) -> None:
        """Moves the data of a service to its folder below `set-aside/`. The record is written before and
        after the move, so that an interrupted move is repeated."""
        folder = folder_of(self._data, record.service)
        await in_thread(_write, folder / RECORD_FILE, replace(record, is_whole=False))
        for holder in (self.engine, *self._files):
            await holder.set_aside(record.service, folder)
        await in_thread(_write, folder / RECORD_FILE, replace(record, is_whole=True))
        _log.warning(
            "a service that the database does not know was set aside",
            extra={"service": record.service, "called": record.name, "why": record.why},
        )

    async def put_back(self, service: str) -> None:
        folder = folder_of(self._data, service)
        self._check_record(service)
        try:
            for holder in (self.engine, *self._files):
                await holder.put_back(service, folder)
        except FileExistsError as error:
            raise Occupied(str(error)) from error
        await in_thread(_leave_in_place, folder)
        _log.warning("a service that was set aside was put back", extra={"service": service})

    async def purge(self, service: str, *, everywhere: bool) -> None:
        """Erases a service that was set aside. `everywhere` includes its data in the engine and the
        builder."""
        self._check_record(service)
        if everywhere and _has_something((await self.engine.services()).get(service, StoredData())):
            await self.engine.discard(service)
        if everywhere:
            await self.builder.discard(service)
        await in_thread(_erase, folder_of(self._data, service))

    def _check_record(self, service: str) -> None:
        record = self.records()[service]
        if not record.is_known:
            raise OtherVersion(
                f"use the version of Windlass that has set the service {service} aside: {record.why}"
            )
        if record.place != self.place:
            raise OtherEngine(
                f"remove it with docker on the host of the cluster {record.place}: this service ran there"
            )
        ran_on = record.engine
        if ran_on not in {"", self.engine.name}:
            raise OtherEngine(
                f"set the engine to {ran_on} (WINDLASS_ENGINE={ran_on}): this service ran on it"
            )


def _has_something(stored_data: StoredData) -> bool:
    return bool(stored_data.instances or stored_data.volumes)


def _write(file: Path, record: SetAside) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, msgspec.json.encode(record))


def _leave_in_place(folder: Path) -> None:
    """Removes the folder after its data was put back. Raises Occupied if some data is still in it."""
    left = sorted(path.name for path in folder.iterdir() if path.name != RECORD_FILE)
    if left:
        raise Occupied(f"not taken back: {', '.join(left)}")
    _erase(folder)


def _erase(folder: Path) -> None:
    """Erases the folder of a service. The record is removed last, so that the service is still listed after
    an interruption and can be erased again."""
    for path in folder.iterdir():
        if path.name != RECORD_FILE:
            erase(path)
    (folder / RECORD_FILE).unlink()
    folder.rmdir()


def data_stores_of(ctx: Context, place: Place) -> ServiceDataStores:
    shared = (ctx.logs, ctx.sites) if place.id == LOCAL_ID else ()
    data = Path(ctx.settings.data_dir)
    return ServiceDataStores(place.engine, place.builder, place.servers, data, shared=shared, place=place.id)


async def sweep(ctx: Context, holder: SweptStore) -> None:
    """Erases the remaining data of deleted services."""
    in_place = set(await holder.services()) - records(Path(ctx.settings.data_dir)).keys()
    await holder.sweep(
        [service for service in sorted(in_place) if await ctx.store.reads.deletions.is_deleted(service)]
    )


async def set_unknown_aside(ctx: Context, place: Place, reason: str) -> None:
    with suppress(EngineUnavailable, BuilderUnavailable):  # The next call tries again.
        await _set_unknown_aside(ctx, place, reason)


async def _set_unknown_aside(ctx: Context, place: Place, reason: str) -> None:
    holdings = data_stores_of(ctx, place)
    unknown_services = list((await unknown(ctx, holdings)).items())
    if place.reconnect is not None:
        if not ctx.places.adopts:
            report_unknown_services(
                ctx, place, [kept.name[:_MAX_NAME_LENGTH] or service for service, kept in unknown_services]
            )
            return
        # The engine of a cluster may report any number of invented services.
        unknown_services = unknown_services[:MAX_SET_ASIDE]
    for service, kept in unknown_services:
        await set_service_aside(ctx, holdings, service, kept, ctx.installation, reason)


async def unknown(ctx: Context, holdings: ServiceDataStores) -> dict[str, StoredData]:
    """Returns the services of a place that the database neither contains nor has deleted. The place is read
    before the database, because a new service is in the database first."""
    in_place, reads = await holdings.services(), ctx.store.reads
    ours = set(await reads.statuses.services())
    rest = {service: kept for service, kept in in_place.items() if service not in ours and not kept.is_lost}
    unknown_services = {
        service: kept for service, kept in rest.items() if not await reads.deletions.is_deleted(service)
    }
    if unknown_services and await reads.facts.get(INSTALLATION_KEY) != ctx.installation.encode():
        raise OtherDatabase(
            "the database is not the one that this server was started with: nothing is erased or set aside"
        )
    return unknown_services


async def set_service_aside(
    ctx: Context,
    holdings: ServiceDataStores,
    service: str,
    stored_data: StoredData,
    installation: str,
    reason: str,
) -> None:
    record = SetAside(
        service=service,
        name=stored_data.name,
        installation=installation,
        at=ctx.clock.now(),
        why=reason,
        instances=stored_data.instances,
        volumes=stored_data.volumes,
        engine=holdings.engine.name,
        place=holdings.place,
    )
    await holdings.set_aside(record)
    await _record_event(ctx, Event.SET_ASIDE, record)


async def restore_service(ctx: Context) -> None:
    """Puts back services of this database that were set aside while another database was in use."""
    for service, record in records(Path(ctx.settings.data_dir)).items():
        if await ctx.store.reads.statuses.get(service) is None:
            continue
        holdings = data_stores_of(ctx, await ctx.places.of(service))
        try:
            await holdings.put_back(service)
        except (Occupied, OtherEngine, OtherVersion) as error:
            _log.warning("a service stays set aside", extra={"service": service, "why": str(error)})
        else:
            await _record_event(ctx, Event.PUT_BACK, record)


async def _record_event(ctx: Context, kind: Event, record: SetAside) -> None:
    """Records the event in the audit log of the cluster's organization, or else of the first organization.
    The owner of the service is unknown, and other organizations must not see reports of the cluster's
    engine."""

    async def change(tx: Tx) -> None:
        place = None if record.place == LOCAL_ID else await tx.resources.find(cluster.name, record.place)
        row = await tx.resources.get(place.org) if place else None
        row = row or await tx.resources.first(NO_PARENT, organization.name)
        assert row is not None
        about = About(row.id, row.family, row.id, row.family)
        data = {"name": record.name[:_MAX_NAME_LENGTH], "service_id": record.service, "message": record.why}
        emit(tx, kind, row.id, about, SYSTEM.id, SYSTEM.name, ITSELF, data)

    await ctx.store.write(change)
