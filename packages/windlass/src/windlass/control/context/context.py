"""The context of request handlers: all external dependencies are passed in, so that tests can replace
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct, field

from windlass.base.bounded import BoundedCalls
from windlass.base.clock import Clock
from windlass.base.dns import DnsClient
from windlass.base.encryption import Encryption
from windlass.base.http_out import HttpTransport
from windlass.base.locks import Locks
from windlass.base.zones.provider import ZoneProvider
from windlass.config import Settings
from windlass.control.context.authority import Authority, Visits
from windlass.control.context.deployed_ports import DeployedPorts
from windlass.control.context.domain_checks import DomainChecks
from windlass.control.context.git_reader import GitReader, LimitedGitReader
from windlass.control.context.git_servers import GitServers
from windlass.control.context.log_store import Logs
from windlass.control.context.meters import Meters
from windlass.control.context.neighbours import Neighbours
from windlass.control.context.nudges import Nudges
from windlass.control.context.ownership import Ownership
from windlass.control.context.place import HttpRouter
from windlass.control.context.places import Places
from windlass.control.context.shared_readers import SharedReaders
from windlass.control.context.upload_files import UploadFiles
from windlass.control.context.usage_files import UsageFiles
from windlass.control.context.usage_history import UsageHistory
from windlass.control.context.variable_digests import VariableDigests
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Spec
from windlass.registries.client import RequestPauses
from windlass.routers.sites.store import SiteStore
from windlass.sources.git import GitCommit, GitSource
from windlass.sources.git.remote import Progress
from windlass.sources.push import PushedRepositories
from windlass.store import Store

if TYPE_CHECKING:
    from windlass.control.kinds.service_kind import AnyKind


T = TypeVar("T", bound=Spec)


class Repositories(GitReader, Protocol):
    """Reads and fetches repositories of source code; see `builders.git`."""

    async def fetch(self, source: GitSource, destination: Path) -> GitCommit: ...

    def fetching(
        self, source: GitSource, destination: Path, name: str, progress: Progress
    ) -> AbstractAsyncContextManager[GitCommit]: ...

    async def discard(self, name: str) -> None: ...

    async def stop(self) -> None: ...

    async def branches(self, source: GitSource) -> Sequence[str]: ...

    async def changed_paths(self, source: GitSource, old_commit: str, new_commit: str) -> Sequence[str]: ...

    async def sweep(self) -> None: ...


class OutgoingHttp(HttpTransport, Protocol):
    """Sends HTTP requests to other servers; see `base.http_out`."""

    async def fetch(self, url: str) -> bytes: ...

    async def close(self) -> None: ...


async def no_point(name: str) -> None:
    """Does nothing: failpoints are used only in tests."""


class SleepTerms(Struct, frozen=True):
    """When a service may be put to sleep."""

    minutes: int
    """Minutes without a request."""
    although_called: bool = False
    """Whether it sleeps even if other services call it by TCP."""


class Routing(Locks):
    """Locks by service, held while its routes are computed and set, so that an earlier observation never
    replaces a later one."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: dict[str, float] = {}
        """Times of the observations on which the present routes are based, by service; 0 for routes that a
        router had before the start."""
        self.routers: dict[str, HttpRouter] = {}
        """Routers that have ports or routes of a service, by service."""
        self.sites: dict[str, str] = {}
        """Folders of the static sites that routers serve, by service."""
        self.sleepers: dict[str, SleepTerms] = {}
        """The services that this server's routers serve and that may sleep."""
        self.sessions: Counter[str] = Counter()
        """The number of commands and connections of people in the instances of each service, which keep it
        awake."""


class Context(Struct, frozen=True, kw_only=True):
    settings: Settings
    installation: str
    """The id of the installation; see `mark`."""
    registry: Registry
    kinds: Mapping[str, AnyKind]
    """Kinds of services by family; a kind defines how its services are built and run."""
    store: Store
    clock: Clock
    encryption: Encryption
    places: Places
    """Places of services. A service's place depends on the cluster of its environment."""
    git: Repositories
    git_reader: LimitedGitReader
    """Reads repositories for requests, with limited concurrency."""
    calls: BoundedCalls
    """Runs functions that read files of commits, with time and memory limits."""
    logs: Logs
    nudges: Nudges
    readers: SharedReaders
    """Shared readers of event streams."""
    neighbours: Neighbours
    """A cache of the services that have ports, from which variables are derived."""
    variable_digests: VariableDigests
    """A cache of the digests of inherited variables."""
    out: OutgoingHttp
    """The client for all outgoing HTTP requests, which validates addresses."""
    dns: DnsClient
    """Asks name servers about the domains of users."""
    zones: ZoneProvider | None
    """Writes records into zones of the operator; None without the setting dns_provider."""
    authority: Authority
    """The authority that gives certificates for domains."""
    fallback: Authority | None = None
    """The authority that is asked where the other one fails; None if there is none."""
    visits: Visits
    """Opens domains as visitors do."""
    work: Path
    """The folder for working copies during builds."""
    sites: SiteStore
    """The files of static sites, which routers serve."""
    uploads: UploadFiles
    """The archives of uploads on this server."""
    usage_files: UsageFiles
    """The resource usage and requests of services in the last month, on this server."""
    pushed: PushedRepositories
    """The repositories to which applications are pushed, on this server."""
    routing: Routing
    server: str
    """The id of this server, derived from its data directory; empty if it is the only server of its
    database."""
    ownership: Ownership
    """The ownership of the local place."""
    registry_pauses: RequestPauses = field(default_factory=RequestPauses)
    """Container registries that reject requests at present because of their rate limits."""
    git_servers: GitServers = field(default_factory=GitServers)
    """The APIs of git servers, with their answers and rate limits."""
    domain_checks: DomainChecks = field(default_factory=DomainChecks)
    deployed_ports: DeployedPorts = field(default_factory=DeployedPorts)
    usage: UsageHistory = field(default_factory=UsageHistory)
    """The resource usage and requests of services in the last hour."""
    meters: Meters = field(default_factory=Meters)
    point: Callable[[str], Awaitable[None]] = no_point
    """A failpoint, called before and after each external effect. Tests interrupt the process there."""
