"""The interface of engines. Each call may be repeated, delayed, or interrupted at any point.

An engine runs generations of services. Instances keep running when Windlass ends; `start` finds and adopts
them. An instance is identified by (service, generation, index), and at most one copy of it is alive. An
instance belongs to one deployment. If another deployment has the same generation number (after restoring an
older database), the new deployment ends the instance and starts its own.

An engine's limits are checked when a service is created or changed, and again before an instance is started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from msgspec import Struct

from windlass.engines.registries import PullRequest, RegistryLogin
from windlass.engines.workload import (
    MAX_OUTPUT_BYTES,
    Artifact,
    HealthProbe,
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
    """The resources that a service requests for each instance. The fields have the names of the service's
    settings."""

    cpu: int
    memory: int
    gpu: int = 0


class EngineLimits(Struct, frozen=True, kw_only=True):
    """The limits of an engine for one instance. None means that the maximum is not known."""

    cpu: int | None = None
    """Thousandths of a core."""
    memory: int | None = None
    """Megabytes."""
    gpu: int | None = None
    least_cpu: int = 1
    least_memory: int = 1


UNKNOWN_LIMITS: Final = EngineLimits()


def unmet(limits: EngineLimits, demand: Demand) -> Iterator[tuple[str, str]]:
    """Yields each field of a demand that violates the engine's limits, with an explanation."""
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
"""The range from which engines choose host ports. It is below the ephemeral ports, which begin at 32768 by
default, and does not overlap `public_ports`."""


class DiskMeasurement(Struct, frozen=True):
    """The disk usage of organizations on this machine at the last measurement."""

    share: int = 0
    """Quota of each organization, in bytes."""
    held: Mapping[str, int] = {}
    """Usage in bytes, by organization."""
    volumes: Mapping[str, int] = {}
    """Total size in bytes of each service's volumes, if these are folders."""


class ExecutionRequest(Struct, frozen=True):
    """A command to run in the environment of an instance, in addition to its program."""

    command: Sequence[str]
    terminal: TerminalSize | None = None
    """Size of the terminal; None for pipes instead of a terminal."""


class TerminalSize(Struct, frozen=True):
    """The size of a terminal, in characters."""

    columns: int
    rows: int


class Execution(Protocol):
    """A running command in the environment of an instance, with its input and output."""

    async def read(self) -> bytes:
        """Returns the next output of both streams; empty at the end. The command is blocked while its output
        is not read."""
        ...

    async def write(self, data: bytes) -> None:
        """Sends input to the command. Waits while the command does not read. Does nothing after the command
        has ended."""
        ...

    async def end_input(self) -> None:
        """Closes the command's input. In a terminal, sends the end-of-input character (Ctrl-D)."""
        ...

    async def resize(self, size: TerminalSize) -> None:
        """Changes the terminal size. Does nothing without a terminal."""
        ...

    async def wait(self) -> int:
        """Waits for the end of the command. Returns its exit code in the convention of shells: 128 plus the
        signal number if it was killed."""
        ...

    async def close(self) -> None:
        """Kills the command and all processes that it has started. Idempotent; may be called at any time."""
        ...


class EngineError(Exception):
    """Raised if the engine refuses or fails. The message is for the user who deployed."""


class InstanceEnded(EngineError):
    """Raised if the instance has ended, even if it was started again."""


class EngineUnavailable(EngineError):
    """Raised if the engine is unavailable. The same call may succeed later."""


class NotReady(EngineError):
    """Raised if a generation does not become ready."""


class ListensElsewhere(NotReady):
    """Raised if Windlass chose the only port of a generation, and its program answers HTTP on another
    port."""

    def __init__(self, advice: str, port: int) -> None:
        super().__init__(advice)
        self.port = port


def output_too_long() -> EngineError:
    return EngineError(
        f"Write less to the output file of the run: it is longer than {MAX_OUTPUT_BYTES} bytes"
    )


class ArtifactLost(EngineError):
    """Raised if the folder or image of a workload no longer exists. It must be built again."""


class VolumeLost(EngineError):
    """Raised if a volume that contained data no longer exists."""

    def __init__(self, workload: Workload, volume: Volume) -> None:
        super().__init__(
            f"Bring back the volume of {workload.name} at {volume.mount} ({volume.name}), or uninstall "
            f"{workload.name} and deploy it again, to begin empty: the volume held data, and it is not there "
            "any more. Nothing was started"
        )


