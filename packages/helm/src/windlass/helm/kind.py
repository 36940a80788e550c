"""The kind of Helm services. Each deployment is a run of Helm, which makes the release of a chart in the
namespace of the environment.

The run itself is in `launch.helm`. Charts are fetched in `chart_folders`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.errors import Conflict, Forbidden, Invalid
from windlass.base.segments import line_filter
from windlass.builders.builder import BuildError
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.context.neighbours import MainPort
from windlass.control.context.place import Place
from windlass.control.kinds.service_kind import (
    FindAddress,
    MachineOfRuns,
    Offer,
    PreviewSource,
    ServiceKind,
    SizeSettings,
)
from windlass.control.records.deployment_inputs import read_kept
from windlass.control.records.deployments import particulars
from windlass.control.records.run_servers import other_addresses
from windlass.control.request.behaviour import Change, Draft
from windlass.control.request.permissions import allows
from windlass.control.workloads.branch_choice import BranchChoice, watch_created, watch_updated
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.deployed_commit import commit_fields, with_deployed_commit
from windlass.core.access import Actor, Scope
from windlass.core.declare.document import Document
from windlass.core.declare.resource import clash
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.core.declare.spec import Spec
from windlass.core.deploy.injected_variables import BuiltIn
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.stage_order import Precedence
from windlass.engines.engine import Demand
from windlass.engines.findings import Finding, ok
from windlass.engines.releases import ReleasedEndpoint
from windlass.engines.workload import Artifact, Workload, WorkloadPort
from windlass.families.environment import EnvironmentShown
from windlass.helm.chart_folders import VALUES_COMMIT, chart_path, make_folder, values_paths
from windlass.helm.failures import MAX_LOG_LINES, explain_output
from windlass.helm.families.helm import DIFFERENCE, Helm, helm
from windlass.helm.families.helm_repository import HelmRepository, helm_repository
from windlass.helm.families.shapes import (
    ChartPort,
    ChosenHelm,
    ForcedDifference,
    HelmDeployRequest,
    HelmShown,
)
from windlass.helm.release_watch import ReleaseWatch, is_served, name_of_port, release_name
from windlass.helm.run_programs import (
    LAUNCHER_PATH,
    ChartProgram,
    FindProgram,
    installed_program,
    launcher_archive,
    obstacle_at,
    program_at,
)
from windlass.helm.run_requests import RUN_WORD, HelmRunApi, end_credential, run_credential
from windlass.launch.helm import FILES_FOLDER, PAUSE, REMOVE, RUN_VARIABLE, SHOW, TOKEN, UPGRADE
from windlass.store import DeploymentRow, Reads, Row, Tx

RUN_MILLICORES: Final = 500
RUN_MEBIBYTES: Final = 512
CANCEL_GRACE_SECONDS: Final = 60.0
"""Seconds in which a cancelled run can end its current operation and note that in the release."""
MARGIN_SECONDS: Final = 120.0
"""Seconds that a run may take in addition to Helm's own time limit, to repair the release and to explain a
failure."""
_NOT_ROUTED: Final = (
    "Leave namespace out of these ports, or use an Ingress of the chart for them: the gateway reaches only "
    "Services in the namespace of the environment, and gives these ports no address: "
)
_PATH_VARIABLE: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAUNCHER_COMMAND: Final = (sys.executable, "-I", "-m", "windlass.launch.helm")


class _Permission(Struct):
    """The permission of a service as it is kept with a deployment."""

    is_given: bool = field(name="allow_cluster_wide_resources", default=False)


class HelmKind(ServiceKind[Helm]):
    family = helm
    precedence = Precedence.PROGRAM
    runs_on_server = True
    finds_endpoints = True
    run_api = HelmRunApi()
    more_time = "raise timeout_sec"
    instead_of_manifests = "it is a chart: install it with helm upgrade --install, its values and its files"

    def __init__(self, find_program: FindProgram = installed_program) -> None:
        self._find_program = find_program
        self._watch: ReleaseWatch | None = None

    def loops(self, ctx: Context) -> Sequence[Callable[[], Awaitable[None]]]:
        self._watch = ReleaseWatch(ctx)
        return (self._watch.run,)

    def endpoints(self, ctx: Context, workload: Workload) -> Mapping[str, Sequence[ReleasedEndpoint]] | None:
        return self._watch.endpoints(workload) if self._watch else None

    def obstacle_of(self, place: Place, spec: Helm) -> str:
        return "" if place.elsewhere is not None else obstacle_at(place)

    def demand(self, spec: Helm) -> Demand:
        return Demand(RUN_MILLICORES, RUN_MEBIBYTES)

    def size(self, service: Row) -> SizeSettings:
        return SizeSettings(service.read(Helm).name, RUN_MILLICORES, RUN_MEBIBYTES)

    def diagnose(self, settings: Settings, machine: MachineOfRuns) -> Sequence[Finding]:
        if machine.takes == "image":
            return ()
        try:
            return [ok("Helm", self._find_program())]
        except Invalid:
            return [ok("Helm", "not found; only Helm services on this machine need it")]

    # Create and update

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Helm]) -> None:
        await _require_admin(tx, draft.actor, draft.above.id, draft.spec)
        draft.give(**await _added_fields(tx, draft.spec, None))
        await watch_created(ctx, tx, draft, _branch_choice(draft.spec))

    async def updating(self, ctx: Context, tx: Tx, change: Change[Helm]) -> None:
        if _object_settings(change.spec) != _object_settings(change.before):
            await _require_admin(tx, change.actor, change.row.parent, change.spec)
            await _refuse_waiting(tx, change)
        change.extras |= await _added_fields(tx, change.spec, change.row)
        await watch_updated(ctx, tx, change, _branch_choice(change.spec), _branch_choice(change.before))

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        spec = service.read(Helm)
        if not spec.auto_preview:
            return None
        changes: Document = {"auto_deploy": False, "allow_cluster_wide_resources": False}
        return changes if source is None else changes | {"source": {"git_repository": source.changes}}

    def repository(self, service: Row) -> GitRepositoryRequest | None:
        return service.read(Helm).source.git_repository or None

    def with_registry(self, service: Row, registry: Row) -> Mapping[str, object]:
        return {"source": {"repository": {"repository": _shown_repository(registry)}}}

    # Deployments

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        if not isinstance(body, HelmDeployRequest | ChosenHelm):
            return ChosenVersion()
        return ChosenVersion(
            git_commit_id=body.git_commit_id or None,
            choices={VALUES_COMMIT: commit} if (commit := body.values_override_git_commit_id) else {},
            image_tag=body.chart_version or None,
        )

    def check_version(self, service: Row, version: ChosenVersion) -> None:
        spec = service.read(Helm)
        if version.git_commit_id and not spec.source.git_repository:
            raise clash("git_commit_id", "leave it out: the chart is from a chart repository")
        if version.image_tag and spec.source.git_repository:
            raise clash("chart_version", "leave it out: the chart is from a git repository")
        files = spec.values_override.file or None
        if VALUES_COMMIT in version.choices and (files is None or not files.git):
            raise clash("values_override_git_commit_id", "leave it out: no values are from a git repository")

    async def check_choice(self, tx: Tx, actor: Actor, service: Row, version: ChosenVersion) -> None:
        spec = service.read(Helm)
        if not spec.allow_cluster_wide_resources:
            return
        is_chosen = version.git_commit_id or version.choices or version.made
        if is_chosen and not await _is_admin_of_cluster(tx, actor, service.parent):
            raise Forbidden(
                "allow_cluster_wide_resources: use a token with the scope Admin that is not limited, or "
                "deploy without naming a commit or an earlier deployment: the chart could change everything "
                "in the cluster, so only an administrator of the cluster chooses it"
            )

    async def may_repeat(self, tx: Tx, service: Row, deployment: DeploymentRow) -> bool:
        if not service.read(Helm).allow_cluster_wide_resources:
            return True
        kept = await read_kept(tx, deployment.id)
        former = await tx.deployment_inputs.version(service.id, kept.service) if kept else None
        # Anyone with the scope Deploy may have chosen the commit of a deployment before the permission.
        return former is not None and msgspec.json.decode(former.body, type=_Permission).is_given

    def asked_event(self, service: Row, query: Spec | None) -> str:
        return DIFFERENCE if isinstance(query, ForcedDifference) and query.force_event else ""

    def settings(self, version: ChosenVersion | Particulars) -> Mapping[str, object]:
        if not version.image_tag:
            return {}
        return {"source": {"helm_repository": {"chart_version": version.image_tag}}}

    def is_version(self, details: Particulars) -> bool:
        return details.event != DIFFERENCE

    def deploys_new_commits(self, service: Row) -> bool:
        return _branch_choice(service.read(Helm)).is_watched

    def removal_action(self, query: Spec | None) -> str:
        return REMOVE

    def stop_action(self, service: Row) -> str:
        return PAUSE

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        ports = build_input.service.read(Helm).ports
        if others := [name_of_port(port) for port in ports if not is_served(port)]:
            build_input.say(_NOT_ROUTED + ", ".join(others))
        return await make_folder(ctx, build_input, (await self._program(ctx, build_input)).image)

    async def prepare_removal(
        self, ctx: Context, build_input: BuildInput, sub_action: str
    ) -> tuple[BuiltArtifact, Workload] | None:
        """Returns the run that removes or pauses the release, with the chart of the last deployment."""
        place = await ctx.places.of_environment(ctx.store.reads, build_input.service.parent)
        last = await _last_run(ctx, build_input.service.id)
        if sub_action not in (REMOVE, PAUSE) or last is None or obstacle_at(place):
            return None
        made = particulars(last).made
        assert made is not None
        built = BuiltArtifact(made)
        if not await self.is_kept(ctx, build_input.service, made.artifact):
            built = await self.make(ctx, build_input)
        return built, await self._run(ctx, build_input, built.made.artifact, sub_action)

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    async def compute(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> Workload:
        is_difference = particulars(build_input.deployment).event == DIFFERENCE
        return await self._run(ctx, build_input, artifact, SHOW if is_difference else UPGRADE)

    async def _program(self, ctx: Context, build_input: BuildInput) -> ChartProgram:
        service = build_input.service
        if why := obstacle_at(await ctx.places.of_environment(ctx.store.reads, service.parent)):
            raise BuildError(why)
        try:
            return program_at(ctx.settings, await ctx.places.of(service.id), self._find_program)
        except Invalid as error:
            raise BuildError(str(error)) from error

    async def _run(self, ctx: Context, build_input: BuildInput, artifact: Artifact, action: str) -> Workload:
        spec, service = build_input.service.read(Helm), build_input.service
        place, program = await ctx.places.of(service.id), await self._program(ctx, build_input)
        others = await other_addresses(ctx.store.reads, place.machine, program.server, ctx.clock.now())
        timeout = spec.timeout_sec or ctx.settings.run_seconds
        files = _raw_values(spec)
        request: Document = {
            "program": program.path,
            "action": action,
            "urls": [f"{server}/{RUN_WORD}/{service.id}" for server in (program.server, *others)],
            "container": bool(program.image),
            "release": release_name(service.id),
            "chart": chart_path(spec),
            "values": [*values_paths(spec), *files],
            "set": spec.values_override.set,
            "set_string": spec.values_override.set_string,
            "set_json": spec.values_override.set_json,
            "arguments": spec.arguments,
            "timeout": timeout,
        }
        usual = self._usual_workload(ctx, build_input, artifact)
        own = {
            RUN_VARIABLE: msgspec.json.encode(request).decode(),
            TOKEN: run_credential(ctx, build_input.deployment.id),
        }
        workload = replace(
            usual,
            variables={**usual.variables, **own},
            files={**usual.files, **files},
            hidden=usual.hidden | {TOKEN},
            ports=tuple(_workload_port(port) for port in spec.ports if is_served(port)),
            calls_server=True,
            time_limit=float(timeout + MARGIN_SECONDS),
            grace=max(usual.grace, CANCEL_GRACE_SECONDS),
        )
        return _in_container(workload) if program.image else _on_machine(workload, program)

    async def workload(self, ctx: Context, service: Row, default_workload: Workload) -> Workload:
        return default_workload

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """Returns the fields of the service's document that show which commit is released."""
        if (commit := details.commit) is None or not self.is_version(details):
            return {}
        shown = commit_fields(commit)
        return {"source": {"git_repository": shown, "git": {"git_repository": shown}}}

    def shown_version(self, service: Row, details: Particulars) -> Document:
        chart = service.read(Helm).source.helm_repository
        if not chart:
            return {"commit": details.commit} if details.commit else {}
        return {"image_name": chart.chart_name, "tag": details.image_tag or chart.chart_version}

    async def run_ended(self, ctx: Context, service: Row, deployment: DeploymentRow) -> None:
        await end_credential(ctx, service, deployment)

    async def explain_failure(self, ctx: Context, service: Row, deployment: DeploymentRow) -> str:
        lines = await asyncio.to_thread(
            ctx.logs.tail, service.id, MAX_LOG_LINES, line_filter(version=deployment.id)
        )
        return explain_output([msgspec.json.decode(line)["message"] for line in lines])

    # For other services

    def main_port(self, service: Row) -> MainPort | None:
        return None

    async def listed_variables(self, ctx: Context, reads: Reads, service: Row) -> list[BuiltIn]:
        return []

    def listed_keys(self, service: Row) -> Collection[str]:
        return ()

    async def offer(self, ctx: Context, reads: Reads, environment: str, address: FindAddress) -> Offer:
        return Offer()  # a chart names no address: its Services are found by their names


