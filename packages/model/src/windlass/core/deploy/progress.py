"""The stored body of a deployment, and the events that report it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.core.deploy.states import Do, Progress
from windlass.core.words.events import Event
from windlass.engines.workload import Artifact


class Initiator(Struct, frozen=True):
    id: str
    name: str


class BuildResult(Struct, frozen=True, omit_defaults=True):
    """The result of a build and its inputs: enough to know whether it must be repeated."""

    artifact: Artifact
    base: str = ""
    """Digest of the commit and all build settings except build arguments."""
    arguments: tuple[str, ...] = ()
    """The build arguments that it asked for."""
    values: str = ""
    """Digest of the values of the build arguments."""


class CommitRecord(Struct, frozen=True):
    """A commit, as the API shows it and as it is kept with a deployment."""

    git_commit_id: str
    created_at: str
    tag: str = ""
    message: str = ""
    author_name: str = ""
    author_avatar_url: str = ""
    commit_page_url: str = ""


class ChosenVersion(Struct, frozen=True, kw_only=True):
    """The version that a deployment starts, as far as it is chosen when the deployment is asked for."""

    git_commit_id: str | None = None
    upload: str | None = None
    """The id of an upload that was asked for; its digest then takes the place of a commit."""
    image_tag: str | None = None
    commit: CommitRecord | None = None
    made: BuildResult | None = None
    of: str | None = None
    """The deployment that is repeated or gone back to."""
    command: tuple[str, ...] = ()
    """The command of a one-off run in this version; empty for any other deployment."""
    sub_action: str = ""
    """The action of a service that has several, in the full interface's words; empty for others."""
    event: str = ""
    """The event of a job whose command it runs; empty for the usual one."""


class RunReport(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The run of a workload that runs once: when it began, and how it ended."""

    started_at: int
    ended_at: int = 0
    """0 while it runs."""
    exit_code: int | None = None
    reason: str = ""
    output: tuple[str, ...] = ()
    """The last lines that it wrote."""
    is_timed_out: bool = False
    is_listed: bool = False
    """True for a run of a job: it is a record of its own, in the list of runs."""


class Particulars(Struct, omit_defaults=True, kw_only=True):
    """The document of a deployment."""

    family: str
    actor: Initiator
    origin: str = "API"
    trace: str = ""
    """The trace of the request that asked for it."""
    git_commit_id: str | None = None
    """The commit asked for."""
    image_tag: str | None = None
    """The tag of an image that is not built here: asked for, or what it was."""
    branch: str | None = None
    message: str = ""
    waits: str = ""
    """The reason why it waits, such as an unavailable engine; empty while it makes progress."""
    cancelled: bool = False
    """True if a cancellation was requested."""
    commit: CommitRecord | None = None
    """The commit that it was."""
    made: BuildResult | None = None
    digest: str = ""
    of: str | None = None
    """The deployment that it repeats or goes back to."""
    command: tuple[str, ...] = ()
    """The command of a one-off run; empty for any other deployment. It changes nothing of the service."""
    sub_action: str = ""
    """The action of a service that has several; empty for others."""
    event: str = ""
    """The event of a job whose command was asked for; empty for the usual one."""
    request: str = ""
    """The id of the request, which may include deployments of other services."""
    run: RunReport | None = None
    """The result of a deployment that runs once."""
    release: RunReport | None = None
    """The run of its release command."""
    began: int = 0
    ended: int = 0
    server: str = ""
    """The id of the server that began it, whose data directory has the log; empty if there is only one."""
    host: str = ""
    """The host by which public ports of that server are reached."""

    @property
    def commit_id(self) -> str | None:
        """The id of the deployed commit, or else of the requested one."""
        return self.commit.git_commit_id if self.commit else self.git_commit_id


class DeploymentEvents(Struct, frozen=True):
    """The events of one kind of deployment, by its progress."""

    queued: Event
    ended: Mapping[Progress, Event]
    began: Event | None = None


_DEPLOYED: Final = {
    Progress.SUCCEEDED: Event.DEPLOYMENT_SUCCEEDED,
    Progress.FAILED: Event.DEPLOYMENT_FAILED,
    Progress.CANCELED: Event.DEPLOYMENT_CANCELLED,
    Progress.SUPERSEDED: Event.DEPLOYMENT_SUPERSEDED,
}

TOLD: Final[Mapping[Do, DeploymentEvents]] = {
    Do.DEPLOY: DeploymentEvents(Event.DEPLOYMENT_QUEUED, _DEPLOYED, Event.DEPLOYMENT_STARTED),
    Do.RUN: DeploymentEvents(Event.DEPLOYMENT_QUEUED, _DEPLOYED, Event.DEPLOYMENT_STARTED),
    Do.RESTART: DeploymentEvents(Event.RESTART_QUEUED, _DEPLOYED, Event.DEPLOYMENT_STARTED),
    Do.STOP: DeploymentEvents(
        Event.STOP_QUEUED,
        {
            Progress.SUCCEEDED: Event.STOPPED,
            Progress.FAILED: Event.STOP_FAILED,
            Progress.CANCELED: Event.STOP_CANCELLED,
            Progress.SUPERSEDED: Event.STOP_CANCELLED,
        },
    ),
    Do.UNINSTALL: DeploymentEvents(
        Event.UNINSTALL_QUEUED,
        {
            Progress.SUCCEEDED: Event.UNINSTALLED,
            Progress.FAILED: Event.UNINSTALL_FAILED,
            Progress.CANCELED: Event.UNINSTALL_CANCELLED,
            Progress.SUPERSEDED: Event.UNINSTALL_CANCELLED,
        },
    ),
    # Nothing cancels or supersedes it, and with its success the service and its deployments are gone.
    Do.DELETE: DeploymentEvents(Event.DELETE_QUEUED, {Progress.FAILED: Event.DELETE_FAILED}),
}


class BuiltArtifact(Struct, frozen=True):
    """The artifact that a deployment starts, with its commit or tag."""

    made: BuildResult
    commit: CommitRecord | None = None
    branch: str | None = None
    image_tag: str | None = None
