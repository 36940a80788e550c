"""Renews the lease of this server's place, and detects that the owner of another place is lost.

A server that is stopped, killed or disconnected keeps its place, because its services may still run. Another
server starts these services only after an operator has given it the place (`serve --adopt`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from windlass.base.clock import SECOND
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.base.outage import Outage
from windlass.control.context.call import ITSELF
from windlass.control.context.context import Context
from windlass.control.context.server_addresses import known_address
from windlass.control.records.recording import About, emit
from windlass.control.records.run_servers import announce_address
from windlass.control.records.sealed_workload import workload_of
from windlass.control.records.stored_clusters import place_of
from windlass.core.access import SYSTEM
from windlass.core.words.events import Event
from windlass.engines.engine import EngineError
from windlass.families.cluster import Cluster, cluster
from windlass.store import OwnerRow, PlaceHolder, Row, Surroundings, Tx, status_topic

LOST_WORD: Final = "place:lost:"
FOUND_WORD: Final = "place:found:"
CHECKS_PER_LEASE: Final = 5
"""The number of checks in one lease period."""
MAX_MISSED_CHECKS: Final = 3
"""The number of checks without a renewal after which an owner is lost. It is detected before the lease has
ended."""
_NOT_OWNER: Final = (
    "another server or Docker engine runs the services of this place, and nothing is started here: to run "
    "services here, too, give this machine a name of its own (WINDLASS_PLACE). If the other one is gone for "
    "good, or was moved here, start once with --adopt"
)
_IS_COPY: Final = (
    "remove the file `server` from the data directory that is a copy, and start its server again: another "
    "server runs with the same file. Nothing is started here. To run services on both machines, give one of "
    "them a name of its own (WINDLASS_PLACE)"
)
_log = log("places")


class OwnerAlive(Exception):
    """The place cannot be taken over, because the lease of its owner has not ended."""

    def __init__(self) -> None:
        super().__init__(
            "stop the server that owns the services of this database, and start again with --adopt; or start "
            "without it, beside that server"
        )


class ObservedLease(Struct, frozen=True):
    """The lease of another server, as observed by this server."""

    owner: str
    until: int
    since: int
    """The time of the first check with this lease, by the clock of this server."""
    last: int
    """The time of the last check with this lease."""


class PlaceLease:
    """Renews the lease of this server, and observes the leases of other servers."""

    def __init__(self, ctx: Context, lease: int) -> None:
        self._ctx, self._lease = ctx, lease
        self._ownership = ctx.ownership
        self._seen: dict[str, ObservedLease] = {}
        """The leases at the last check, by place."""
        self._outage = Outage(
            _log, "the lease of the place waits for the database", "the lease of the place is renewed again"
        )
        self._refused: PlaceHolder | None = None
        """The owner id with which this server was refused the lease."""
        self._lease_of_twin: int | None = None
        """The end of the lease of a server with the same id at another home."""
        self._is_copy = False
        """Indicates whether a server with the same id has renewed its lease, which proves that one of the
        data directories is a copy."""
        self._is_displaced = False
        """Indicates whether a server with the same id took the place of this server, until the instances here
        have ended."""
        ctx.store.listen(self._note_nudge, "place")

    def _note_nudge(self, topic: str) -> None:
        ownership = self._ownership
        if topic.startswith(LOST_WORD):
            ownership.lost |= {topic.removeprefix(LOST_WORD)}
        elif topic.startswith(FOUND_WORD):
            ownership.lost -= {topic.removeprefix(FOUND_WORD)}

    async def take(self) -> None:
        """Takes over the place from another server. Waits for one lease period, and raises OwnerAlive if the
        lease is renewed meanwhile."""
        holder = self._ownership.holder
        if holder is None:
            return
        row = await self._ctx.store.reads.owners.get(holder.place)
        if row is None or row.owner == holder.owner:
            return
        while self._milliseconds_unchanged(row) < self._lease:
            await asyncio.sleep(self._between_looks / SECOND)
            if await self._ctx.store.reads.owners.get(holder.place) != row:
                raise OwnerAlive
        if not await self._ctx.store.write(lambda tx: self._take_place(tx, holder, row)):
            raise OwnerAlive
        _log.warning("the place of another server was taken over (--adopt): services are started here")

    @property
    def _between_looks(self) -> int:
        return self._lease // CHECKS_PER_LEASE

    def _milliseconds_unchanged(self, row: OwnerRow) -> int:
        """Returns for how many milliseconds another server has not renewed its lease, by the clock of this
        server. The other server's clock is not compared; only the change of its lease is observed.

        The count begins again if the last check is long ago or in the future. Then the clock was set, this
        server was paused, or the database stalled and the other server could not renew its lease.
        """
        now, seen = self._ctx.clock.now(), self._seen.get(row.place)
        is_same = seen is not None and (seen.owner, seen.until) == (row.owner, row.until)
        is_counted = seen is not None and 0 <= now - seen.last <= 2 * self._between_looks
        since = seen.since if seen and is_same and is_counted else now
        self._seen[row.place] = ObservedLease(row.owner, row.until, since, now)
        return now - since

    async def _take_place(self, tx: Tx, holder: PlaceHolder, owner_row: OwnerRow) -> bool:
        if not await tx.owners.take_over(owner_row, holder.owner, self._lease, self._ownership.home):
            return False
        await tx.work.revoke(holder.place)
        await self._announce(tx, Event.CLUSTER_TAKEN_OVER, holder.place)
        if owner_row.is_lost:
            tx.nudge(FOUND_WORD + holder.place)
        return True

    async def run(self) -> None:
        """Checks the leases several times in each lease period. Keeps running during a database outage, in
        which other servers cannot claim work either."""
        while not self._ownership.is_alone:
            await asyncio.sleep(self._between_looks / SECOND)
            try:
                await self.renew()
                self._outage.end()
            except Unavailable as error:
                self._outage.note(str(error))
            except EngineError as error:
                _log.warning("instances at a place that was given away still run", extra={"why": str(error)})

    async def renew(self) -> None:
        """Renews the lease of this server, and checks whether leases of other servers have ended."""
        ownership, store = self._ownership, self._ctx.store
        if ownership.is_alone:
            return
        was_owner, holder = ownership.is_owner, ownership.holder
        ownership.is_owner = await store.write(lambda tx: self._renew_and_watch(tx, holder))
        rows = {row.place: row for row in await store.reads.owners.all()}
        ownership.lost = frozenset(place for place, row in rows.items() if row.is_lost)
        own = rows.get(ownership.place)
        if own and holder and not ownership.is_owner:
            self._refuse(holder, own, is_new=was_owner or holder != self._refused)
            self._is_displaced |= was_owner and own.owner == holder.owner
        ownership.elsewhere = own.surroundings if own and holder and holder.owner != own.owner else None
        if own and holder and (self._is_displaced or holder.owner in own.formers):
            await self._end_instances(holder, own)
            self._is_displaced = False

    def _refuse(self, holder: PlaceHolder, own_row: OwnerRow, *, is_new: bool) -> None:
        extra = {"place": holder.place, "owner": holder.owner}
        if own_row.owner == holder.owner:
            # The lease may be this server's own from before a reboot. Such a lease is not renewed.
            if self._lease_of_twin not in {None, own_row.until} and not self._is_copy:
                self._is_copy = True
                _log.error(_IS_COPY, extra=extra)
            self._lease_of_twin = own_row.until
        elif is_new:
            self._refused = holder
            _log.warning(_NOT_OWNER, extra=extra)

    async def _renew_and_watch(self, tx: Tx, holder: PlaceHolder | None) -> bool:
        """Renews the lease of this server and marks owners without renewals as lost. Returns whether this
        server owns its place."""
        rows = {row.place: row for row in await tx.owners.all()}
        own = rows.get(self._ownership.place)
        is_owner = holder is not None and await self._renew(tx, holder, own)
        for row in rows.values():
            if row is own and holder and row.owner == holder.owner:
                continue
            is_silent = self._milliseconds_unchanged(row) >= MAX_MISSED_CHECKS * self._between_looks
            if is_silent and await tx.owners.mark_lost(row):
                _log.error(
                    "the server that owns a place does not answer: states of its services are unknown",
                    extra={"place": row.place},
                )
                await self._record_change(tx, Event.CLUSTER_UNREACHABLE, LOST_WORD, row.place)
        return is_owner

    async def _renew(self, tx: Tx, holder: PlaceHolder, row: OwnerRow | None) -> bool:
        """Renews the lease. Returns whether this server owns the place."""
        if self._is_copy:
            return False
        home, ended = self._ownership.home, 0
        if row and row.owner == holder.owner and row.home != home:
            # A lease from before a reboot may end years ahead, if the clock was wrong then.
            ended = row.until if self._milliseconds_unchanged(row) >= self._lease else 0
        if not await tx.owners.renew(
            holder.place, holder.owner, self._lease, self._surroundings(), home, ended
        ):
            return False
        ctx = self._ctx
        await announce_address(tx, holder.place, known_address(ctx.settings, ctx.places.local))
        if row and row.is_lost:
            await self._record_change(tx, Event.CLUSTER_REACHABLE, FOUND_WORD, holder.place)
        if row is None or row.until <= tx.now:
            tx.nudge("work")
        return True

    def _surroundings(self) -> Surroundings:
        place, domain = self._ctx.places.local, self._ctx.settings.public_domain
        return Surroundings(place.takes, place.public_host, domain, place.http_port)

    async def _end_instances(self, holder: PlaceHolder, row: OwnerRow) -> None:
        """Ends the instances on this machine after another server has taken over the place. Volumes are
        kept."""
        ctx = self._ctx
        for service in {instance.service for instance in await ctx.places.local.engine.all()}:
            _log.warning("a service ends here: another server runs it now", extra={"service": service})
            await end_instances(ctx, service)
        await ctx.store.write(lambda tx: tx.owners.relinquish(row, holder.owner))

    async def _record_change(self, tx: Tx, kind: Event, topic: str, place: str) -> None:
        """Records an event and wakes all readers of statuses. Servers are notified with `topic` first, so
        that the readers see the new state."""
        tx.nudge(topic + place)
        for row in await self._announce(tx, kind, place):
            for service in await tx.statuses.on_cluster(row.id):
                tx.nudge(status_topic(service))

    async def _announce(self, tx: Tx, kind: Event, place: str) -> Iterable[Row]:
        """Records an event for each cluster that uses the place. Returns these clusters."""
        clusters: list[Row] = []
        for id in await tx.statuses.clusters():
            row = await tx.resources.find(cluster.name, id)
            if row is None or place_of(row.read(Cluster)) != place:
                continue
            about = About(row.id, row.family, row.id, row.family)
            emit(tx, kind, row.org, about, SYSTEM.id, SYSTEM.name, ITSELF, {"name": row.name or ""})
            clusters.append(row)
        return clusters


async def end_instances(ctx: Context, service: str) -> None:
    """Ends the instances of a service on this machine. The serving generation is scaled to zero instead of
    removed, so that it may start here again later."""
    engine, status = ctx.places.local.engine, await ctx.store.reads.statuses.get(service)
    workload = await workload_of(ctx, status.serving if status else None)
    for generation in {instance.generation for instance in (await engine.observe(service)).instances}:
        if workload and workload.generation == generation:
            await engine.apply(workload, 0)
        else:
            await engine.remove(service, generation=generation, grace=ctx.settings.stop_seconds)
