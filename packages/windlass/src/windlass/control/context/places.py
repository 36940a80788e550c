"""Places where services run. A place is an engine with its builder, router and database servers.

An environment belongs to a cluster, and a cluster has an engine. All work on a service (start, build, route,
erase) uses the place of the service. Clusters with the engine of this machine share the local place. Each
cluster with an engine at another address has its own place. A cluster may also use the machine of another
server on the same database; only that server connects to the machine's engine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from windlass.base.errors import Unavailable
from windlass.base.locks import Locks
from windlass.base.log import log
from windlass.base.trace import start_untraced
from windlass.control.context.engine_scope import EngineScope
from windlass.control.context.environment_finder import introduce
from windlass.control.context.place import Connector, EngineAccess, Place
from windlass.engines.engine import Notice, Sink
from windlass.families.environment import EnvironmentShown
from windlass.routers.router import RouteError
from windlass.store import Reads, Row, Surroundings

LOCAL_ID: Final = "local"
"""The id of a server's own place, regardless of the setting `place`."""
_READ_INTERVAL: Final = 60.0
"""Seconds after which all open clusters are read again, in case a change notification was lost."""
LAST_REQUESTS: Final = 60.0
"""Seconds for requests in progress at a router, after its cluster was moved to another port."""
_log = log("places")


MissedAt = Callable[[str], None]
"""Receives the id of a place whose notices may have been lost."""
FindAccess = Callable[[str], Awaitable[EngineAccess | None]]
"""Finds how to connect to a cluster by its id; None if the cluster does not exist."""


