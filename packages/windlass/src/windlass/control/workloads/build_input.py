"""The input of a build."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext

from msgspec import Struct, field

from windlass.builders.usage import BuildUsage
from windlass.control.context.log_store import DeploymentLog
from windlass.control.records.deployment_inputs import InputRows
from windlass.core.deploy.progress import CommitRecord
from windlass.core.words.variables import Inputs
from windlass.store import DeploymentRow, Row


class FetchedCommit(Struct):
    """The fetched commit of a build. The deployment shows it even if the build fails."""

    commit: CommitRecord | None = None
    branch: str | None = None


class BuildInput(Struct, frozen=True, kw_only=True):
    """The input of a build: the deployment, and the service with its inputs."""

    service: Row
    """The service, with the settings of this deployment."""
    deployment: DeploymentRow
    inputs: Inputs
    rows: InputRows
    """The resources from which the inputs were read."""
    say: DeploymentLog
    fetched: FetchedCommit = field(default_factory=FetchedCommit)
    """The fetched commit, which is filled in before the build begins."""
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    """A context manager that suspends the build's time limit while the build waits for other builds."""
    usage: BuildUsage = field(default_factory=BuildUsage)
    """What the build uses, which is filled in while it builds."""
    cleanup: AsyncExitStack | None = None
    """Clean-up actions, which run once the success of the build is recorded. If None, a build cleans up at
    its end."""
