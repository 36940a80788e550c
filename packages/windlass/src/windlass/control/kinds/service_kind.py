"""A kind of service: how its services are built and run, and which variables they offer to other services.

A family declares the fields of a service. Its kind, a module in `kinds/`, implements how the service runs.
The rest of the control plane calls the kind and never compares family names. This module contains the
defaults of all kinds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.context.neighbours import MainPort
from windlass.control.context.place import Place
from windlass.control.kinds.run_api import RunApi
from windlass.control.records.served_names import newest
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.images import ImageSource
from windlass.core.access import Actor
from windlass.core.declare.document import Document
from windlass.core.declare.groups import MAX_LABELS_OF_SERVICE, LabelsGroupOfService
from windlass.core.declare.registry import runs_once
from windlass.core.declare.resource import Family
from windlass.core.declare.shapes import GitRepositoryRequest, Listener
from windlass.core.declare.spec import Spec
from windlass.core.deploy import hosts
from windlass.core.deploy.injected_variables import (
    BuiltIn,
    address_variables,
    nominal_host,
    with_compatible_keys,
)
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.stage_order import Precedence
from windlass.core.deploy.states import Do
from windlass.core.settings.values import AdvancedValues
from windlass.core.words.naming import enum_value
from windlass.engines.engine import Demand
from windlass.engines.findings import Finding
from windlass.engines.releases import ReleasedEndpoint
from windlass.engines.workload import Artifact, ServiceAddress, Workload
from windlass.store import DeploymentRow, Reads, Row, Tx

FindAddress = Callable[[str, str, str, int], Awaitable[ServiceAddress]]
"""Returns the address at which other services of the environment reach a service. The arguments are the
environment, the service, its name and its internal port."""


S = TypeVar("S", bound=Spec)


class SizeSettings(Struct):
    """The settings that services of all kinds have."""

    name: str
    cpu: int
    memory: int


class RepositorySettings(Struct):
    """The repository settings of a service."""

    git_repository: GitRepositoryRequest | UnsetType | None = None


class LabelSettings(Struct):
    """The groups of labels of a service."""

    labels_groups: list[LabelsGroupOfService] = []

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all groups. A later group overrides an earlier one."""
        labels = {label.key: label.value for group in self.labels_groups for label in group.labels}
        return dict(islice(labels.items(), MAX_LABELS_OF_SERVICE))


class PreviewSettings(Struct):
    """The settings of a service for previews."""

    auto_preview: bool = False


class PreviewSource(Struct, frozen=True):
    """The branch from which services are built in a preview, or the tag of their image."""

    branch: str = ""
    url: str = ""
    """Address of a fork; empty if the repository itself has the commits."""
    image_tag: str = ""

    @property
    def changes(self) -> Document:
        """The fields of `git_repository` that differ."""
        # A git token is not sent to the repository of somebody else.
        return {"branch": self.branch} | ({"url": self.url, "git_token_id": None} if self.url else {})


class Offer(Struct, frozen=True):
    """The variables that the services of one family offer to other services of the environment."""

    variables: Sequence[BuiltIn] = ()
    counted: Sequence[Row] = ()
    """The services whose creation, deletion or renaming makes other services out of date; see
    `is_counted`."""
    warnings: Sequence[str] = ()
    """Warnings for the build log."""


class MachineOfRuns(Struct, frozen=True, kw_only=True):
    """The properties of the engine in use that `windlass doctor` passes to kinds."""

    takes: Literal["native", "image"]
    server_host: str
    """The host name of the server's machine as instances see it; see `Engine.server_host`."""


NO_IMAGES: Final = (
    "the cluster of this environment runs no images: start the server with the Docker engine "
    "(WINDLASS_ENGINE=docker), or create an application, which is built from a repository"
)


