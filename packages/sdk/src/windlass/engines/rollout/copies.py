"""Interfaces of engines on which a rollout controls single copies of a generation, by their index."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.workload import HealthProbe, Instance, Workload


class ProbedCopies(Protocol):
    """The interface of engines whose copies Windlass probes while they start."""

    has_go_between: bool
    """Whether a proxy between Windlass and an instance accepts connections to its ports, even if nothing
    listens behind the proxy."""

    async def copies(self, service: str) -> list[Instance]:
        """Returns all copies of a service, of all generations."""
        ...

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        """Runs a probe. Returns why the copy does not pass, as readable text; empty if it passes."""
        ...

    async def listeners(self, instance: Instance) -> Collection[ListeningPort]:
        """Returns the TCP ports on which a copy listens, as far as the engine can detect them."""
        ...

    async def queued(self, instance: Instance, port: int) -> int | None:
        """Returns the number of connections to a port that the program has not accepted yet; None if it is
        not visible. Raises InstanceEnded if the instance ended meanwhile."""
        ...

    async def speaks_http(self, instance: Instance, port: int) -> bool:
        """Returns whether a copy answers HTTP on a port, which may be undeclared."""
        ...


class Copies(ProbedCopies, Protocol):
    """The interface of engines that start copies of a workload one by one."""

    async def run(self, workload: Workload, index: int) -> Instance:
        """Starts a copy, unless it exists. From then on, it is restarted with a back-off whenever it ends,
        until it is removed. Raises VolumeLost instead of creating a volume that `is_known`."""
        ...

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = 10.0,
    ) -> None:
        """Ends copies of one generation or of all generations: asks them to stop, and kills them after
        `grace` seconds. Without `indexes`, all copies of the generation end, and a delayed `run` does not
        start the generation again."""
        ...


class Executor(Protocol):
    """Runs commands in the environment of instances, and inspects their connections."""

    has_go_between: bool
    """Whether a proxy between Windlass and an instance accepts connections to its ports, even if nothing
    listens behind the proxy."""

    async def execute(
        self, instance: Instance, command: Sequence[str], timeout: float
    ) -> tuple[int, str]: ...

    async def queued(self, instance: Instance, port: int) -> int | None:
        """Returns the number of connections to a port that the program has not accepted yet; None if it is
        not visible. Raises InstanceEnded if the instance ended meanwhile."""
        ...