def _workload_port(port: ChartPort) -> WorkloadPort:
    return WorkloadPort(
        name=name_of_port(port),
        internal=port.internal_port,
        protocol=port.protocol,
        public=True,
        external=port.external_port or None,
        default=bool(port.is_default),
    )


def _on_machine(workload: Workload, program: ChartProgram) -> Workload:
    folder = str(Path(program.path).parent)
    environment = {**workload.artifact.environment, "PATH": f"{folder}:{_PATH_VARIABLE}"}
    artifact = replace(workload.artifact, environment=environment)
    return replace(workload, artifact=artifact, command=_LAUNCHER_COMMAND)


def _in_container(workload: Workload) -> Workload:
    return replace(
        workload,
        entrypoint=("python3", "-I", LAUNCHER_PATH),
        files={**workload.files, LAUNCHER_PATH: launcher_archive()},
    )


def _raw_values(spec: Helm) -> dict[str, bytes]:
    """Returns the texts of values as files, by their path."""
    files = spec.values_override.file or None
    raw = files.raw if files else None
    texts = raw.values if raw else []
    return {f"{FILES_FOLDER}/{index:02}.yaml": text.content.encode() for index, text in enumerate(texts)}


async def _last_run(ctx: Context, service: str) -> DeploymentRow | None:
    """Returns the newest deployment that may have changed the release."""
    for row in await ctx.store.reads.deployments.latest(service, 100):
        details = particulars(row)
        if details.made is not None and details.run is not None and details.event != DIFFERENCE:
            return row
    return None