class Places:
    """All places that this server connects to. A place is opened when it is first needed."""

    def __init__(self, local: Place, reads: Reads, find_access: FindAccess, connector: Connector) -> None:
        self.local = local
        self._reads, self._find, self._connector = reads, find_access, connector
        introduce(local.engine, reads)
        self._open: dict[str, tuple[EngineAccess, Place]] = {}
        """Open places by cluster."""
        self._clusters: dict[str, str] = {}
        """Clusters by service, cached. A service never changes its cluster."""
        self._locks = Locks()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed: set[str] = set()
        self._must_look = asyncio.Event()
        self._watch: tuple[Notice, Sink, MissedAt] | None = None
        self.erasing: Counter[str] = Counter()
        """Numbers of deleted services whose data is being erased, by cluster."""
        self.under_way: set[tuple[str, str]] = set()
        """Background work in progress, as pairs of kind and cluster."""
        self.slow_until: dict[str, int] = {}
        """Times until which deleted services are not erased at once but by the next sweep, by cluster."""
        self.adopts = False
        """Indicates whether the operator accepts this database although services run that are missing in it
        (`--adopt`)."""
        self.examined: set[str] = set()
        """Places that were compared with the database and have no newer deployments than it."""
        self.examining = Locks()
        """Locks by place, held during the comparison of the place with the database."""
        self.newer: set[str] = set()
        """Clusters that have newer deployments than the database."""
        self.remarks: dict[str, str] = {}
        """Messages about services that are missing in the database, by cluster."""

    def all(self) -> Sequence[Place]:
        return [self.local, *(place for _, place in self._open.values() if place.reconnect)]

    def accesses(self) -> Sequence[EngineAccess]:
        """Returns the connection settings of all remote engines that are open."""
        return [access for access, place in self._open.values() if place.reconnect]

    @property
    def has_unavailable(self) -> bool:
        """Returns whether an engine does not respond."""
        return self.local.engine.is_unavailable or any(
            place.engine.is_unavailable for _, place in self._open.values()
        )

    async def of(self, service: str) -> Place:
        """Returns the place of a service, or the local place if the service no longer exists."""
        return await self.at(await self.cluster_of(service))

    async def of_environment(self, reads: Reads, environment: str) -> Place:
        """Returns the place to which services of an environment are deployed."""
        row = await reads.resources.get(environment)
        return await self.at(cluster_of(row)) if row else self.local

    async def at(self, cluster: str) -> Place:
        """Returns the place of a cluster. Opens the place if necessary."""
        if not cluster:
            return self.local
        if opened := self._open.get(cluster):
            return opened[1]
        async with self._locks[cluster]:
            return opened[1] if (opened := self._open.get(cluster)) else await self._open_place(cluster)

    async def identity(self, access: EngineAccess) -> str:
        """Returns the id of an engine before a cluster is connected to it; empty for engines without an id.
        Raises Invalid with the problem."""
        return await self._connector.identity(access) if access.is_elsewhere else ""

    async def check_port(self, access: EngineAccess) -> None:
        """Raises Invalid if the new port of a cluster is in use."""
        if access.router_port:
            await self._connector.check_port(access, self.local)

    async def has_router(self, listener_key: str) -> bool:
        """Returns whether `listener_key` is the key of a cluster's current router; see
        `EngineAccess.door`."""
        access = await self._find(listener_key.partition(":")[0])
        return access is not None and access.router_port > 0 and access.door == listener_key

    async def start(self, notice: Notice, sink: Sink, on_missed_notices: MissedAt) -> None:
        """Opens the places of all clusters in use. Returns when each engine has responded or timed out."""
        self._watch = notice, sink, on_missed_notices
        for cluster, (_, place) in [*self._open.items()]:
            self._begin(cluster, place)
        for cluster in {
            *await self._reads.statuses.clusters(),
            *await self._reads.deletions.clusters_with_data(),
        }:
            await self.at(cluster)
        await asyncio.gather(*self._tasks)

    def note_changed(self, cluster: str) -> None:
        """Schedules another read of a cluster that was created, changed or deleted, possibly by another
        server."""
        self._changed.add(cluster)
        self._must_look.set()

    async def follow_clusters(self) -> None:
        """Applies changes of clusters, in an endless loop."""
        while True:
            try:
                async with asyncio.timeout(_READ_INTERVAL):
                    await self._must_look.wait()
            except TimeoutError:
                self._changed |= {*self._open}
            try:
                await self.catch_up()
            except Unavailable as error:
                _log.warning("clusters are read later", extra={"reason": str(error)})

    async def catch_up(self) -> None:
        """Reads the changed clusters again and applies their changes."""
        self._must_look.clear()
        changed, self._changed = self._changed, set()
        for cluster in changed:
            await self._refresh(cluster)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._close(place) for place in self.all()))
        self._open.clear()

    async def _open_place(self, cluster: str) -> Place:
        access = await self._find(cluster)
        if access is None:
            return replace(self.local, id=cluster, machine="", is_connected=False)
        if access.is_elsewhere:
            place = replace(self._connector.place(access, self.local), machine="")
            introduce(place.engine, self._reads)
            self._begin(cluster, place)
        elif access.surroundings:
            place = _of_another_server(self.local, access, access.surroundings)
        elif access.engine:
            place = self.local
        else:
            place = replace(self.local, id=cluster, machine="", is_connected=False)
        self._open[cluster] = access, place
        return place

    def _begin(self, cluster: str, place: Place) -> None:
        """Starts to observe the engine of a place, without delaying the caller."""
        if self._watch is None or place.reconnect is None:
            return
        self.run_in_background(self._start_engine(cluster, place, *self._watch))

    def run_in_background(self, action: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Starts a background task, which `stop` cancels."""
        task = start_untraced(action)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _start_engine(
        self, cluster: str, place: Place, notice: Notice, sink: Sink, on_missed_notices: MissedAt
    ) -> None:
        async with self._locks[cluster]:
            await self._give_router(cluster)
        self._clusters |= dict.fromkeys(await self._reads.statuses.on_cluster(cluster), cluster)
        scope = EngineScope(self, cluster, notice, sink)
        await place.engine.start(scope.notice, scope.take, partial(on_missed_notices, place.id))

    async def _refresh(self, cluster: str) -> None:
        async with self._locks[cluster]:
            opened, access = self._open.get(cluster), await self._find(cluster)
            if opened is None or opened[0] == access:
                if opened is None and access and access.is_elsewhere:
                    await self._open_place(cluster)
                return
            before, place = opened
            self.examined.discard(cluster)
            self.newer.discard(cluster)
            if access and place.reconnect and before.engine == access.engine:
                self._open[cluster] = access, place
                await self._give_router(cluster, before.router_port)
                if replace(before, router_port=access.router_port) != access:
                    await place.reconnect(access)
                return
            del self._open[cluster]
            if place.reconnect:
                await self._close_engine(place)
                if place.router is not self.local.router:
                    self.run_in_background(place.router.retire(LAST_REQUESTS))
            if access:
                await self._open_place(cluster)

    async def _give_router(self, cluster: str, port: int = 0) -> None:
        """Moves the services of a cluster from the router at `port` to a router at the cluster's current
        port. If the new router cannot be started, the services stay, and the next read of the cluster tries
        again."""
        if (opened := self._open.get(cluster)) is None or opened[0].router_port == port:
            return
        access, place = opened
        router = self.local.router
        if access.router_port:
            router = self._connector.router(access)
            try:
                await router.start()
            except (RouteError, OSError) as error:
                _log.error("a cluster has no router", extra={"cluster": cluster, "reason": str(error)})
                self._open[cluster] = replace(access, router_port=port), place
                return
        self._open[cluster] = access, replace(place, router=router)
        services = await self._reads.statuses.on_cluster(cluster)
        if self._watch:
            for service in services:
                self._watch[0](service)
        if place.router is not self.local.router:
            self.run_in_background(place.router.retire(LAST_REQUESTS))

    async def _close_engine(self, place: Place) -> None:
        await place.engine.stop()
        await place.builder.stop()

    async def _close(self, place: Place) -> None:
        await self._close_engine(place)
        if place is self.local or place.router is not self.local.router:
            await place.router.stop()

    def known_cluster_of(self, service: str) -> str | None:
        """Returns the cached cluster of a service, or None."""
        return self._clusters.get(service)

    async def cluster_of(self, service: str) -> str:
        """Returns the cluster of a service; empty if the service does not exist."""
        if (cluster := self._clusters.get(service)) is not None:
            return cluster
        status = await self._reads.statuses.get(service)
        if status is None:
            return ""
        self._clusters[service] = status.cluster
        return status.cluster


def _of_another_server(local: Place, access: EngineAccess, surroundings: Surroundings) -> Place:
    return replace(
        local, id=access.cluster, machine=access.place, public_host=surroundings.host, elsewhere=surroundings
    )


def cluster_of(environment: Row) -> str:
    return environment.read(EnvironmentShown).cluster_id
