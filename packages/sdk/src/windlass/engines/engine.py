"""The verbs of an engine, each of which may run twice, run late, or be interrupted at any point.

An engine runs generations of services. Instances keep running when Windlass ends, and are found again:
`start` adopts them. An instance is identified by (service, generation, index); there is never more than one
live copy of one. It belongs to one deployment: where another one has its generation, as after a restore of an
older database, that one ends the instance and starts its own.

Its limits are asked when a service is created or changed, and by the engine itself before it starts an
instance.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from msgspec import Struct

from windlass.engines.registries import PullRequest, RegistryLogin
from windlass.engines.workload import (
    LONGEST_OUTPUT,
    Artifact,
    Instance,
    Observation,
    Outcome,
    OutputLine,
    Phase,
    Presence,
    RoutedAddress,
    ServiceAddress,
    StoredData,
    Usage,
    Volume,
    Workload,
)


class Demand(Struct, frozen=True):
    """The resources that a service asks for, for each instance; the fields are those of its settings."""

    cpu: int
    memory: int
    gpu: int = 0


class EngineLimits(Struct, frozen=True, kw_only=True):
    """The resources that an engine can give to one instance. A maximum of None is not known."""

    cpu: int | None = None
    """Thousandths of a core."""
    memory: int | None = None
    """Megabytes."""
    gpu: int | None = None
    least_cpu: int = 1
    least_memory: int = 1


UNKNOWN: Final = EngineLimits()


def unmet(limits: EngineLimits, demand: Demand) -> Iterator[tuple[str, str]]:
    """Yields each field that asks for more or less than the engine can give, and what it should be."""
    rows = (
        ("cpu", demand.cpu, limits.cpu, limits.least_cpu, "thousandths of a core"),
        ("memory", demand.memory, limits.memory, limits.least_memory, "MB"),
        ("gpu", demand.gpu, limits.gpu, 0, "GPUs"),
    )
    for field, asked, most, least, unit in rows:
        if most is not None and asked > most:
            yield field, f"must be at most {most}: the engine of this cluster has {most or 'no'} {unit}"
        elif asked < least:
            yield field, f"must be at least {least}: the engine of this cluster gives no fewer {unit}"


PORTS_OF_ENGINES: Final = range(10_000, 30_000)
"""Host ports that engines choose from: below the ephemeral ports, which begin at 32768 by default, and not
in `public_ports`."""


class DiskMeasurement(Struct, frozen=True):
    """The disk usage of organizations on this machine, by the last measurement."""

    share: int = 0
    """Bytes that an organization may hold."""
    held: Mapping[str, int] = {}
    """Bytes, by organization."""
    volumes: Mapping[str, int] = {}
    """Bytes in the volumes of services that are folders, by service."""


class ExecutionRequest(Struct, frozen=True):
    """A command to run beside the program of an instance."""

    command: Sequence[str]
    terminal: TerminalSize | None = None
    """The size of the terminal; None for pipes instead of a terminal."""


class TerminalSize(Struct, frozen=True):
    """The size of a terminal, in characters."""

    columns: int
    rows: int


class Execution(Protocol):
    """A command that runs beside the program of an instance, with its input and its output."""

    async def read(self) -> bytes:
        """Returns the next output, from both streams; empty after the last. The command waits while its
        output is not read."""
        ...

    async def write(self, data: bytes) -> None:
        """Passes input on. Waits while the command does not read; does nothing once it has ended."""
        ...

    async def end_input(self) -> None:
        """Ends the input. In a terminal, this is the character for it (Ctrl-D)."""
        ...

    async def resize(self, size: TerminalSize) -> None:
        """Changes the size of the terminal. Does nothing without one."""
        ...

    async def wait(self) -> int:
        """Waits for the end of the command. Returns its exit code by the convention of shells: 128 plus the
        number of a signal."""
        ...

    async def close(self) -> None:
        """Ends the command, and everything that it has started. May be called at any time, and again."""
        ...


class EngineError(Exception):
    """The engine cannot do it; the message is for the person who deployed."""


class InstanceEnded(EngineError):
    """The instance does not run any more, or another run of it has begun."""


class EngineUnavailable(EngineError):
    """The engine does not answer now; the same call may succeed later."""


class NotReady(EngineError):
    """A generation did not become ready."""


class ListensElsewhere(NotReady):
    """A generation has one port, which Windlass chose, and its program answers HTTP on another one."""

    def __init__(self, advice: str, port: int) -> None:
        super().__init__(advice)
        self.port = port


def output_too_long() -> EngineError:
    return EngineError(f"Write less to the output file of the run: it is longer than {LONGEST_OUTPUT} bytes")


class ArtifactLost(EngineError):
    """The folder or image that a workload runs was removed: it has to be built again."""


class VolumeLost(EngineError):
    """A volume that held data is not there any more."""

    def __init__(self, workload: Workload, volume: Volume) -> None:
        super().__init__(
            f"Bring back the volume of {workload.name} at {volume.mount} ({volume.name}), or uninstall "
            f"{workload.name} and deploy it again, to begin empty: the volume held data, and it is not there "
            "any more. Nothing was started"
        )


Notice = Callable[[str], None]
"""Called with the id of a service of which an instance ended, was restarted, became ready or ceased to be, or
was started by another Windlass. The caller of a verb gets no notice of what the verb does."""
Missed = Callable[[], None]
"""Called when notices may have been missed, because the engine was unavailable: anything may have changed."""
Say = Callable[[str], None]
"""Writes a line to the build log."""
Note = Callable[[str], Awaitable[None]]
"""Takes the remedy, as readable text, about a generation that is not ready for long. The same problem is not
reported again."""
Sink = Callable[[str, Sequence[OutputLine]], None]
"""Called with the id of a service and the output of its instances."""
Leave = Callable[[Sequence[Instance]], Awaitable[None]]
"""Awaited with surplus instances before they are ended. They are no longer ready. If it raises an
exception, they are kept."""


async def leave_immediately(instances: Sequence[Instance]) -> None:
    """Waits for nothing."""


async def ignore_note(reason: str) -> None:
    """Does nothing."""


def ignore_lost_lines() -> None:
    """Does nothing."""


class Engine(Protocol):
    name: str
    takes: Literal["native", "image"]
    """The kind of artifact that it runs."""
    limits: EngineLimits
    """The resources that it can give to one instance; UNKNOWN until it has answered."""
    identity: str
    """Distinguishes it from engines of other machines; empty until it has answered. An engine that can only
    be on the machine of the server has none."""

    @property
    def is_unavailable(self) -> bool:
        """Returns whether the engine has not answered for some seconds: nothing is known of what it runs."""
        return False

    @property
    def measures_memory(self) -> bool:
        """Returns False if the memory of an instance, which no control group limits, could not be measured
        for a minute."""
        return True

    @property
    def server_host(self) -> str:
        """The name by which a workload that `calls_server` finds the machine of this server; empty if the
        engine provides none."""
        return ""

    @property
    def server_folder(self) -> str:
        """The folder in which a workload that `calls_server` finds sockets of servers; empty if it finds them
        by network."""
        return ""

    async def start(self, notice: Notice, sink: Sink, missed: Missed = ignore_lost_lines) -> None:
        """Finds all running instances, and watches them from now on. Does not raise if the engine is
        unavailable."""
        ...

    async def stop(self) -> None:
        """Releases all resources of this object. All instances keep running."""
        ...

    async def resolve(self, request: PullRequest, say: Say) -> str:
        """Returns a reference by digest to the image that a tag stands for now. An image that only the engine
        has keeps its name."""
        ...

    async def prepare(
        self,
        artifact: Artifact,
        say: Say,
        login: RegistryLogin | None = None,
        org: str = "",
        service: str = "",
    ) -> None:
        """Does what may take long before an instance can start, such as pulling an image. `say` writes a
        line to the build log. May be left out unless it takes a login: `apply` does it then. `service` uses
        the artifact: what is pulled for it is removed when no service needs it any more."""
        ...

    async def export(self, artifact: Artifact, folder: str, into: Path) -> Path:
        """Returns a folder of this machine with the files of a folder of an artifact, which is relative to
        its working directory. May copy them to `into`, an empty folder of the caller. Raises ArtifactLost if
        the artifact is gone."""
        ...

    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        """Brings a generation to exactly `count` instances, beside other generations: starts those that
        are missing, leaves those that run as they are, and ends surplus ones after `leave`. Returns the
        service as it is then, without waiting until the instances are ready; an engine with its own
        controller may start them a little later. Raises VolumeLost instead of making a volume that
        `is_known`, and an EngineError for a generation that was removed. Otherwise raises ArtifactLost if
        what it runs is gone.

        From now on the engine restarts each instance, with growing pauses, whenever it ends or fails a probe
        in `alive`, and marks it as not ready while it fails one in `ready`, if these are `watched`."""
        ...

    async def wait_until_ready(self, workload: Workload, count: int, note: Note = ignore_note) -> None:
        """Returns once `count` instances of an applied generation are ready. Raises NotReady with the reason
        when one has ended, when it is certain that they will not be, or when the patience of the workload is
        over; ListensElsewhere where another port than an `automatic` one would do. `note` gets the reason
        earlier, if it takes long."""
        ...

    async def once(self, workload: Workload, index: int = 0) -> Outcome:
        """Runs a workload to its end, exactly once for each (service, generation, index). Returns how it
        ended, after all its output was handed on. A further call, also by another Windlass or after one was
        killed, waits for the same run or answers with its result. Nothing starts it again because it ended.
        The result stays until it is removed; a call that waits then raises an EngineError. A caller that no
        longer waits does not end it: `remove` does."""
        ...

    async def read_output(self, workload: Workload, index: int = 0) -> bytes | None:
        """Returns the file that a workload with `writes_output` has left, after its end; None if there is
        none. Follows no link of the program. Raises EngineError if it is no file, or too long."""
        ...

    async def observe(self, service: str) -> Observation: ...

    async def all(self) -> list[Instance]:
        """Returns the instances of all services."""
        ...

    async def present(self) -> Sequence[Presence]:
        """Returns the instances that exist, with a single call to the engine."""
        return [
            Presence(instance.service, instance.generation, instance.phase is Phase.RUNNING)
            for instance in await self.all()
        ]

    async def remove(self, service: str, *, generation: int | None = None, grace: float = 10.0) -> None:
        """Asks all instances of one generation, or of every generation, to end, and kills them after `grace`.
        Their volumes stay. Succeeds if there are none. They are gone when this returns, and a late `apply`
        does not bring the generation back."""
        ...

    async def discard(self, service: str) -> None:
        """Erases all that belongs to a service: instances, working copies, volumes, its part in networks."""
        ...

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Runs a command where the instance runs, with its variables. Returns exit code and output."""
        ...

    async def open_execution(self, instance: Instance, request: ExecutionRequest) -> Execution:
        """Starts a command where the instance runs, with its variables, limits and rights, and returns it
        with its input and output. A server that is killed leaves none running beyond the next start of the
        engine. Raises an EngineError if the instance does not run."""
        ...

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        """Returns where other services of the environment find this port, from now on and over all
        generations, whether it runs or not."""
        ...

    async def routed_addresses(self, workload: Workload, internal: int) -> Sequence[RoutedAddress]:
        """Returns where the router has to listen for other services of the environment, so that they find
        this port; none where instances are reached without it."""
        return ()

    async def shared_network(self) -> str:
        """Returns why all instances share the network of a machine, where a program can take the port of
        another one; empty if they do not."""
        return ""

    async def why_one_organization(self) -> str:
        """Returns why services are not kept apart well enough here for several organizations; empty if they
        are."""
        return ""

    async def usage(self) -> Mapping[str, Usage]:
        """Returns the usage of every running instance, by its id."""
        ...

    async def volume_sizes(self) -> Mapping[str, int]:
        """Returns the bytes in the volumes of services, if these are not folders of the data directory."""
        return {}

    def note_disk_use(self, use: DiskMeasurement) -> None:
        """Takes a measurement of the disk, to choose by it which organization gives up an instance when the
        disk gets full. An engine that leaves this to others does nothing."""
        return

    async def services(self) -> Mapping[str, StoredData]:
        """Returns all services of which the engine stores anything, even only a record."""
        ...

    async def sweep(self, erase: Collection[str]) -> None:
        """Discards these services and no others. Removes leftovers that belong to no service."""
        ...

    async def set_aside(self, service: str, into: Path) -> None:
        """Ends all instances of a service and erases nothing. An engine that stores files moves them to the
        folder `into`; other data stays in place. May be repeated after an interruption."""
        ...

    async def put_back(self, service: str, out: Path) -> None:
        """Undoes `set_aside`: all data is in place again, and nothing runs before `apply` is called."""
        ...

    async def problem(self) -> str:
        """Returns why nothing can be run now; empty if all is well."""
        ...