# Settings


def _object_settings(spec: Helm) -> object:
    """Returns the settings that decide which objects a release has."""
    parts = (spec.allow_cluster_wide_resources, spec.source, spec.values_override, spec.arguments)
    return _without_nulls(msgspec.to_builtins(parts))


def _without_nulls(value: object) -> object:
    """Returns a value without nulls, which stand for fields that are left out."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list | tuple) else value


async def _require_admin(tx: Tx, actor: Actor, environment_id: str, spec: Helm) -> None:
    """Refuses a chart that may change the whole cluster, unless the actor has the scope Admin for the
    cluster. Otherwise, a caller with write access to one service could deploy any chart, and take over the
    cluster."""
    if spec.allow_cluster_wide_resources and not await _is_admin_of_cluster(tx, actor, environment_id):
        raise Forbidden(
            "allow_cluster_wide_resources: use a token with the scope Admin that is not limited, or set it "
            "to false: the chart could change everything in the cluster"
        )


async def _is_admin_of_cluster(tx: Tx, actor: Actor, environment_id: str) -> bool:
    """Returns whether the actor has the scope Admin for the cluster of an environment. The scope for the
    environment is not enough: environments of other projects are on the cluster, too."""
    row = await tx.resources.get(environment_id)
    cluster = await tx.resources.get(row.read(EnvironmentShown).cluster_id) if row else None
    return cluster is not None and await allows(tx, actor, Scope.ADMIN, cluster)


async def _refuse_waiting(tx: Tx, change: Change[Helm]) -> None:
    """Refuses the permission while deployments wait: anyone with the scope Deploy may have chosen their
    commits, and they would run with it."""
    is_new = change.spec.allow_cluster_wide_resources and not change.before.allow_cluster_wide_resources
    if is_new and await tx.deployments.open(change.row.id):
        raise Conflict(
            "allow_cluster_wide_resources: wait until the deployments of the service have ended, or cancel "
            "them: they would get this permission"
        )


async def _added_fields(tx: Tx, spec: Helm, row: Row | None) -> Document:
    """Returns the fields that the response has in addition to the settings."""
    shown = row.read(HelmShown) if row else None
    former = {port.name: port.id for port in shown.ports} if shown else {}
    return {
        "source": await _shown_source(tx, spec, shown),
        "ports": [_shown_port(port, former) for port in spec.ports],
        "values_override": _shown_values(spec),
    }


async def _shown_source(tx: Tx, spec: Helm, shown: HelmShown | None) -> Document:
    if repository := spec.source.git_repository:
        former = shown.source.git_repository if shown else None
        document = with_deployed_commit(repository, former)
        return {"git_repository": document, "git": {"git_repository": document}}
    chart = spec.source.helm_repository
    assert chart
    row = await tx.resources.find(helm_repository.name, str(chart.repository))
    stored = {"chart_name": chart.chart_name, "chart_version": chart.chart_version}
    repository_fields = _shown_repository(row) if row else {"id": chart.repository, "name": "", "url": ""}
    return {
        "helm_repository": {"repository": chart.repository, **stored},
        "repository": {**stored, "repository": repository_fields},
    }


def _shown_repository(row: Row) -> Document:
    spec = row.read(HelmRepository)
    return {"id": row.id, "name": spec.name, "url": spec.url}


def _shown_port(port: ChartPort, former: Mapping[str, str]) -> Document:
    name = name_of_port(port)
    kind = "SERVICE_NAME" if port.service_name else "SERVICE_SELECTORS"
    document: Document = msgspec.to_builtins(port)
    given = {key: value for key, value in document.items() if value is not None}
    return {
        **given,
        "id": former.get(name) or ids.new_id(),
        "name": name,
        "port_type": kind,
        "publicly_accessible": is_served(port),
        "is_default": bool(port.is_default),
    }


def _shown_values(spec: Helm) -> Document:
    """Returns the values with the fields of a repository that clients may leave out."""
    values: Document = msgspec.to_builtins(spec.values_override)
    files = spec.values_override.file or None
    if files and files.git:
        repository = with_deployed_commit(files.git.git_repository, None)
        raw = {"raw": msgspec.to_builtins(files.raw)} if files.raw else {}
        values["file"] = {**raw, "git": {"git_repository": repository, "paths": files.git.paths}}
    return values


def _branch_choice(spec: Helm) -> BranchChoice:
    repository = spec.source.git_repository or None
    return BranchChoice(bool(spec.auto_deploy and repository), repository, "source.git_repository")


kind = HelmKind()
