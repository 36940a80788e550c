"""The verbs that drive a rollout by hand: each is about copies of one generation, by their indexes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.workload import HealthProbe, Instance, Workload


class Copies(Protocol):
    """The copies of workloads on an engine that starts them one by one."""

    has_go_between: bool
    """Something between Windlass and an instance takes connections to its ports, even if nothing listens
    behind it."""

    async def run(self, workload: Workload, index: int) -> Instance:
        """Starts a copy, unless it exists already. Afterwards it is restarted with growing pauses whenever
        it ends, until it is removed. Raises VolumeLost instead of making a volume that `is_known`."""
        ...

    async def copies(self, service: str) -> list[Instance]:
        """Returns all copies of a service, of every generation."""
        ...

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = 10.0,
    ) -> None:
        """Asks copies to end (of one generation or of all, all of them or only some) and kills them after
        `grace`. Without `indexes` a generation ends as a whole, and a late `run` does not bring it back."""
        ...

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        """Returns why a copy does not pass a probe, as readable text; empty if it passes."""
        ...

    async def listeners(self, instance: Instance) -> Collection[ListeningPort]:
        """Returns the TCP ports on which a copy listens, as far as the engine can find them."""
        ...

    async def queued(self, instance: Instance, port: int) -> int | None:
        """Returns how many connections to a port of an instance wait until the program accepts them. None if
        that cannot be seen. Raises InstanceEnded if it ended meanwhile."""
        ...

    async def speaks_http(self, instance: Instance, port: int) -> bool:
        """Returns whether a copy answers HTTP on a port, which need not be one of its service."""
        ...


class Executor(Protocol):
    """Runs commands beside instances, and sees their connections."""

    has_go_between: bool
    """Something between Windlass and an instance takes connections to its ports, even if nothing listens
    behind it."""

    async def execute(
        self, instance: Instance, command: Sequence[str], timeout: float
    ) -> tuple[int, str]: ...

    async def queued(self, instance: Instance, port: int) -> int | None:
        """Returns how many connections to a port of an instance wait until the program accepts them. None if
        that cannot be seen. Raises InstanceEnded if it ended meanwhile."""
        ...
