"""The interface of builders. A builder creates an artifact, which an engine can start, from the files of a
commit and the settings of its application.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct, field

from windlass.builders.usage import BuildUsage
from windlass.detect import RecipeSettings
from windlass.engines.workload import Artifact

BuilderChoice = Literal["AUTO", "DOCKERFILE", "RECIPE"]
FILES_BUILDER: Final = "FILES"
"""Internal builder that clients cannot choose: the files are used unchanged, and nothing is built."""


class BuildSettings(RecipeSettings, frozen=True, kw_only=True):
    """Settings of an application that affect its build.

    `start_command` and `release_command` are empty here. Like the choice of a process type and the headers of
    a static site, they are applied when the artifact is run, so that changing them does not require a build.
    """

    builder: BuilderChoice | Literal["FILES"] = "AUTO"
    base: str = ""
    """Base image for the files, for the builder FILES on an engine that runs images."""
    base_chosen_in: str = ""
    """Where the base image is configured, for messages; for example `the setting x_image`."""
    dockerfile_raw: str = ""
    """Content of a Dockerfile that replaces the repository's Dockerfile."""
    mounts: tuple[str, ...] = ()
    """Mount points of `storage`. In an image built from a recipe, its user may write there."""
    has_command: bool = False
    """Whether the settings define a start command. A repository without a detected start command can then be
    built, too. The artifact must not depend on this flag."""

    @property
    def is_dockerfile_left_out(self) -> bool:
        """Returns whether to ignore the repository's Dockerfile."""
        if self.dockerfile_raw:
            return False
        return self.builder == "RECIPE" or (self.builder == "AUTO" and self.asks_for_recipe)

    @property
    def inputs(self) -> dict[str, object]:
        """The settings that affect the artifact, without default values."""
        usual = msgspec.structs.asdict(BuildSettings(has_command=self.has_command))
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value != usual[name]}


DISK_FULL_ERROR: Final = (
    "Ask the operator to free disk space: the disk of the machine that runs Windlass is full."
)


class BuildError(Exception):
    """Raised if a build fails. The message is for the user who deployed."""


class BuilderUnavailable(BuildError):
    """Raised if the builder is unavailable. The same build may succeed later."""


class Order(Struct, frozen=True, kw_only=True):
    """The order to build an artifact."""

    service: str
    org: str
    environment: str = ""
    name: str
    deployment: str
    key: str
    """Digest of all inputs of the artifact: repository, commit, root path, Dockerfile, stage, arguments and
    settings."""
    commit: str
    source: Path
    """The root folder of the commit's files. The builder may move the files."""
    root: str = "."
    """The application's folder, relative to `source`."""
    dockerfile: str | None = None
    """Path of the Dockerfile, relative to `root`. None: the file named Dockerfile if it exists, otherwise the
    builder decides."""
    stage: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Build arguments: the service's variables without secrets."""
    variables: frozenset[str] = frozenset()
    """Names of all variables of the service, secrets included."""
    settings: BuildSettings = BuildSettings()
    cache_secret: str = ""
    """Secret of the service. A builder with a cache for all services uses it to separate their cached
    steps."""
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context manager that pauses the build's time limit while it waits for other builds."""
    cpu: int = 2000
    """Most processor time, in thousandths of a core, on engines that limit each build."""
    memory: int = 2048
    """Most memory in MiB, on engines that limit each build."""
    uses_cache: bool = True
    """Whether the build may use steps that the engine has kept of earlier builds."""
    usage: BuildUsage = field(default_factory=BuildUsage)
    """What the build uses. The builder fills it in, also if the build fails."""


Say = Callable[[str], None]
"""Callback that writes a line to the build log."""


class Builder(Protocol):
    makes: Literal["native", "image"]

    async def stop(self) -> None:
        """Releases all resources. All builds were cancelled before."""
        ...

    async def find(self, service: str, key: str) -> Artifact | None:
        """Returns the artifact of an earlier build with this key; None if it does not exist."""
        ...

    async def build(self, order: Order, write_line: Say) -> Artifact:
        """Builds an artifact. Removes partial results if the build fails or is cancelled."""
        ...

    async def discard(self, service: str) -> None:
        """Deletes everything that was built for a service. Succeeds if nothing exists."""
        ...

    async def prune(self, service: str, kept_keys: Collection[str]) -> None:
        """Deletes the artifacts of a service except those with a key in `kept_keys`. The caller must have
        claimed the service; otherwise a new artifact of a concurrent deployment could be deleted."""
        ...

    async def services(self) -> Collection[str]:
        """Returns the ids of all services with stored data."""
        ...

    async def sweep(self, deleted_services: Collection[str]) -> None:
        """Deletes all data of these services, and leftovers of unfinished builds of all services."""
        ...

    async def set_aside(self, service: str, destination: Path) -> None:
        """Moves all files of a service to the folder `destination`, without deleting anything."""
        ...

    async def put_back(self, service: str, source: Path) -> None:
        """Reverts `set_aside`."""
        ...
