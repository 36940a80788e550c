"""The stored document of a deployment, and the events that report its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.builders.usage import BuildUsage
from windlass.core.deploy.states import Do, Progress
from windlass.core.words.events import Event
from windlass.engines.workload import Artifact


class Initiator(Struct, frozen=True):
    id: str
    name: str


class BuildResult(Struct, frozen=True, omit_defaults=True):
    """The result and inputs of a build, which show whether the build has to be repeated."""

    artifact: Artifact
    base: str = ""
    """A digest of the commit and of all build settings except build arguments."""
    arguments: tuple[str, ...] = ()
    """The names of the build arguments that the build uses."""
    values: str = ""
    """A digest of the values of the build arguments."""


class CommitRecord(Struct, frozen=True):
    """A commit, as the API returns it and as a deployment stores it."""

    git_commit_id: str
    created_at: str
    tag: str = ""
    message: str = ""
    author_name: str = ""
    author_avatar_url: str = ""
    commit_page_url: str = ""


class PushedRef(Struct, frozen=True):
    """A push to the deployed branch. The branch moves to the pushed commit once that is built."""

    ref: str
    old: str
    """The commit from which the branch moves; zeros for a new branch."""


class ChosenVersion(Struct, frozen=True, kw_only=True):
    """The version to deploy, as far as the deployment request determines it."""

    git_commit_id: str | None = None
    choices: dict[str, str] = {}
    """Further choices of the kind, such as the commit of a second repository."""
    upload: str | None = None
    """The id of the requested upload, whose digest replaces a commit."""
    image_tag: str | None = None
    commit: CommitRecord | None = None
    made: BuildResult | None = None
    of: str | None = None
    """The id of the deployment to repeat or to go back to."""
    purpose: str = ""
    """Why an earlier deployment is repeated: ROLLBACK or REDEPLOY."""
    command: tuple[str, ...] = ()
    """The command of a one-off run; empty for other deployments."""
    sub_action: str = ""
    """The requested part of a deployment, in the vocabulary of the full interface; empty for a whole
    deployment."""
    event: str = ""
    """The event of a job whose command runs; empty for the default command."""
    pushed: PushedRef | None = None
    """The push that requests the deployment."""


class StageRecord(Struct, frozen=True):
    """The deployment stage of a service at the time of a deployment. A later change of the stage does not
    change it."""

    id: str
    """The id of the stage; empty if it was not recorded, because an earlier version accepted the
    deployment."""
    name: str
    place: int
    """The place in the order of the environment's stages, from 1."""


class RunReport(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The run of a workload that runs to completion: its start and its result."""

    started_at: int
    ended_at: int = 0
    """The end time; 0 while the workload runs."""
    exit_code: int | None = None
    reason: str = ""
    output: tuple[str, ...] = ()
    """The last output lines."""
    is_timed_out: bool = False
    is_listed: bool = False
    """Returns whether the run is a job run, which has its own record in the list of runs."""


class Particulars(Struct, omit_defaults=True, kw_only=True):
    """The stored document of a deployment."""

    family: str
    actor: Initiator
    origin: str = "API"
    trace: str = ""
    """The trace id of the request that created the deployment."""
    git_commit_id: str | None = None
    """The id of the requested commit."""
    choices: dict[str, str] = {}
    """Further choices of the kind; see `ChosenVersion`."""
    image_tag: str | None = None
    """The requested or actual tag of an image that Windlass does not build."""
    branch: str | None = None
    message: str = ""
    waits: str = ""
    """The reason why the deployment waits, such as an unavailable engine; empty while it makes progress."""
    cancelled: bool = False
    """Returns whether cancellation was requested."""
    commit: CommitRecord | None = None
    """The deployed commit."""
    made: BuildResult | None = None
    usage: BuildUsage | None = None
    """What the build used; None if nothing was built, or nothing is known of it."""
    builds_nothing: bool = False
    """Whether it failed before anything was started, of a service that is not built."""
    digest: str = ""
    of: str | None = None
    """The id of the deployment that is repeated or gone back to."""
    purpose: str = ""
    """Why it is repeated: ROLLBACK or REDEPLOY; empty if nothing is, or for another reason."""
    command: tuple[str, ...] = ()
    """The command of a one-off run, which does not change the service; empty for other deployments."""
    sub_action: str = ""
    """The requested part of a deployment; empty for a whole deployment."""
    event: str = ""
    """The event of a job whose command was requested; empty for the default command."""
    pushed: PushedRef | None = None
    """The push that requested the deployment."""
    request: str = ""
    """The id of the request, which may have created deployments of other services, too."""
    group: str = ""
    """The id of the first deployment of the same request; empty if this is the first one."""
    stage: StageRecord | None = None
    """The deployment stage of the service when the deployment was requested."""
    is_skipped: bool = False
    """Whether the deployment never began, because one of an earlier stage failed."""
    run: RunReport | None = None
    """The run of a deployment that runs to completion."""
    release: RunReport | None = None
    """The run of the release command."""
    began: int = 0
    built: int = 0
    """The time at which the build ended; 0 without one."""
    ended: int = 0
    server: str = ""
    """The id of the server that began the deployment and stores its log in its data directory; empty with a
    single server."""
    host: str = ""
    """The host at which public ports of that server are reachable."""

    @property
    def commit_id(self) -> str | None:
        """The id of the deployed commit, or of the requested commit if nothing is deployed yet."""
        return self.commit.git_commit_id if self.commit else self.git_commit_id


class DeploymentEvents(Struct, frozen=True):
    """The events of a kind of deployment: when it is queued, begins and ends."""

    queued: Event
    ended: Mapping[Progress, Event]
    began: Event | None = None


_DEPLOYED_EVENTS: Final = {
    Progress.SUCCEEDED: Event.DEPLOYMENT_SUCCEEDED,
    Progress.FAILED: Event.DEPLOYMENT_FAILED,
    Progress.CANCELED: Event.DEPLOYMENT_CANCELLED,
    Progress.SUPERSEDED: Event.DEPLOYMENT_SUPERSEDED,
}

DEPLOYMENT_EVENTS: Final[Mapping[Do, DeploymentEvents]] = {
    Do.DEPLOY: DeploymentEvents(Event.DEPLOYMENT_QUEUED, _DEPLOYED_EVENTS, Event.DEPLOYMENT_STARTED),
    Do.RUN: DeploymentEvents(Event.DEPLOYMENT_QUEUED, _DEPLOYED_EVENTS, Event.DEPLOYMENT_STARTED),
    Do.RESTART: DeploymentEvents(Event.RESTART_QUEUED, _DEPLOYED_EVENTS, Event.DEPLOYMENT_STARTED),
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
    # A deletion cannot be cancelled or superseded. If it succeeds, the service and its deployments no longer
    # exist.
    Do.DELETE: DeploymentEvents(Event.DELETE_QUEUED, {Progress.FAILED: Event.DELETE_FAILED}),
}


class BuiltArtifact(Struct, frozen=True):
    """The artifact of a deployment, with its commit or image tag."""

    made: BuildResult
    commit: CommitRecord | None = None
    branch: str | None = None
    image_tag: str | None = None
    usage: BuildUsage | None = None
    """What the build used; None if an earlier build is used, or nothing is known of it."""
