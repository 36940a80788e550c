"""What an engine is: a few verbs, each of which may run twice, run late, or be interrupted at any point.

An engine is told by number and never asks why. What it runs goes on when Windlass ends, and it finds it
again: `start` adopts. What an instance is, is said by (service, generation, index), and there is never more
than one live copy of that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from windlass.core.deploy.workload import (
    Artifact,
    Instance,
    Outcome,
    OutputLine,
    StoredData,
    Usage,
    Volume,
    Workload,
)


class EngineError(Exception):
    """It cannot be done; the message is for the person who deployed."""


class EngineAway(EngineError):
    """The engine does not answer now; the same call may succeed later."""


class VolumeLost(EngineError):
    """A volume that held data is not there any more."""

    def __init__(self, wanted: Workload, volume: Volume) -> None:
        super().__init__(
            f"Bring back the volume of {wanted.name} at {volume.mount} ({volume.name}), or uninstall "
            f"{wanted.name} and deploy it again, to begin empty: the volume held data, and it is not there "
            "any more. Nothing was started"
        )


Notice = Callable[[str], None]
"""Called with the id of a service of which an instance ended, was started anew, or was begun by another
Windlass. Who asks an engine to begin one knows that it began."""
Sink = Callable[[str, Sequence[OutputLine]], None]
"""Called with the id of a service and what its instances wrote."""


class Engine(Protocol):
    name: str
    takes: Literal["native", "image"]
    """The kind of artifact that it runs."""

    async def start(self, notice: Notice, sink: Sink) -> None:
        """Finds what runs already, and watches it from now on. Never raises because something is away."""
        ...

    async def stop(self) -> None:
        """Lets go. Everything goes on running."""
        ...

    async def prepare(self, artifact: Artifact, say: Callable[[str], None]) -> None:
        """What may take long before an instance can be started is done: an image is on the engine. `say`
        takes a line of the build log. May be left out: `run` does it then."""
        ...

    async def run(self, wanted: Workload, index: int) -> Instance:
        """There is this instance afterwards, running; one that is there already is left as it is. Raises
        VolumeLost instead of making a volume that `is_known`.
        It is started anew, with growing pauses, whenever it ends, until it is removed."""
        ...

    async def once(self, wanted: Workload, index: int = 0) -> Outcome:
        """Runs a workload to its end, exactly once for each (service, generation, index), and returns how it
        ended, after all that it wrote was handed on. A further call, also by another Windlass or after one
        was killed, waits for the same run or answers with its result. Nothing starts it again because it
        ended. The result stays until it is removed; a call that waits then raises an EngineError. A caller
        that no longer waits does not end it: `remove` does."""
        ...

    async def observe(self, service: str) -> list[Instance]:
        """All its instances, of every generation."""
        ...

    async def all(self) -> list[Instance]: ...

    async def remove(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = 10.0,
    ) -> None:
        """Asks instances to end (of one generation, or all; all of it, or only some), and ends them after
        `grace`. What they wrote to volumes stays. Absent is fine. They are gone when this returns."""
        ...

    async def discard(self, service: str) -> None:
        """Nothing of this service is left: instances, working copies, volumes, its part in networks."""
        ...

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Runs a command where the instance runs, with its variables: exit code and output."""
        ...

    async def neighbour_address(self, service: str, name: str, internal: int) -> tuple[str, int]:
        """Host and port at which other services of its environment find this port, from now on and over all
        generations, whether it runs or not. An instance that is `alone` answers there itself; of others, the
        router does where the host is this machine."""
        ...

    async def usage(self) -> Mapping[str, Usage]:
        """Of every instance that runs, by its id."""
        ...

    async def services(self) -> Mapping[str, StoredData]:
        """Returns all services of which the engine stores anything, even only a record."""
        ...

    async def sweep(self, erase: Collection[str]) -> None:
        """Discards these services, and nothing of any other. Tidies what belongs to no service at all."""
        ...

    async def set_aside(self, service: str, into: Path) -> None:
        """Ends all instances of a service and erases nothing. An engine that stores files moves them to the
        folder `into`; other data stays in place. May be repeated after an interruption."""
        ...

    async def put_back(self, service: str, out: Path) -> None:
        """Undoes `set_aside`: all data is in place again, and nothing runs before `run` is called."""
        ...

    async def trouble(self) -> str:
        """Why nothing can be run now, or an empty text."""
        ...