class ServiceKind(Generic[S]):
    """The behaviour of all services of one family, such as `ServiceKind[Database]`. Subclasses override
    methods."""

    family: ClassVar[Family]
    precedence: ClassVar[Precedence] = Precedence.PROGRAM
    """The deployment stage in which new services of this kind are placed."""
    image_field: ClassVar[str] = ""
    """The field that selects an image; empty for kinds that run without images."""
    instead_of_manifests: ClassVar[str] = "manifests cannot express it: move it by hand"
    """Why services of this kind are not exported as manifests, and what to do instead; empty if they are."""
    host_word: ClassVar[str] = ""
    """The first word of the host name in lists of variables; defaults to the name of the family."""
    size_fields: ClassVar[Mapping[str, str]] = {}
    """The names of the resource fields, if they differ from cpu, memory and gpu."""
    may_call: ClassVar[bool] = True
    """Indicates whether its programs may connect to other services of the environment."""
    has_runs: ClassVar[bool] = False
    """Indicates whether a deployment only prepares a version for separate runs, as with jobs."""
    runs_on_server: ClassVar[bool] = False
    """Indicates whether its runs are programs of a server's machine, even if the environment is on another
    cluster, which they change through its API."""
    finds_endpoints: ClassVar[bool] = False
    """Indicates whether this kind finds the endpoints of its ports. Otherwise, instances of the engine have
    them."""
    is_counted: ClassVar[bool] = False
    """Indicates whether the creation, deletion or renaming of a service makes services that use its variables
    out of date."""
    has_short_results: ClassVar[bool] = False
    """Indicates whether existing clients read only SUCCESS or FAILED in a history, instead of a state."""
    builds: ClassVar[bool] = True
    """Whether a deployment that failed before anything was started ends in the state of a failed build."""
    has_versions: ClassVar[bool] = True
    """Indicates whether a rollback goes back to an earlier build. Without, it goes back to settings alone, as
    with databases, whose data only fits their present version."""
    needs_past_workloads: ClassVar[bool] = False
    """Indicates whether it reads the workloads of past deployments. Otherwise, only the newest are kept."""
    run_api: ClassVar[RunApi | None] = None
    """The API for requests of its runs to this server; None if its runs send none."""
    more_time: ClassVar[str] = "ask the operator to raise the setting run_seconds"
    """The remedy in messages about runs that exceeded their time limit."""

    @property
    def deploys_by(self) -> Do:
        """The action of deployments of this kind."""
        return Do.RUN if runs_once(self.family) else Do.DEPLOY

    def obstacle(self, place: Place) -> str:
        """Returns why the engine of a place cannot run services of this kind; empty if it can."""
        return f"{self.image_field}: {NO_IMAGES}" if self.image_field and place.takes == "native" else ""

    def obstacle_of(self, place: Place, spec: S) -> str:
        """Returns why the engine of a place cannot run a service with these settings; empty if it can."""
        return self.obstacle(place)

    def demand(self, spec: S) -> Demand:
        """Returns the resources that each instance needs."""
        return msgspec.convert(spec, Demand, from_attributes=True)

    def diagnose(self, settings: Settings, machine: MachineOfRuns) -> Sequence[Finding]:
        """Returns the findings of `windlass doctor` about programs that this kind needs. May start these
        programs."""
        return ()

    def loops(self, ctx: Context) -> Sequence[Callable[[], Awaitable[None]]]:
        """Returns the endless loops of a server for this kind."""
        return ()

    def endpoints(self, ctx: Context, workload: Workload) -> Mapping[str, Sequence[ReleasedEndpoint]] | None:
        """Returns the endpoints of each port of a workload, by its name; None if they are not known yet. Only
        called if `finds_endpoints`."""
        return {}

    # Changes of the resource. Each method runs in the transaction of the change.

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[S]) -> None:
        """Completes or refuses a draft before it is stored."""

    async def created(self, ctx: Context, tx: Tx, draft: Draft[S]) -> None:
        """Stores records that belong to a new service."""

    async def updating(self, ctx: Context, tx: Tx, change: Change[S]) -> None:
        """Completes or refuses a change before it is stored."""

    # Deployments, from the request to the workload

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        """Returns the version that the body of a deploy requests."""
        return ChosenVersion()

    async def chosen_version(self, tx: Tx, service: Row, body: Spec | None) -> ChosenVersion:
        """Returns the requested version after checks in the database. Raises Invalid or Conflict if the
        version is unavailable."""
        return self.asked_version(body)

    def new_commit(self, service: Row, commit: str) -> ChosenVersion:
        """Returns the version for an automatic deployment of a commit."""
        return ChosenVersion(git_commit_id=commit)

    def is_version(self, details: Particulars) -> bool:
        """Returns whether the deployment has a version that another deployment may repeat."""
        return True

    def removal_action(self, query: Spec | None) -> str:
        """Returns the task that runs before the removal of a service, from the query of the request."""
        return ""

    def stop_action(self, service: Row) -> str:
        """Returns the task that runs when a service is stopped; empty if ending its instances is enough. A
        word in capital letters is shown to clients."""
        return ""

    async def is_only_planned(self, ctx: Context, service: Row) -> bool:
        """Returns whether each successful deployment of a service changed nothing, such as a plan."""
        return False

    async def prepare_removal(
        self, ctx: Context, build_input: BuildInput, sub_action: str
    ) -> tuple[BuiltArtifact, Workload] | None:
        """Returns a workload that runs to its end before a service is removed or stopped; None if there is
        none."""
        return None

    async def run_ended(self, ctx: Context, service: Row, deployment: DeploymentRow) -> None:
        """Withdraws the rights of a deployment's run, after the end of the deployment. Not called if the
        server is killed in that moment."""

    async def explain_failure(self, ctx: Context, service: Row, deployment: DeploymentRow) -> str:
        """Returns the remedy and the reason of a failed run; empty if its output contains them."""
        return ""

    def repository(self, service: Row) -> GitRepositoryRequest | None:
        """Returns the repository from which a service is built; None without one."""
        return service.read(RepositorySettings).git_repository or None

    def image(self, service: Row) -> ImageSource | None:
        """Returns the image that a service runs unchanged; None without one."""
        return None

    def deploys_new_tags(self, service: Row) -> bool:
        """Returns whether new tags of a service's image are deployed automatically."""
        return False

    def request_of_tag(self, tag: str) -> Spec | None:
        """Returns the body of a deploy that requests a tag."""
        return None

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        """Returns the settings of a service that differ in a preview; None if previews do not have it.
        `source`: the branch or tag that it has there, if the preview is of its repository or image."""
        return {}

    def runs_in_preview(self, service: Row) -> bool:
        """Returns whether a preview deploys a service by itself."""
        return True

    def asks_for_previews(self, service: Row) -> bool:
        """Returns whether pull requests for the repository of a service, or tags of its image, get
        previews."""
        has_source = self.repository(service) is not None or self.image(service) is not None
        return has_source and service.read(PreviewSettings).auto_preview

    def size(self, service: Row) -> SizeSettings:
        """Returns the name of a service, and the resources of each instance."""
        return service.read(SizeSettings)

    def check_version(self, service: Row, version: ChosenVersion) -> None:
        """Refuses a version that services of this kind cannot have."""

    async def check_choice(self, tx: Tx, actor: Actor, service: Row, version: ChosenVersion) -> None:
        """Refuses an actor who may not choose this version of a service, although they may deploy it."""

    async def may_repeat(self, tx: Tx, service: Row, deployment: DeploymentRow) -> bool:
        """Returns whether a redeploy may repeat the version of an earlier deployment. Otherwise, it deploys
        the newest version."""
        return True

    def asked_event(self, service: Row, query: Spec | None) -> str:
        """Returns the event whose command a deploy requests; empty for the default event."""
        return ""

    def event_at(self, action: Do) -> str:
        """Returns the job event whose command runs with this action; empty if there is none."""
        return ""

    def needs_upload(self, service: Row) -> bool:
        """Returns whether each deploy of a service uses an upload, by default the newest."""
        return False

    def deploys_new_commits(self, service: Row) -> bool:
        """Returns whether new commits of a service's branch are deployed automatically."""
        return False

    def settings(self, version: ChosenVersion | Particulars) -> Mapping[str, object]:
        """Returns the settings that a version overrides."""
        return {}

    def release_settings(self, settings: Document) -> Document:
        """Returns the settings of a release to which a rollback goes back, without those that Windlass chose
        for its build."""
        return settings

    async def prepare(self, ctx: Context, build_input: BuildInput) -> tuple[BuiltArtifact, Workload]:
        """Builds the artifact of a deployment, and computes the workload that runs it."""
        built = await self.make(ctx, build_input)
        return built, await self.compute(ctx, build_input, built.made.artifact)

    async def compute(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> Workload:
        """Computes the workload of a deployment with this artifact."""
        usual = self._usual_workload(ctx, build_input, artifact)
        workload = await self.workload(ctx, build_input.service, usual)
        return workload if workload.artifact.static is None else _without_instances(workload)

    def _usual_workload(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> Workload:
        deployment, inputs = build_input.deployment, build_input.inputs
        return replace(
            self.usual_workload(ctx, build_input.service, artifact),
            generation=deployment.number,
            deployment=deployment.id,
            variables=inputs.variables,
            files=inputs.files,
            hidden=inputs.secrets | inputs.secret_files,
        )

    def usual_workload(self, ctx: Context, service: Row, artifact: Artifact) -> Workload:
        """Returns a workload with the settings that all kinds have in common, without variables."""
        settings, advanced = self.size(service), AdvancedValues(service.body)
        grace = advanced.changed("deployment.termination_grace_period_seconds")
        return Workload(
            service=service.id,
            family=service.family,
            name=settings.name,
            environment=service.parent,
            org=service.org,
            generation=0,
            deployment="",
            artifact=artifact,
            labels=service.read(LabelSettings).labels,
            cpu=settings.cpu,
            memory=settings.memory,
            settle=ctx.settings.settle_seconds,
            patience=ctx.settings.ready_seconds,
            grace=ctx.settings.stop_seconds if grace is None else grace,
            time_limit=ctx.settings.run_seconds,
        )

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        """Builds the artifact that the engine starts. Raises BuildError, GitError or EngineError with a
        readable message."""
        raise NotImplementedError

    async def fetch(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> None:
        """Provides the artifact of an earlier deployment to the engine before it is started again."""

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        """Returns whether the artifact of an earlier deployment still exists."""
        return True

    async def workload(self, ctx: Context, service: Row, default_workload: Workload) -> Workload:
        """Returns the workload of a service. `default_workload` contains the fields that all kinds have in
        common."""
        raise NotImplementedError

    def frozen(self, service: Row, workload: Workload) -> Mapping[str, object]:
        """Returns document fields with values that Windlass chose when the workload was frozen."""
        return {}

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """Returns document fields that a successful deployment changes, at any depth."""
        return {}

    def shown_version(self, service: Row, details: Particulars) -> Document:
        """Returns the version of a deployment for lists of past deployments."""
        return {"commit": details.commit} if details.commit else {}

    # Exports as manifests

    def exported_image(self, service: Row) -> str:
        """Returns the public image of a service whose settings name none; empty for other services."""
        return ""

    async def exported_workload(
        self, ctx: Context, service: Row, default_workload: Workload, placeholder: Callable[[str], str]
    ) -> Workload:
        """Returns the workload of a service for another cluster. `placeholder` returns the text that stands
        for a secret of the service."""
        return await self.workload(ctx, service, default_workload)

    async def exported_offer(
        self,
        ctx: Context,
        reads: Reads,
        environment: str,
        address: FindAddress,
        placeholder: Callable[[str, str], str],
    ) -> Sequence[BuiltIn]:
        """Returns the variables of `offer` for another cluster. `placeholder` returns the text that stands
        for a secret of a service."""
        offer = await self.offer(ctx, reads, environment, address)
        return [
            replace(one, value=placeholder(one.owner, one.key)) if one.secret else one
            for one in offer.variables
        ]

    # The registry of the image

    def with_registry(self, service: Row, registry: Row) -> Mapping[str, object]:
        """Returns document fields that show the registry of an image, at any depth."""
        return {}

    def service_type(self, service: Row) -> str:
        """Returns the type of a service in a registry's list of users."""
        return enum_value(service.family)

    # Variables for other services of the environment

    def main_port(self, service: Row) -> MainPort | None:
        """Returns the port that is used if no port is named."""
        ports = service.read(Listener).ports
        port = next((port for port in ports if port.is_default), ports[0] if ports else None)
        if port is None:
            return None
        held_as = "" if port.is_default else port.name
        return MainPort(port.internal_port, port.protocol, port.publicly_accessible, held_as)

    async def listed_variables(self, ctx: Context, reads: Reads, service: Row) -> list[BuiltIn]:
        """Returns the variables that API lists show. Their host names are stable, and not necessarily the
        addresses in use."""
        port = self.main_port(service)
        return address_variables(
            self.family.name,
            service.id,
            nominal_host(self.host_word or self.family.name, service.id),
            port.internal if port else None,
            await external_host(ctx, reads, service.id, port),
        )

    async def offer(self, ctx: Context, reads: Reads, environment: str, address: FindAddress) -> Offer:
        """Returns the variables that services of this kind offer to other services of the environment, with
        the current addresses."""
        variables: list[BuiltIn] = []
        for neighbour in await ctx.neighbours.of(reads, environment, self.family.name, self.main_port):
            internal = neighbour.port.internal
            endpoint = await address(environment, neighbour.id, neighbour.name, internal)
            outside = await external_host(ctx, reads, neighbour.id, neighbour.port)
            variables += address_variables(
                self.family.name, neighbour.id, endpoint.host, endpoint.port, outside
            )
        return Offer(with_compatible_keys(variables))

    def listed_keys(self, service: Row) -> Collection[str]:
        """Returns the keys of all variables that lists can show for a service."""
        return [variable.key for variable in address_variables(self.family.name, service.id, "", 1, "")]

    def counted_keys(self, id: str, name: str) -> Collection[str]:
        """Returns the variable keys through which other services refer to this service; see `is_counted`."""
        return ()


def _without_instances(workload: Workload) -> Workload:
    """Returns a workload without instances, because the router serves its files."""
    return replace(
        workload,
        volumes=(),
        alone=False,
        direct=False,
        instances=0,
        most=0,
        ready=(),
        watched=False,
        alive=(),
    )


AnyKind: TypeAlias = ServiceKind[Any]
"""The kind of a family that is known only at run time."""


async def external_host(ctx: Context, reads: Reads, service: str, port: MainPort | None) -> str | None:
    """Returns the host name at which a service is reached from outside; None unless its main port is
    public."""
    if port is None or not port.public:
        return None
    if port.protocol not in hosts.BY_NAME:
        return ctx.settings.gateway_host
    held, place = newest(port.held_as, await reads.names.of(service)), await ctx.places.of(service)
    return f"{held.name}.{place.domain or ctx.settings.public_domain}".lower() if held else None
