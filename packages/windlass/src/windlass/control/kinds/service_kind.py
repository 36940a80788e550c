"""A kind of service: how it is made, how it runs, and what its neighbours find.

A family declares a service; its kind, one file in `kinds/`, decides how it runs. Everything else in the
control plane asks the kind and never for the name of a family. This file has the defaults of all kinds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import IntEnum
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
from windlass.core.declare.document import Document
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
from windlass.core.deploy.states import Do
from windlass.core.words.naming import enum_value
from windlass.engines.engine import Demand
from windlass.engines.findings import Finding
from windlass.engines.workload import Artifact, ServiceAddress, Workload
from windlass.store import DeploymentRow, Reads, Row, Tx

FindAddress = Callable[[str, str, str, int], Awaitable[ServiceAddress]]
"""A function from an environment, a service, its name and an inner port to its address for other services."""


S = TypeVar("S", bound=Spec)


class SizeSettings(Struct):
    """The settings that services of all kinds have."""

    name: str
    cpu: int
    memory: int


class RepositorySettings(Struct):
    """The repository settings of a service."""

    git_repository: GitRepositoryRequest | UnsetType | None = None


class Offer(Struct, frozen=True):
    """Variables that the services of one family offer to their neighbours."""

    variables: Sequence[BuiltIn] = ()
    counted: Sequence[Row] = ()
    """The services that they are of, where these count for those that use them; see `is_counted`."""
    warnings: Sequence[str] = ()
    """Returns warnings for the build log."""


class Precedence(IntEnum):
    """The turn of services among those of their environment: each waits for those of earlier turns that are
    deployed together with it, and ends before them."""

    DATA = 0
    PREPARATION = 1
    """The precedence of kinds that run to completion before programs start, and may set variables for
    them."""
    PROGRAM = 2


class MachineOfRuns(Struct, frozen=True, kw_only=True):
    """The information of `windlass doctor` about the engine in use."""

    takes: Literal["native", "image"]
    server_host: str
    """The name by which its instances find the machine of the server; see `Engine.server_host`."""


NO_IMAGES: Final = (
    "the cluster of this environment runs no images: start the server with the Docker engine "
    "(WINDLASS_ENGINE=docker), or create an application, which is built from a repository"
)


class ServiceKind(Generic[S]):
    """The kind of all services of one family: `ServiceKind[Database]`. A kind overrides the methods that
    differ."""

    family: ClassVar[Family]
    precedence: ClassVar[Precedence] = Precedence.PROGRAM
    """Its turn where services of several kinds are deployed together."""
    image_field: ClassVar[str] = ""
    """The field that chooses an image; empty is a kind that runs without images."""
    host_word: ClassVar[str] = ""
    """The first word of the host that lists of variables show; empty is the name of the family."""
    size_fields: ClassVar[Mapping[str, str]] = {}
    """The fields of the resources of an instance, where they have other names than cpu, memory and gpu."""
    has_runs: ClassVar[bool] = False
    """True if a deployment of it makes a version ready, which runs of its own start: those of jobs."""
    is_counted: ClassVar[bool] = False
    """True if services that use its variables are out of date when it is created, deleted or renamed."""
    run_api: ClassVar[RunApi | None] = None
    """The requests of its runs to this server; None if they send none."""
    more_time: ClassVar[str] = "ask the operator to raise the setting run_seconds"
    """The way to give a run of it more time."""

    @property
    def deploys_by(self) -> Do:
        """The action of its deployments."""
        return Do.RUN if runs_once(self.family) else Do.DEPLOY

    def obstacle(self, place: Place) -> str:
        """Why the engine of a place cannot run services of this kind, or an empty text."""
        return f"{self.image_field}: {NO_IMAGES}" if self.image_field and place.takes == "native" else ""

    def demand(self, spec: S) -> Demand:
        """Returns the resources that each instance needs."""
        return msgspec.convert(spec, Demand, from_attributes=True)

    def diagnose(self, settings: Settings, machine: MachineOfRuns) -> Sequence[Finding]:
        """Returns what `windlass doctor` says about the programs of this kind. May start them."""
        return ()

    # As a resource. Each step is in the transaction of the change.

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[S]) -> None:
        """Completes or refuses a draft before it is stored."""

    async def updating(self, ctx: Context, tx: Tx, change: Change[S]) -> None:
        """Completes or refuses a change before it is stored."""

    # From a deploy to what runs

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        """Returns the version that the body of a deploy asks for."""
        return ChosenVersion()

    async def chosen_version(self, tx: Tx, service: Row, body: Spec | None) -> ChosenVersion:
        """The same, where records decide: raises Invalid or Conflict if the version cannot be had."""
        return self.asked_version(body)

    def new_commit(self, service: Row, commit: str) -> ChosenVersion:
        """Returns the version that deploys a new commit by itself."""
        return ChosenVersion(git_commit_id=commit)

    def is_version(self, details: Particulars) -> bool:
        """Returns whether a deployment is of a version, which another one may repeat."""
        return True

    def removal_action(self, query: Spec | None) -> str:
        """Returns what the removal of a service does first, from the query of its request."""
        return ""

    async def prepare_removal(
        self, ctx: Context, build_input: BuildInput, sub_action: str
    ) -> tuple[BuiltArtifact, Workload] | None:
        """Returns a workload that runs to its end before a service is removed; None if there is none."""
        return None

    async def explain_failure(self, ctx: Context, service: Row, deployment: DeploymentRow) -> str:
        """Returns the remedy for a failed run, and the reason; empty if its output contains it."""
        return ""

    def repository(self, service: Row) -> GitRepositoryRequest | None:
        """Returns the repository that a service is built from; None without one."""
        return service.read(RepositorySettings).git_repository or None

    def size(self, service: Row) -> SizeSettings:
        """Returns the name of a service, and the resources of each instance."""
        return service.read(SizeSettings)

    def check_version(self, service: Row, version: ChosenVersion) -> None:
        """Refuses a version that a service of this kind cannot have."""

    def asked_event(self, service: Row, query: Spec | None) -> str:
        """Returns the event whose command a deploy asks for; empty for the usual one."""
        return ""

    def event_at(self, do: Do) -> str:
        """Returns the event of a job whose command runs with this action; empty if there is none."""
        return ""

    def needs_upload(self, service: Row) -> bool:
        """Returns whether each deploy of a service uses an upload: by default, the newest one."""
        return False

    def deploys_new_commits(self, service: Row) -> bool:
        """Returns whether new commits of the branch of a service are deployed by themselves."""
        return False

    def settings(self, version: ChosenVersion | Particulars) -> Mapping[str, object]:
        """Returns the settings that a version replaces, with their values."""
        return {}

    async def prepare(self, ctx: Context, build_input: BuildInput) -> tuple[BuiltArtifact, Workload]:
        """Makes the artifact of a deployment, and computes the workload that runs it."""
        built = await self.make(ctx, build_input)
        return built, await self.compute(ctx, build_input, built.made.artifact)

    async def compute(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> Workload:
        """Computes the workload of a deployment that starts this artifact."""
        usual = self._usual_workload(ctx, build_input, artifact)
        workload = await self.workload(ctx, build_input.service, usual)
        return workload if workload.artifact.static is None else _without_instances(workload)

    def _usual_workload(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> Workload:
        """Returns the parts of a workload that all kinds have in common."""
        service, deployment, inputs = build_input.service, build_input.deployment, build_input.inputs
        settings = self.size(service)
        return Workload(
            service=service.id,
            family=service.family,
            name=settings.name,
            environment=service.parent,
            org=service.org,
            generation=deployment.number,
            deployment=deployment.id,
            artifact=artifact,
            variables=inputs.variables,
            files=inputs.files,
            hidden=inputs.secrets | inputs.secret_files,
            cpu=settings.cpu,
            memory=settings.memory,
            settle=ctx.settings.settle_seconds,
            patience=ctx.settings.ready_seconds,
            grace=ctx.settings.stop_seconds,
            time_limit=ctx.settings.run_seconds,
        )

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        """Builds the artifact that the engine starts. Raises BuildError, GitError or EngineError with a
        readable message."""
        raise NotImplementedError

    async def fetch(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> None:
        """Makes sure that the engine has the artifact of an earlier deployment before its start."""

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        """Returns whether an artifact of an earlier deployment can be started again."""
        return True

    async def workload(self, ctx: Context, service: Row, usual: Workload) -> Workload:
        """Returns what runs: `usual` has what all kinds have in common."""
        raise NotImplementedError

    def frozen(self, service: Row, workload: Workload) -> Mapping[str, object]:
        """Returns the fields of the document that Windlass chooses when a workload is frozen."""
        return {}

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """Returns the fields of the document that a successful deployment changes, at any depth."""
        return {}

    def shown_version(self, service: Row, details: Particulars) -> Document:
        """Returns the version that a deployment deployed, as histories show it."""
        return {"commit": details.commit} if details.commit else {}

    # For the registry of its image

    def with_registry(self, service: Row, registry: Row) -> Mapping[str, object]:
        """Returns the fields of the document that show the registry of an image, at any depth."""
        return {}

    def service_type(self, service: Row) -> str:
        """Returns the type of a service, as a registry shows it in the list of those that use it."""
        return enum_value(service.family)

    # For its neighbours, the services of its environment

    def main_port(self, service: Row) -> MainPort | None:
        """Returns the port that is meant when no port is named."""
        ports = service.read(Listener).ports
        port = next((port for port in ports if port.is_default), ports[0] if ports else None)
        if port is None:
            return None
        held_as = "" if port.is_default else port.name
        return MainPort(port.internal_port, port.protocol, port.publicly_accessible, held_as)

    async def listed_variables(self, ctx: Context, source: Reads, service: Row) -> list[BuiltIn]:
        """Returns what lists show: a host is a name that stays the same."""
        port = self.main_port(service)
        return address_variables(
            self.family.name,
            service.id,
            nominal_host(self.host_word or self.family.name, service.id),
            port.internal if port else None,
            await external_host(ctx, source, service.id, port),
        )

    async def offer(self, ctx: Context, source: Reads, environment: str, address: FindAddress) -> Offer:
        """Returns the variables that services of this kind offer to their neighbours, with the current
        addresses."""
        variables: list[BuiltIn] = []
        for neighbour in await ctx.neighbours.of(source, environment, self.family.name, self.main_port):
            internal = neighbour.port.internal
            endpoint = await address(environment, neighbour.id, neighbour.name, internal)
            outside = await external_host(ctx, source, neighbour.id, neighbour.port)
            variables += address_variables(
                self.family.name, neighbour.id, endpoint.host, endpoint.port, outside
            )
        return Offer(with_compatible_keys(variables))

    def listed_keys(self, service: Row) -> Collection[str]:
        """Returns the keys of all variables that lists may ever show of a service."""
        return [variable.key for variable in address_variables(self.family.name, service.id, "", 1, "")]

    def counted_keys(self, id: str, name: str) -> Collection[str]:
        """Returns the keys by which others mention a service that counts for them; see `is_counted`."""
        return ()


def _without_instances(workload: Workload) -> Workload:
    """Returns a workload that the router serves from files: nothing of it runs."""
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
"""The kind of a family that is known at run time only."""


async def external_host(ctx: Context, source: Reads, service: str, port: MainPort | None) -> str | None:
    """Returns the host at which a service is reached from outside, if its main port is public."""
    if port is None or not port.public:
        return None
    if port.protocol not in hosts.BY_NAME:
        return ctx.settings.gateway_host
    held, place = newest(port.held_as, await source.names.of(service)), await ctx.places.of(service)
    return f"{held.name}.{place.domain or ctx.settings.gateway_domain}".lower() if held else None
