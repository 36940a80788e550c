"""Restricts the reports of a cluster's engine to services of that cluster."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Final, Protocol

from windlass.engines.engine import Notice, Sink
from windlass.engines.workload import OutputLine

MAX_LOOKUPS: Final = 100
"""The largest number of concurrent lookups of service ids in the database. An engine may report any number of
service ids that never existed."""


class ServiceClusters(Protocol):
    """Finds the clusters of services."""

    def known_cluster_of(self, service: str) -> str | None: ...

    async def cluster_of(self, service: str) -> str: ...

    def run_in_background(self, action: Coroutine[None, None, None]) -> object: ...


class EngineScope:
    """Forwards an engine's notices and log lines about services of its own cluster, and drops all others. The
    engine belongs to the organization of the cluster, so its reports are not trusted."""

    def __init__(self, places: ServiceClusters, cluster: str, notice: Notice, sink: Sink) -> None:
        self._places, self._cluster = places, cluster
        self._notice, self._sink = notice, sink
        self._looking = 0
        """The number of lookups in progress."""

    def notice(self, service: str) -> None:
        self._pass_on(service, lambda: self._notice(service))

    def take(self, service: str, lines: Sequence[OutputLine]) -> None:
        self._pass_on(service, lambda: self._sink(service, lines))

    def _pass_on(self, service: str, action: Callable[[], None]) -> None:
        cluster = self._places.known_cluster_of(service)
        if cluster is None:  # another server deployed the service a moment ago, or the id is invented
            if self._looking < MAX_LOOKUPS:
                self._looking += 1
                self._places.run_in_background(self._look_up(service, action))
        elif cluster == self._cluster:
            action()

    async def _look_up(self, service: str, action: Callable[[], None]) -> None:
        try:
            if await self._places.cluster_of(service) == self._cluster:
                action()
        finally:
            self._looking -= 1
