"""The context that handlers get: everything from outside is passed in, so that a test can replace it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct, field

from windlass.base.bounded import BoundedCalls
from windlass.base.clock import Clock
from windlass.base.encryption import Encryption
from windlass.base.http_out import HttpTransport
from windlass.base.locks import Locks
from windlass.config import Settings
from windlass.control.context.git_reader import GitReader, LimitedGitReader
from windlass.control.context.log_store import Logs
from windlass.control.context.meters import Meters
from windlass.control.context.neighbours import Neighbours
from windlass.control.context.nudges import Nudges
from windlass.control.context.ownership import Ownership
from windlass.control.context.place import HttpRouter
from windlass.control.context.places import Places
from windlass.control.context.shared_readers import SharedReaders
from windlass.control.context.upload_files import UploadFiles
from windlass.control.context.usage_history import UsageHistory
from windlass.control.context.variable_digests import VariableDigests
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Spec
from windlass.registries.client import RequestPauses
from windlass.routers.sites.store import SiteStore
from windlass.sources.git import GitCommit, GitSource
from windlass.store import Store

if TYPE_CHECKING:
    from windlass.control.kinds.service_kind import AnyKind


T = TypeVar("T", bound=Spec)


class Repositories(GitReader, Protocol):
    """Repositories of source code, read and fetched; see `builders.git`."""

    async def fetch(self, source: GitSource, into: Path) -> GitCommit: ...

    def fetching(
        self, source: GitSource, into: Path, name: str
    ) -> AbstractAsyncContextManager[GitCommit]: ...

    async def discard(self, name: str) -> None: ...

    async def stop(self) -> None: ...

    async def branches(self, source: GitSource) -> Sequence[str]: ...

    async def changed_paths(self, source: GitSource, before: str, after: str) -> Sequence[str]: ...

    async def sweep(self) -> None: ...


class OutgoingHttp(HttpTransport, Protocol):
    """Calls to other servers; see `base.http_out`."""

    async def fetch(self, url: str) -> bytes: ...

    async def close(self) -> None: ...


async def no_point(name: str) -> None:
    """In production nothing happens at a failpoint."""


class Routing(Locks):
    """Locks by service, for computing and setting its routes: one at a time, so that an earlier observation
    never replaces a later one."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: dict[str, float] = {}
        """Times at which the present routes were computed; 0 for routes that a router had before the
        start."""
        self.routers: dict[str, HttpRouter] = {}
        """The routers that have ports or routes of a service."""
        self.sites: dict[str, str] = {}
        """The folders of the static sites that routers serve, by service."""


class Context(Struct, frozen=True, kw_only=True):
    settings: Settings
    installation: str
    """The id of the installation; see `mark`."""
    registry: Registry
    kinds: Mapping[str, AnyKind]
    """Keyed by family: how services of this family are made and run."""
    store: Store
    clock: Clock
    encryption: Encryption
    places: Places
    """Places of services; the place of each follows from the cluster of its environment."""
    git: Repositories
    git_reader: LimitedGitReader
    """Reads repositories for requests, few at a time."""
    calls: BoundedCalls
    """Read files of commits with limits of time and memory."""
    logs: Logs
    nudges: Nudges
    readers: SharedReaders
    """Shared readers behind streams."""
    neighbours: Neighbours
    """Variables that services offer to each other."""
    variable_digests: VariableDigests
    """Digests of the variables that services inherit."""
    out: OutgoingHttp
    """The client for all outgoing HTTP requests, which checks addresses."""
    work: Path
    """The folder for working copies during builds."""
    sites: SiteStore
    """The files of static sites, for routers."""
    uploads: UploadFiles
    """The archives of uploads at this server."""
    routing: Routing
    server: str
    """The id of this server, by its data directory; empty if it is the only one of its database."""
    ownership: Ownership
    """The owner of the local place."""
    registry_pauses: RequestPauses = field(default_factory=RequestPauses)
    """Container registries that allow no more requests for now."""
    usage: UsageHistory = field(default_factory=UsageHistory)
    """The usage of services in the last hour, and the requests to them."""
    meters: Meters = field(default_factory=Meters)
    point: Callable[[str], Awaitable[None]] = no_point
    """Called before and after each external effect, so that tests can simulate a crash there."""
