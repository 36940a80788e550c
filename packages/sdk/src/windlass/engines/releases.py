"""The releases of charts in the namespace of an environment, as the cluster reports them.

Only engines of Kubernetes clusters have the property `releases`. A kind finds it with `isinstance(engine,
ReleaseEngine)`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

SINGLE_POD: Final = "Pod"
"""The kind of a Pod without a controller. Engines do not watch it: its state is that of the last look."""


class ReleasedController(Struct, frozen=True, kw_only=True):
    """A Deployment, StatefulSet, DaemonSet or Job of a release, or a single Pod."""

    kind: str
    name: str
    release: str
    generation: int
    """A number that the cluster raises with each change of the object's settings."""
    wanted: int
    ready: int
    reason: str = ""
    """Why one of its Pods does not run, as readable text; empty if no Pod has a problem."""

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"


class ReleasedEndpoint(Struct, frozen=True):
    """The address of a ready Pod behind a Service."""

    address: str
    port: int


class ReleasedRoute(Struct, frozen=True, kw_only=True):
    """A Service of a release, with the Pods behind each of its ports."""

    name: str
    release: str
    labels: Mapping[str, str]
    ports: Mapping[int, Sequence[ReleasedEndpoint]]


class ReleaseState(Struct, frozen=True):
    """The releases of one environment."""

    controllers: Sequence[ReleasedController] = ()
    routes: Sequence[ReleasedRoute] = ()


class ReleasedPod(Struct, frozen=True, kw_only=True):
    """A Pod of a release."""

    name: str
    phase: str
    """The word of the cluster, such as `Running`."""
    node: str
    ready: bool
    restarts: int
    reason: str
    """Why it does not run, as readable text; empty if no problem is known."""
    created: int
    """In milliseconds since 1970; 0 if unknown."""


class ReleasedEvent(Struct, frozen=True, kw_only=True):
    """What the cluster has told about an object of a release."""

    address: str
    """Kind and name of the object."""
    reason: str
    """The word of the cluster, such as `FailedScheduling`."""
    message: str
    is_warning: bool
    count: int
    at: int
    """When it happened last, in milliseconds since 1970; 0 if unknown."""


class ReleaseDetails(Struct, frozen=True):
    """The Pods of one release, and the events about them and their controllers."""

    pods: Sequence[ReleasedPod] = ()
    events: Sequence[ReleasedEvent] = ()


class ReleaseReader(Protocol):
    """Reads the releases of environments. The first call for an environment begins to watch the cluster."""

    def changed(self) -> Collection[str]:
        """Returns the environments whose releases have changed since the last call."""
        ...

    async def state(self, environment: str) -> ReleaseState | None:
        """Returns the releases of an environment; None while the cluster does not answer, or refuses to list
        them."""
        ...

    async def details(self, environment: str, release: str) -> ReleaseDetails | None:
        """Returns the Pods and events of a release; None like `state`."""
        ...


@runtime_checkable
class ReleaseEngine(Protocol):
    """An engine whose environments can have releases of charts."""

    @property
    def releases(self) -> ReleaseReader: ...
