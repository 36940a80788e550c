"""Workloads and instances: the values that the reconciler, builders, engines and routers exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.engines.job_plans import JobPlan


class SiteHeader(Struct, frozen=True):
    """A response header for paths that match a pattern."""

    path: str
    """Path pattern; begins with `/`, and `*` matches any characters."""
    name: str
    value: str


class StaticSite(Struct, frozen=True, kw_only=True):
    """A folder of static files that is served unchanged."""

    folder: str
    """Path relative to the artifact's working directory; `.` is that directory itself."""
    fallback: str = ""
    """File for requests whose path does not exist; empty for none."""
    derived_fallback: str = ""
    """Fallback that the recipe suggests. It is used if `fallback` is empty, and the folder contains this file
    but no 404.html."""
    headers: tuple[SiteHeader, ...] = ()
    """Headers. For each header name, the first matching rule wins."""


OUTPUT_FILE: Final = "/windlass-output/windlass-output.json"
"""Path of a run's output file in containers, where each instance has its own file system."""
OUTPUT_VARIABLE: Final = "WINDLASS_OUTPUT"
"""Environment variable with the path of a run's output file."""
MAX_OUTPUT_BYTES: Final = 1_048_576
"""Maximum size of the output file, in bytes."""
MAX_EXPOSED_PORTS: Final = 20
"""Maximum number of an image's ports that are published without being declared by the service."""
RELEASE_INDEX: Final = 100_000
"""Index of a release command's run, and of a one-off run. It differs from the indexes of all instances of the
generation."""


def is_of_release(pod: str) -> bool:
    """Returns whether an instance name belongs to a release command or a one-off run. Names end with the
    index."""
    return pod.endswith(f"-{RELEASE_INDEX}")


class Artifact(Struct, frozen=True, kw_only=True):
    """The result of a build: everything needed to start instances without building again."""

    kind: Literal["native", "image"]
    ref: str
    """A folder with `app` (which is copied for each instance) and files that instances share; or an image
    reference."""
    key: str = ""
    """Digest of the inputs. Inputs with the same digest are built only once."""
    command: tuple[str, ...] = ()
    """Command of the web process, or of the only process; empty for the image's command."""
    processes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Commands of all process types, by name."""
    release: tuple[str, ...] = ()
    """Command that runs once per deployment, before the new version serves requests."""
    static: StaticSite | None = None
    """Static files that the gateway serves; no instances are started."""
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    """Working directory, below `app` or inside the image; empty for the builder's default."""
    ports: tuple[int, ...] = ()
    """Ports that the image or recipe declares."""
    web_port: int = 0
    """Port of the web process if PORT is not set, according to the application's files; 0 if unknown."""

    @property
    def is_files_alone(self) -> bool:
        """Whether this is the image of a static site, which contains no program."""
        return self.kind == "image" and self.static is not None


class ProbeKind(StrEnum):
    TCP = "tcp"
    HTTP = "http"
    EXEC = "exec"


class HealthProbe(Struct, frozen=True, kw_only=True):
    """A check whether an instance is healthy. Times are in seconds."""

    kind: ProbeKind
    port: int = 0
    """Port inside the instance's network."""
    path: str = "/"
    scheme: str = "http"
    command: tuple[str, ...] = ()
    initial_delay: float = 0.0
    period: float = 1.0
    timeout: float = 5.0
    successes: int = 1
    failures: int = 9
    accepted: bool = False
    """Whether a TCP probe waits until the program accepts the connection, if the engine can detect that.
    Otherwise, an open port is sufficient."""


class WorkloadPort(Struct, frozen=True, kw_only=True):
    name: str
    internal: int
    protocol: Literal["HTTP", "GRPC", "TCP", "UDP"] = "HTTP"
    public: bool = False
    external: int | None = None
    path: str = "/"
    rewrite: str | None = None
    default: bool = False
    automatic: bool = False
    """Whether Windlass chose the port. If the program answers on another port, that port is used instead."""
    host: str = ""
    """Host name label of the service at the gateway, reserved before the deployment."""


class Volume(Struct, frozen=True, kw_only=True):
    """Persistent storage of a service, independent of its instances."""

    name: str
    mount: str
    size: int = 0
    """Size in GB; 0 for no limit."""
    is_known: bool = False
    """Whether an earlier deployment has used the volume. If it no longer exists, its data is lost, and
    instances are not started with an empty volume."""


