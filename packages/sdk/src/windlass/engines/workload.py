"""Workloads and instances: the values that reconciler, builders, engines and routers exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.engines.job_plans import JobPlan


class SiteHeader(Struct, frozen=True):
    """A header of answers whose path fits."""

    path: str
    """Begins with `/`; `*` stands for any characters."""
    name: str
    value: str


class StaticSite(Struct, frozen=True, kw_only=True):
    """A folder that is served as it is."""

    folder: str
    """Below the working folder of the artifact; `.` is that folder itself."""
    fallback: str = ""
    """A file below the folder, answered where no file has the path; empty is none."""
    derived_fallback: str = ""
    """The fallback that the recipe names. It counts where there is no other one, and the folder has this file
    and no 404.html."""
    headers: tuple[SiteHeader, ...] = ()
    """The first matching rule counts, for each name."""


OUTPUT_FILE: Final = "/windlass-output/windlass-output.json"
"""The path of the file that a run may write, where the engine has paths of its own for each instance."""
OUTPUT_VARIABLE: Final = "WINDLASS_OUTPUT"
"""The variable with the path of that file."""
LONGEST_OUTPUT: Final = 1_048_576
"""Bytes of that file."""
MOST_EXPOSED: Final = 20
"""Ports of an image that are published without being declared as ports of the service."""
RELEASE_INDEX: Final = 100_000
"""The index of the run of a release command, and of a one-off run: none of the instances of its generation
has it."""


def is_of_release(pod: str) -> bool:
    """Returns True for the name of the run of a release command, or of a one-off run. Names end with the
    index."""
    return pod.endswith(f"-{RELEASE_INDEX}")


class Artifact(Struct, frozen=True, kw_only=True):
    """The result of a build: enough to start it as often as needed without building again."""

    kind: Literal["native", "image"]
    ref: str
    """A folder with `app` (copied for each instance) beside what instances share; or an image."""
    key: str = ""
    """Digest of its inputs: the same key is never built twice."""
    command: tuple[str, ...] = ()
    """The command of the web process, or of the only process; empty for the command of the image."""
    processes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The commands of all process types, by name."""
    release: tuple[str, ...] = ()
    """The command that runs once for a deployment, before the version serves."""
    static: StaticSite | None = None
    """The gateway serves it, and no instance is started."""
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    """Below `app`, or inside the image; empty is the builder's default."""
    ports: tuple[int, ...] = ()
    """The declared ports."""
    web_port: int = 0
    """The port of the web process unless PORT is set, if files show that it serves; else 0."""

    @property
    def is_files_alone(self) -> bool:
        """Returns True for the image of a static site, in which no program is."""
        return self.kind == "image" and self.static is not None


class ProbeKind(StrEnum):
    TCP = "tcp"
    HTTP = "http"
    EXEC = "exec"


class HealthProbe(Struct, frozen=True, kw_only=True):
    """A check whether an instance is healthy. Times are in seconds."""

    kind: ProbeKind
    port: int = 0
    """The port inside, as the instance knows it."""
    path: str = "/"
    scheme: str = "http"
    command: tuple[str, ...] = ()
    initial_delay: float = 0.0
    period: float = 1.0
    timeout: float = 5.0
    successes: int = 1
    failures: int = 9
    accepted: bool = False
    """A TCP connection passes only once the program has accepted it, as far as the engine sees that. Without
    this, an open port is enough."""


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
    """True if Windlass chose the port: if the program answers on another port, that one is used instead."""
    host: str = ""
    """The label under which the gateway serves it, reserved before it is deployed."""


class Volume(Struct, frozen=True, kw_only=True):
    """Storage that outlives the instances; it belongs to the service."""

    name: str
    mount: str
    size: int = 0
    """The size in GB; 0 for no limit."""
    is_known: bool = False
    """An earlier deployment has served with it: where it is not there any more, its data is lost, and nothing
    is started with an empty one."""


class Workload(Struct, frozen=True, kw_only=True):
    """One generation of one service, as it should run."""

    service: str
    family: str
    name: str
    """The display name."""
    known_as: str = ""
    """The name by which other services of its environment find it, if it has one."""
    environment: str
    org: str
    generation: int
    """The number of the deployment: a later one replaces an earlier one."""
    deployment: str
    artifact: Artifact
    entrypoint: tuple[str, ...] = ()
    """The program that gets `command`. Empty: the image's own ENTRYPOINT."""
    command: tuple[str, ...] = ()
    """The command, which overrides that of the artifact."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables, which override those of the artifact. The engine sets PORT if it is
    missing."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Keyed by the path where the instance finds them."""
    hidden: frozenset[str] = frozenset()
    """Names of variables and paths of files whose content is shown nowhere."""
    cpu: int = 500
    """Thousandths of a core."""
    memory: int = 512
    """Megabytes."""
    ports: tuple[WorkloadPort, ...] = ()
    volumes: tuple[Volume, ...] = ()
    alone: bool = False
    """True if two generations cannot run at the same time, because they would write to the same files."""
    direct: bool = False
    """True if it is `alone` and listens on all its addresses: other services connect to it without a
    router."""
    instances: int = 1
    most: int = 1
    """The minimum and the maximum number of instances."""
    ready: tuple[HealthProbe, ...] = ()
    """Probes that must all succeed before the instance gets requests."""
    watched: bool = False
    """True if `ready` is also checked after the start: it was declared, not derived."""
    alive: tuple[HealthProbe, ...] = ()
    """Liveness probes: if one fails, the instance is restarted."""
    settle: float = 3.0
    """Without probes: the seconds after which a running instance counts as healthy."""
    patience: float = 300.0
    """The seconds that it may take to become ready."""
    grace: float = 10.0
    """Seconds between the request to stop and the end."""
    time_limit: float = 3600.0
    """Seconds after which a workload that runs once is ended."""
    writes_output: bool = False
    """True if it may write an output file, which `Engine.read_output` returns."""
    calls_server: bool = False
    """True if it sends requests to the server, whose machine it finds by `Engine.server_host`."""
    job: JobPlan | None = None
    """The schedule of a job: its runs start this workload, each with its own command."""

    @property
    def secrets(self) -> Iterator[str]:
        """Values that must not be read in logs."""
        for name in self.hidden:
            if name in self.variables:
                yield self.variables[name]
            if name in self.files:
                yield self.files[name].decode(errors="replace")


