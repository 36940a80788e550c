"""The interface of builders. A builder makes an artifact, which an engine can start, of the files of a
commit, and follows the settings of its application.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct, field

from windlass.detect import RecipeSettings
from windlass.engines.workload import Artifact

BuilderChoice = Literal["AUTO", "DOCKERFILE", "RECIPE"]
FILES: Final = "FILES"
"""A builder that clients cannot choose: the files are used unchanged, and nothing is built."""


class BuildSettings(RecipeSettings, frozen=True, kw_only=True):
    """Settings of an application that its build follows.

    `start_command` and `release_command` are empty here: like the choice of a process, and the headers of a
    static site, they are applied to what runs, so that a change of them needs no build.
    """

    builder: BuilderChoice | Literal["FILES"] = "AUTO"
    base: str = ""
    """The image that gets the files, with the builder FILES of an engine that runs images."""
    base_chosen_in: str = ""
    """The place where this image is chosen, for a message, such as `the setting x_image`."""
    dockerfile_raw: str = ""
    """A Dockerfile, instead of one of the repository."""
    mounts: tuple[str, ...] = ()
    """The folders of `storage`: in an image that is built from a recipe, the user may write there."""
    has_command: bool = False
    """True if a setting defines the start command: then a repository without one can be built, too. The
    artifact must not depend on it."""

    @property
    def is_dockerfile_left_out(self) -> bool:
        """Returns whether a Dockerfile is not looked for."""
        if self.dockerfile_raw:
            return False
        return self.builder == "RECIPE" or (self.builder == "AUTO" and self.asks_for_recipe)

    @property
    def inputs(self) -> dict[str, object]:
        """The settings that the artifact depends on, without those that are not set."""
        usual = msgspec.structs.asdict(BuildSettings(has_command=self.has_command))
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value != usual[name]}


FULL: Final = "Ask the operator to free disk space: the disk of the machine that runs Windlass is full."


class BuildError(Exception):
    """A build failed. The message is for the person who deployed."""


class BuilderUnavailable(BuildError):
    """The builder does not answer now; the same build may succeed later."""


class Order(Struct, frozen=True, kw_only=True):
    """An artifact to build."""

    service: str
    org: str
    environment: str = ""
    name: str
    deployment: str
    key: str
    """A digest of everything that the artifact depends on (repository, commit, root path, Dockerfile, stage,
    arguments, settings)."""
    commit: str
    source: Path
    """The files of the commit: the repository's root. The builder may move them away."""
    root: str = "."
    """The folder of the application, below `source`."""
    dockerfile: str | None = None
    """A path below `root`; None for a file named Dockerfile if there is one, or else the choice of the
    builder."""
    stage: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Build arguments: the variables of the service, without secrets."""
    settings: BuildSettings = BuildSettings()
    cache_secret: str = ""
    """A secret of the service: a builder that caches steps for all services alike keeps them apart by it."""
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the time of the build for a block that waits for builds of others."""
    cpu: int = 2000
    memory: int = 2048


Say = Callable[[str], None]
"""Writes a line to the build log."""


class Builder(Protocol):
    makes: Literal["native", "image"]

    async def stop(self) -> None:
        """Closes what it holds open. Builds in progress were cancelled before."""
        ...

    async def find(self, service: str, key: str) -> Artifact | None:
        """Returns the artifact of an earlier build under this key, if it still exists."""
        ...

    async def build(self, order: Order, say: Say) -> Artifact:
        """Builds the artifact. Leaves nothing half-made behind when it fails or is cancelled."""
        ...

    async def discard(self, service: str) -> None:
        """Erases everything that was built for this service. Succeeds if there is nothing."""
        ...

    async def prune(self, service: str, keep: Collection[str]) -> None:
        """Erases the artifacts of this service except those with these keys. The caller must hold the
        claim of the service; otherwise a new artifact of another deployment could be erased."""
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