class Workload(Struct, frozen=True, kw_only=True):
    """The desired state of one generation of a service."""

    service: str
    family: str
    name: str
    """Display name."""
    known_as: str = ""
    """Host name under which other services of the environment reach the service; empty if it has none."""
    environment: str
    org: str
    generation: int
    """Number of the deployment. A later generation replaces an earlier one."""
    deployment: str
    artifact: Artifact
    entrypoint: tuple[str, ...] = ()
    """Program that gets `command` as arguments; empty for the image's ENTRYPOINT."""
    command: tuple[str, ...] = ()
    """Command that overrides the artifact's command."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables; they override the artifact's variables. The engine sets PORT if it is
    missing."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Content of files, by their path in the instance."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the service's groups, for engines whose objects have labels."""
    hidden: frozenset[str] = frozenset()
    """Names of variables and paths of files whose content must not be shown."""
    cpu: int = 500
    """Thousandths of a core."""
    memory: int = 512
    """Megabytes."""
    ports: tuple[WorkloadPort, ...] = ()
    volumes: tuple[Volume, ...] = ()
    alone: bool = False
    """Whether two generations must not run at the same time, because they would write to the same files."""
    after_start: tuple[str, ...] = ()
    """Command that Windlass runs in each instance after its start, with `Engine.execute`; empty for none."""
    direct: bool = False
    """Whether other services connect without a router: the service is `alone` and listens on all its
    addresses."""
    instances: int = 1
    most: int = 1
    """Minimum and maximum number of instances."""
    ready: tuple[HealthProbe, ...] = ()
    """Readiness probes. All must succeed before an instance gets requests."""
    watched: bool = False
    """Whether `ready` is also checked after the start, because users declared the probes."""
    alive: tuple[HealthProbe, ...] = ()
    """Liveness probes. An instance that fails one is restarted."""
    settle: float = 3.0
    """Seconds after which a running instance without probes counts as healthy."""
    patience: float = 300.0
    """Time limit in seconds for becoming ready."""
    grace: float = 10.0
    """Seconds between the stop signal and the kill."""
    time_limit: float = 3600.0
    """Seconds after which a one-off run is ended."""
    read_only: bool = False
    """Whether instances can write to nothing but their volumes and temporary folders, on engines of
    containers."""
    writes_output: bool = False
    """Whether the workload may write an output file, which `Engine.read_output` returns."""
    calls_server: bool = False
    """Whether the workload sends requests to the server; see `Engine.server_host`."""
    job: JobPlan | None = None
    """Schedule of a job, whose runs start this workload, each with its own command."""

    @property
    def secrets(self) -> Iterator[str]:
        """Secret values that must not appear in logs."""
        for name in self.hidden:
            if name in self.variables:
                yield self.variables[name]
            if name in self.files:
                yield self.files[name].decode(errors="replace")


def as_run(workload: Workload, command: tuple[str, ...]) -> Workload:
    """Returns a workload that runs a single command with the same build, variables and volumes, but without
    ports and probes."""
    is_image = workload.artifact.kind == "image"
    return replace(
        workload,
        artifact=replace(workload.artifact, command=(), ports=()),
        entrypoint=command[:1] if is_image else (),
        command=command[1:] if is_image else command,
        ports=(),
        alone=False,
        after_start=(),
        direct=False,
        ready=(),
        watched=False,
        alive=(),
    )


class Phase(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """The instance has ended and waits for its next start, with a growing back-off."""
    EXITED = "exited"


class Instance(Struct, frozen=True, kw_only=True):
    """The state of one copy of a workload, as reported by the engine."""

    id: str
    service: str
    generation: int
    index: int
    phase: Phase
    address: str
    """Address of the ports. It has no default, because a local port may belong to another program."""
    ports: Mapping[int, int] = field(default_factory=dict)
    """Maps a port inside the instance to the port at `address`, if known."""
    inside: str = ""
    """The instance's own address, where it may be reachable without a proxy; empty if it has none."""
    network: str = ""
    """The instance's own network namespace, to which `address` belongs (base/isolation/network.py); empty for
    the machine's network."""
    exit_code: int | None = None
    reason: str = ""
    """Reason of the last end, as readable text: `exited with code 1`, `was killed: out of memory`."""
    is_cut_off: bool = False
    """Whether the program did not cause the last end, as far as the engine knows: the machine was restarted,
    or its network was gone. The instance is started again, and says nothing about its version."""
    restarts: int = 0
    started_at: int = 0
    unready: str = ""
    """Why the running instance must not get requests, as readable text; empty if it may."""

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.RUNNING and not self.unready


class Presence(NamedTuple):
    """An existing instance, and whether it is running."""

    service: str
    generation: int
    is_running: bool


class Observation(Struct, frozen=True):
    """The instances of one service in all generations, at one point in time."""

    instances: tuple[Instance, ...] = ()

    def of(self, generation: int) -> Observation:
        """Returns the instances of one generation."""
        return Observation(
            tuple(instance for instance in self.instances if instance.generation == generation)
        )

    @property
    def ready(self) -> tuple[Instance, ...]:
        """Instances that may get requests."""
        return tuple(instance for instance in self.instances if instance.is_ready)

    @property
    def broken(self) -> tuple[Instance, ...]:
        """Instances that are not running, each with its reason."""
        return tuple(instance for instance in self.instances if instance.phase is not Phase.RUNNING)


class ServiceAddress(Struct, frozen=True):
    """The address of a port for other services of the environment."""

    host: str
    port: int


class RoutedAddress(Struct, frozen=True):
    """An address at which the router listens for other services of an environment."""

    host: str
    port: int
    network: str = ""
    """The network namespace of the address; empty for the machine's own network."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a one-off run."""

    exit_code: int | None
    """Exit code in the convention of shells: 128 plus the signal number if killed. None if it was lost with
    its machine."""
    reason: str
    """The reason as readable text: `exited with code 1`, `was killed: out of memory`."""
    started_at: int
    ended_at: int
    peak_memory: int = 0
    """Peak memory usage in bytes; 0 if unknown."""


class StoredData(Struct, frozen=True, kw_only=True):
    """The data of one service on an engine, even if the service is missing in the database."""

    name: str = ""
    """Display name, if known."""
    instances: int = 0
    volumes: int = 0
    is_lost: bool = False
    """Whether the service runs although its files are missing, for example because a disk is not mounted."""


class Usage(Struct, frozen=True, kw_only=True):
    """Resource usage of an instance. The difference of two samples gives a rate."""

    cpu_ms: int = 0
    """CPU time since the start, in milliseconds."""
    memory: int = 0
    """Memory usage in bytes."""


class OutputLine(Struct, frozen=True, gc=False):
    """An output line of an instance or a build."""

    at: int
    message: str
    pod: str = ""
    """Instance name, such as `web-7-0`: service name, generation and index."""
    version: str = ""
    stage: str = ""
    """Deployment stage to which the line belongs, if known."""
