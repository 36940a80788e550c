"""What a builder is: it makes, of the files of one commit, something that an engine can start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from windlass.core.deploy.workload import Artifact


class BuildError(Exception):
    """It cannot be built; the message is for the person who deployed."""


class BuilderAway(BuildError):
    """The builder does not answer now; the same build may succeed later."""


class Order(Struct, frozen=True, kw_only=True):
    """What is to be built."""

    service: str
    org: str
    name: str
    deployment: str
    key: str
    """Of everything that goes into it (repository, commit, root path, Dockerfile, stage, arguments)."""
    commit: str
    source: Path
    """The files of the commit: the repository's root. The builder may move them away."""
    root: str = "."
    """The folder below that the application is in."""
    dockerfile: str | None = None
    """Below `root`. None: a file named Dockerfile if there is one, and else whatever the builder can do."""
    stage: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Build arguments: the variables of the service that are no secrets."""
    cpu: int = 2000
    memory: int = 2048


Say = Callable[[str], None]
"""Takes a line of the build log."""


class Builder(Protocol):
    makes: Literal["native", "image"]

    async def stop(self) -> None:
        """Lets go of what it holds open; builds under way were cancelled before."""
        ...

    async def find(self, service: str, key: str) -> Artifact | None:
        """What was built earlier under this key and is still there."""
        ...

    async def build(self, order: Order, say: Say) -> Artifact:
        """Nothing half-made stays behind when it fails or is cancelled."""
        ...

    async def discard(self, service: str) -> None:
        """Nothing that was built for this service is left. Absent is fine."""
        ...

    async def prune(self, service: str, keep: Collection[str]) -> None:
        """Of this service only the artifacts with these keys stay. For whoever alone may build for it now:
        what was just made for another deployment would go with the rest."""
        ...

    async def services(self) -> Collection[str]:
        """Returns the ids of all services for which anything is stored."""
        ...

    async def sweep(self, erase: Collection[str]) -> None:
        """Erases everything of these services, and unfinished builds of all others."""
        ...

    async def set_aside(self, service: str, into: Path) -> None:
        """Moves all files of this service to the folder `into`; erases nothing."""
        ...

    async def put_back(self, service: str, out: Path) -> None:
        """Undoes `set_aside`."""
        ...
