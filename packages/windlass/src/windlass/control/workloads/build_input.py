"""The input for building the artifact of a deployment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext

from msgspec import Struct, field

from windlass.control.context.log_store import DeploymentLog
from windlass.core.deploy.progress import CommitRecord
from windlass.core.words.variables import Inputs
from windlass.store import DeploymentRow, Row


class FetchedCommit(Struct):
    """The commit of a build, which its deployment shows also if the build fails."""

    commit: CommitRecord | None = None
    branch: str | None = None


class BuildInput(Struct, frozen=True, kw_only=True):
    """A deployment whose artifact is to be made."""

    service: Row
    """The service, with the settings that this deployment runs with."""
    deployment: DeploymentRow
    inputs: Inputs
    say: DeploymentLog
    fetched: FetchedCommit = field(default_factory=FetchedCommit)
    """The names of fetched files; set before the build begins."""
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    """Stops the time of the build for a block that waits for builds of others."""
    cleanup: AsyncExitStack | None = None
    """Accepts the cleanup of a build, which runs once its success is recorded; otherwise a build cleans up
    at its end."""
