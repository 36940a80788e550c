"""Keeps the lease of the place `local`, and notices when the server that owns it is gone.

A server that is stopped, killed or cut off keeps its place, because its services may still run. No other
server starts them until an operator gives it the place (`serve --adopt`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from windlass.base.clock import SECOND
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.control.context.call import ITSELF
from windlass.control.context.context import Context
from windlass.control.context.places import LOCAL
from windlass.control.deploying.ledger import workload_of
from windlass.control.records.recording import About, emit
from windlass.core.access import SYSTEM
from windlass.core.words.events import Event
from windlass.engines.engine import EngineError
from windlass.families.cluster import Cluster, cluster
from windlass.store import OwnerRow, PlaceHolder, Row, Tx, status_word

LOST_WORD: Final = "place:lost"
FOUND_WORD: Final = "place:found"
_log = log("places")


class OwnerAlive(Exception):
    """The place cannot be taken over: the lease of its owner has not ended."""

    def __init__(self) -> None:
        super().__init__(
            "stop the server that owns the services of this database, and start again with --adopt; or start "
            "without it, beside that server"
        )


class PlaceOwner:
    """Renews the lease of this server, or watches the one of another server."""

    def __init__(self, ctx: Context, lease: int) -> None:
        self._ctx, self._lease = ctx, lease
        self._ownership = ctx.ownership
        self._lease_seen: tuple[str, int] | None = None
        """Owner and lease at the last look, and since when they are the same by the clock of this server."""
        self._same_since = 0
        ctx.store.listen(self._hear)

    def _hear(self, word: str) -> None:
        if word in {LOST_WORD, FOUND_WORD} and self._ownership.holder:
            self._ownership.is_lost = word == LOST_WORD

    async def take(self) -> None:
        """Takes the place over from another server. Waits for as long as a lease, and raises OwnerAlive if
        the lease is renewed meanwhile."""
        holder = self._ownership.holder
        if holder is None:
            return
        row = await self._ctx.store.reads.owners.get(LOCAL)
        if row is None or row.owner == holder.owner:
            return
        await asyncio.sleep(self._rest_of_lease(row) / SECOND)
        if not await self._ctx.store.write(lambda tx: self._take(tx, holder, row)):
            raise OwnerAlive
        _log.warning("the place of another server was taken over (--adopt): services are started here")

    def _rest_of_lease(self, row: OwnerRow) -> int:
        """Returns the time after which another server is gone unless it renews its lease, by the clock of
        this server. The clock of the other one may be fast or slow: it only shows that the lease changed."""
        now, lease = self._ctx.clock.now(), (row.owner, row.until)
        if lease != self._lease_seen:
            self._lease_seen, self._same_since = lease, now
        return max(0, self._same_since + self._lease - now)

    async def _take(self, tx: Tx, holder: PlaceHolder, seen: OwnerRow) -> bool:
        if not await tx.owners.take(seen, holder.owner, self._lease):
            return False
        await tx.work.revoke()
        await self._announce(tx, Event.CLUSTER_TAKEN_OVER)
        if seen.is_lost:
            tx.nudge(FOUND_WORD)
        return True

    async def run(self) -> None:
        """Calls `look` three times in each lease. Waits for a database that is away, because no work is
        claimed without it either."""
        while self._ownership.holder:
            await asyncio.sleep(self._lease / SECOND / 3)
            try:
                await self.look()
            except Unavailable as error:
                _log.warning("the lease of the place waits for the database", extra={"error": str(error)})
            except EngineError as error:
                _log.warning("instances at a place that was given away still run", extra={"why": str(error)})

    async def look(self) -> None:
        """Renews the lease. If another server owns the place, checks whether the lease of that server has
        ended."""
        holder, ownership = self._ownership.holder, self._ownership
        if holder is None:
            return
        was_owner = ownership.is_owner
        ownership.is_owner = await self._ctx.store.write(lambda tx: self._renew(tx, holder))
        if ownership.is_owner:
            ownership.is_lost = False
            return
        if was_owner:
            _log.warning("another server owns the place now: nothing is started here any more")
        row = await self._ctx.store.reads.owners.get(LOCAL)
        ownership.is_lost = row is not None and bool(row.is_lost)
        if row is not None and holder.owner in row.formers:
            await self._leave(holder, row)

    async def _renew(self, tx: Tx, holder: PlaceHolder) -> bool:
        """Returns False if another server owns the place, after marking that server as lost if its lease
        ended."""
        row = await tx.owners.get(LOCAL)
        if await tx.owners.renew(LOCAL, holder.owner, self._lease):
            if row and row.is_lost:
                await self._tell(tx, Event.CLUSTER_REACHABLE, FOUND_WORD)
            if row is None or row.until <= tx.now:
                tx.nudge("work")
            return True
        if row and not self._rest_of_lease(row) and await tx.owners.lose(row):
            _log.error("the server that owns the place does not answer: states of its services are unknown")
            await self._tell(tx, Event.CLUSTER_UNREACHABLE, LOST_WORD)
        return False

    async def _leave(self, holder: PlaceHolder, row: OwnerRow) -> None:
        """Ends the instances on this machine after another server has taken over the place. Volumes stay."""
        ctx = self._ctx
        for service in {instance.service for instance in await ctx.places.local.engine.all()}:
            _log.warning("a service ends here: another server runs it now", extra={"service": service})
            await end_instances(ctx, service)
        await ctx.store.write(lambda tx: tx.owners.relinquish(row, holder.owner))

    async def _tell(self, tx: Tx, kind: Event, word: str) -> None:
        """Records an event and wakes all readers of statuses. Servers hear `word` before, so that the readers
        see the new state."""
        tx.nudge(word)
        for row in await self._announce(tx, kind):
            for service in await tx.statuses.on_cluster(row.id):
                tx.nudge(status_word(service))

    async def _announce(self, tx: Tx, kind: Event) -> Iterable[Row]:
        """Records an event for each cluster that uses the place; returns these clusters."""
        clusters: list[Row] = []
        for id in await tx.statuses.clusters():
            row = await tx.resources.find(cluster.name, id)
            if row is None or row.read(Cluster).is_elsewhere:
                continue
            about = About(row.id, row.family, row.id, row.family)
            emit(tx, kind, row.org, about, SYSTEM.id, SYSTEM.name, ITSELF, {"name": row.name or ""})
            clusters.append(row)
        return clusters


async def end_instances(ctx: Context, service: str) -> None:
    """Ends the instances of a service on this machine. The generation that serves is scaled to none, and not
    removed, so that it may start here again later."""
    engine, status = ctx.places.local.engine, await ctx.store.reads.statuses.get(service)
    workload = await workload_of(ctx, status.serving if status else None)
    for generation in {instance.generation for instance in (await engine.observe(service)).instances}:
        if workload and workload.generation == generation:
            await engine.apply(workload, 0)
        else:
            await engine.remove(service, generation=generation, grace=ctx.settings.stop_seconds)