Notice = Callable[[str], None]
"""Callback with the id of a service whose instance has ended, restarted, become ready or unready, or was
started by another server. A caller of an engine method gets no notice of the method's own effects."""
Missed = Callable[[], None]
"""Callback for missed notices after the engine was unavailable: the state of any service may have changed."""
Say = Callable[[str], None]
"""Callback that writes a line to the build log."""
Note = Callable[[str], Awaitable[None]]
"""Callback with a remedy, as readable text, for a generation that takes long to become ready. The same remedy
is not repeated."""
Sink = Callable[[str, Sequence[OutputLine]], None]
"""Callback with the id of a service and output lines of its instances."""
Leave = Callable[[Sequence[Instance]], Awaitable[None]]
"""Callback that is awaited with surplus instances before they are ended. They are already marked as not
ready. If the callback raises an exception, the instances are kept."""


async def leave_immediately(instances: Sequence[Instance]) -> None:
    """Returns immediately; a `Leave` callback without effect."""


async def ignore_note(reason: str) -> None:
    """Does nothing."""


def ignore_lost_lines() -> None:
    """Does nothing."""


class Engine(Protocol):
    name: str
    takes: Literal["native", "image"]
    """The kind of artifact that the engine runs."""
    limits: EngineLimits
    """The limits for one instance; `UNKNOWN_LIMITS` until the engine has answered."""
    identity: str
    """Identity of the engine's machine; empty until the engine has answered, and always empty for engines
    that only run on the server's machine."""

    @property
    def is_unavailable(self) -> bool:
        """Whether the engine has not answered for some seconds, so that the state of its instances is not
        known."""
        return False

    @property
    def measures_memory(self) -> bool:
        """Whether the memory usage of all instances is known. False if the usage of an instance without a
        control group limit could not be measured for a minute."""
        return True

    @property
    def server_host(self) -> str:
        """Host name under which a workload with `calls_server` reaches this server's machine; empty if the
        engine provides no name."""
        return ""

    @property
    def server_folder(self) -> str:
        """Folder with the servers' Unix sockets for workloads with `calls_server`; empty if they connect by
        network."""
        return ""

    async def start(self, notice: Notice, sink: Sink, on_missed_notices: Missed = ignore_lost_lines) -> None:
        """Finds all running instances, and starts watching them. Does not raise if the engine is
        unavailable."""
        ...

    async def stop(self) -> None:
        """Releases all resources of this object. Instances keep running."""
        ...

    async def resolve(self, request: PullRequest, write_line: Say) -> str:
        """Resolves an image tag to a digest reference. The name of an image that only exists on the engine is
        returned unchanged."""
        ...

    async def prepare(
        self,
        artifact: Artifact,
        write_line: Say,
        login: RegistryLogin | None = None,
        org: str = "",
        service: str = "",
    ) -> None:
        """Prepares an artifact, for example pulls its image, because this may take long. May be skipped
        unless it needs a login, because `apply` prepares the artifact, too.

        `write_line` writes to the build log. `service` is recorded as a user of the artifact: a pulled image
        is removed when no service uses it."""
        ...

    async def export(self, artifact: Artifact, folder: str, destination: Path) -> Path:
        """Returns a folder of this machine with the files of an artifact's folder, which is relative to its
        working directory. May copy the files to `destination`, an empty folder. Raises ArtifactLost if the
        artifact no longer exists."""
        ...

    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        """Scales a generation to exactly `count` instances, independently of other generations. Starts
        missing instances, keeps running ones, and ends surplus ones after `leave`.

        Returns the resulting state of the service, without waiting for readiness; an engine with its own
        controller may start instances later. Raises VolumeLost instead of creating a volume that `is_known`,
        EngineError for a removed generation, and ArtifactLost if the artifact no longer exists.

        From then on, the engine restarts instances with a back-off when they end or fail a probe in `alive`.
        If the probes in `ready` are `watched`, it marks instances that fail them as not ready."""
        ...

    async def wait_until_ready(self, workload: Workload, count: int, note_reason: Note = ignore_note) -> None:
        """Waits until `count` instances of an applied generation are ready.

        Raises NotReady with the reason if an instance has ended, if the instances certainly cannot become
        ready, or if the workload's time limit (`patience`) has passed. Raises ListensElsewhere if the program
        uses another port than the `automatic` one. `note_reason` gets the reason earlier if the wait takes
        long."""
        ...

    async def once(self, workload: Workload, index: int = 0) -> Outcome:
        """Runs a workload exactly once per (service, generation, index), and returns its outcome after all
        output was passed on.

        A repeated call, even by another server or after a crash, waits for the same run or returns its
        outcome. The workload is not restarted when it ends. The outcome is stored until `remove`, after which
        waiting calls raise EngineError. Cancelling a call does not end the run; only `remove` does."""
        ...

    async def read_output(self, workload: Workload, index: int = 0) -> bytes | None:
        """Returns the output file of an ended workload with `writes_output`; None if it does not exist. Does
        not follow symbolic links. Raises EngineError if it is not a regular file, or too long."""
        ...

    async def observe(self, service: str) -> Observation: ...

    async def all(self) -> list[Instance]:
        """Returns the instances of all services."""
        ...

    async def present(self) -> Sequence[Presence]:
        """Returns all existing instances, with a single call to the engine."""
        return [
            Presence(instance.service, instance.generation, instance.phase is Phase.RUNNING)
            for instance in await self.all()
        ]

    async def remove(self, service: str, *, generation: int | None = None, grace: float = 10.0) -> None:
        """Ends all instances of a generation, or of all generations: asks them to stop, and kills them after
        `grace` seconds.

        Volumes are kept. Succeeds if no instances exist. When the call returns, the instances have ended, and
        a delayed `apply` does not start the generation again."""
        ...

    async def discard(self, service: str) -> None:
        """Deletes all data of a service: instances, working copies, volumes and network resources."""
        ...

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Runs a command in the environment of an instance, with its variables. Returns exit code and
        output."""
        ...

    async def probe(self, instance: Instance, probe: HealthProbe) -> str:
        """Runs a probe once. Returns why the instance does not pass, as readable text; empty if it passes."""
        ...

    async def open_execution(self, instance: Instance, request: ExecutionRequest) -> Execution:
        """Starts a command in the environment of an instance, with its variables, limits and privileges.
        Returns the running command with its input and output.

        Commands of a killed server are ended at the next start of the engine at the latest. Raises
        EngineError if the instance does not run."""
        ...

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        """Returns the address of a port for other services of the environment. The address is fixed for all
        generations, whether the service runs or not."""
        ...

    async def routed_addresses(self, workload: Workload, internal: int) -> Sequence[RoutedAddress]:
        """Returns the addresses at which the router must listen for connections from other services to a
        port; none if these connect to instances directly."""
        return ()

    async def shared_network(self) -> str:
        """Returns why all instances share the machine's network, in which a program can use another service's
        port; empty if they do not."""
        return ""

    async def why_one_organization(self) -> str:
        """Returns why the isolation of services is too weak for several organizations; empty if it is
        sufficient."""
        return ""

    async def usage(self) -> Mapping[str, Usage]:
        """Returns the resource usage of each running instance, by instance id."""
        ...

    async def volume_sizes(self) -> Mapping[str, int]:
        """Returns the volume size of each service in bytes, for volumes that are not folders of the data
        directory."""
        return {}

    def note_disk_use(self, measurement: DiskMeasurement) -> None:
        """Stores a disk measurement. When the disk is nearly full, the engine uses it to choose the
        organization that loses an instance. Engines without this duty ignore it."""
        return

    async def services(self) -> Mapping[str, StoredData]:
        """Returns all services with any data on the engine, even a mere record."""
        ...

    async def sweep(self, deleted_services: Collection[str]) -> None:
        """Deletes all data of exactly these services, and leftovers that belong to no service."""
        ...

    async def set_aside(self, service: str, destination: Path) -> None:
        """Ends all instances of a service without deleting data. Moves stored files to the folder
        `destination`; other data stays in place. Can be repeated after an interruption."""
        ...

    async def put_back(self, service: str, source: Path) -> None:
        """Reverts `set_aside`: moves the data back. Instances do not start before `apply` is called."""
        ...

    async def problem(self) -> str:
        """Returns why the engine cannot run anything at the moment; empty if it can."""
        ...