def as_run(workload: Workload, command: tuple[str, ...]) -> Workload:
    """Returns the workload of a single command, with the same build, variables and volumes, and without
    ports and probes."""
    is_image = workload.artifact.kind == "image"
    return replace(
        workload,
        artifact=replace(workload.artifact, command=(), ports=()),
        entrypoint=command[:1] if is_image else (),
        command=command[1:] if is_image else command,
        ports=(),
        alone=False,
        direct=False,
        ready=(),
        watched=False,
        alive=(),
    )


class Phase(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """The instance has ended and waits for its next start; each wait is a little longer."""
    EXITED = "exited"


class Instance(Struct, frozen=True, kw_only=True):
    """One running copy of a workload, as the engine sees it."""

    id: str
    service: str
    generation: int
    index: int
    phase: Phase
    address: str
    """The address of its ports. It has no default: a port of this machine may be that of another program."""
    ports: Mapping[int, int] = field(default_factory=dict)
    """The port inside to the port that reaches it at `address`, as far as known."""
    inside: str = ""
    """An address of its own, where it may be reached without a go-between; empty if it has none."""
    network: str = ""
    """The keeper of its own network, in which `address` is (base/isolation/network.py); empty if it has that
    of the machine."""
    exit_code: int | None = None
    reason: str = ""
    """Why it ended the last time, as readable text: `exited with code 1`, `was killed: out of memory`."""
    lost_network: bool = False
    """True if its last end was not that of its program: its network was gone, and it starts in a new one."""
    restarts: int = 0
    started_at: int = 0
    unready: str = ""
    """Why it is to be given no requests although it runs, as readable text; empty if it may be given some."""

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.RUNNING and not self.unready


class Presence(NamedTuple):
    """An instance that exists, and whether it runs."""

    service: str
    generation: int
    is_running: bool


class Observation(Struct, frozen=True):
    """The instances of one service, of every generation, as its engine sees them at one moment."""

    instances: tuple[Instance, ...] = ()

    def of(self, generation: int) -> Observation:
        """Returns only the instances of one generation."""
        return Observation(
            tuple(instance for instance in self.instances if instance.generation == generation)
        )

    @property
    def ready(self) -> tuple[Instance, ...]:
        """Instances that may get requests."""
        return tuple(instance for instance in self.instances if instance.is_ready)

    @property
    def broken(self) -> tuple[Instance, ...]:
        """Instances that do not run now, each with the reason."""
        return tuple(instance for instance in self.instances if instance.phase is not Phase.RUNNING)


class ServiceAddress(Struct, frozen=True):
    """The address of a port for other services of its environment."""

    host: str
    port: int


class RoutedAddress(Struct, frozen=True):
    """An address where the router listens for other services of an environment."""

    host: str
    port: int
    network: str = ""
    """The holder of the network in which the address is; empty: it is of this machine."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of a workload that runs once."""

    exit_code: int | None
    """The exit code as in a shell: 128 plus the number of a signal. None if it was lost with its machine."""
    reason: str
    """For people: `exited with code 1`, `was killed: out of memory`."""
    started_at: int
    ended_at: int
    peak_memory: int = 0
    """Bytes; 0 if the engine does not know it."""


class StoredData(Struct, frozen=True, kw_only=True):
    """The data of one service on an engine, whether or not the database knows the service."""

    name: str = ""
    """The display name, if it is known."""
    instances: int = 0
    volumes: int = 0
    is_lost: bool = False
    """True if it runs but its files are missing: perhaps a disk is not mounted yet."""


class Usage(Struct, frozen=True, kw_only=True):
    """The resources that an instance has used; two samples give a rate."""

    cpu_ms: int = 0
    """Milliseconds of processor time since its start."""
    memory: int = 0
    """Bytes."""


class OutputLine(Struct, frozen=True, gc=False):
    """A line that an instance or a build wrote."""

    at: int
    message: str
    pod: str = ""
    """The instance, such as `web-7-0`: the name of the service, its generation and its index."""
    version: str = ""
    stage: str = ""
    """The stage of the deployment that the line belongs to, if it is known."""
