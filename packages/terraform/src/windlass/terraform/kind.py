"""The kind of Terraform services. Each deployment is a run of Terraform or OpenTofu, either of this machine
or in an image.

The run itself is in `launch.terraform`. The state, its lock and plans are in `states`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.base.segments import line_filter
from windlass.base.settings import settings_of
from windlass.builders.builder import BuildError
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.context.neighbours import MainPort
from windlass.control.context.place import Place
from windlass.control.context.server_addresses import address_for_containers
from windlass.control.kinds.service_kind import (
    FindAddress,
    MachineOfRuns,
    Offer,
    PreviewSource,
    ServiceKind,
    SizeSettings,
)
from windlass.control.records.deployments import particulars
from windlass.control.records.run_servers import other_addresses
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.branch_choice import BranchChoice, watch_created, watch_updated
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.deployed_commit import commit_fields, with_deployed_commit
from windlass.control.workloads.fetched_files import ImageForFiles, fetch_files
from windlass.core.declare.document import Document
from windlass.core.declare.resource import clash
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.core.declare.spec import Spec
from windlass.core.deploy.injected_variables import (
    BuiltIn,
    output_word,
    prefixes_of,
    with_compatible_keys,
    without_secrets,
)
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.stage_order import Precedence
from windlass.core.deploy.states import Progress, State
from windlass.engines.engine import Demand
from windlass.engines.findings import Finding, ok, warn
from windlass.engines.workload import Artifact, Volume, Workload
from windlass.launch.terraform import APPLY, DESTROY, MIGRATE, PLAN_ONLY, UNLOCK
from windlass.launch.terraform import VOLUME_VARIABLE as LAUNCHER_VOLUME
from windlass.launch.terraform_environment import RUN_VARIABLE, STATE_TOKEN, TOKEN
from windlass.store import DeploymentRow, Reads, Row, Tx
from windlass.terraform.failures import MAX_LOG_LINES, explain_output
from windlass.terraform.families.shapes import (
    ChosenTerraform,
    TerraformDeployRequest,
    TerraformRemoval,
    TerraformShown,
    UninstallQuery,
)
from windlass.terraform.families.terraform import Terraform, terraform
from windlass.terraform.inputs import (
    SECRETS_NAME,
    action_of,
    has_resources,
    input_variables,
    last_run,
    output_mask,
    refuse_moved_state,
    run_request,
    secrets_of,
    take_secrets,
)
from windlass.terraform.programs import InstalledPrograms, Programs
from windlass.terraform.run_programs import (
    LAUNCHER_PATH,
    RunProgram,
    check_program,
    launcher_archive,
    program_of,
)
from windlass.terraform.run_requests import TerraformRunApi
from windlass.terraform.settings import TerraformSettings
from windlass.terraform.state_files import StateFile, read_state, shared_outputs
from windlass.terraform.states import (
    CredentialHolder,
    content_of,
    describe_lock,
    run_credential,
)

VOLUME_NAME: Final = "terraform"
CANCEL_GRACE_SECONDS: Final = 60.0
"""Seconds in which a cancelled run can complete its current operations and store its state."""
_ACTIONS_BY_REQUEST: Final = {"PLAN": PLAN_ONLY, "FORCE_UNLOCK": UNLOCK, "MIGRATE_STATE": MIGRATE}
_PATH_VARIABLE: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IMAGE_SETTINGS: Final = "the settings terraform_image and opentofu_image"
_MOUNT_PATH: Final = "/windlass-terraform"
_LAUNCHER_COMMAND: Final = (sys.executable, "-I", "-m", "windlass.launch.terraform")
_CONTAINER_VARIABLES: Final = {"HOME": "/tmp", "TMPDIR": "/tmp", LAUNCHER_VOLUME: _MOUNT_PATH}  # noqa: S108
"""Variables of a container that the process engine sets itself for its instances."""


class TerraformKind(ServiceKind[Terraform]):
    family = terraform
    precedence = Precedence.PREPARATION
    needs_past_workloads = True  # the backend of the last run is in them
    run_api = TerraformRunApi()
    more_time = "raise timeout_sec"
    instead_of_manifests = "its resources are outside of the cluster: apply its files with its state"
    size_fields: ClassVar = {
        "cpu": "job_resources.cpu_milli",
        "memory": "job_resources.ram_mib",
        "gpu": "job_resources.gpu",
    }

    def __init__(self, programs: Programs | None = None) -> None:
        self.programs = programs or InstalledPrograms()

    def demand(self, spec: Terraform) -> Demand:
        resources = spec.job_resources
        return Demand(resources.cpu_milli, resources.ram_mib, resources.gpu)

    def diagnose(self, settings: Settings, machine: MachineOfRuns) -> Sequence[Finding]:
        if machine.takes == "image":
            return [_images_found(settings, machine.server_host)]
        return [*_programs_found(InstalledPrograms())]

    # Create and update

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Terraform]) -> None:
        draft.sealed[SECRETS_NAME] = take_secrets(
            draft.spec, secrets_of(ctx, draft.copy_of) if draft.copy_of else {}
        )
        draft.give(**_added_fields(draft.spec, None))
        await watch_created(ctx, tx, draft, _branch_choice(draft.spec))

    async def created(self, ctx: Context, tx: Tx, draft: Draft[Terraform]) -> None:
        place = await ctx.places.of_environment(tx, draft.above.id)
        await self._tell_obstacle(ctx, tx, draft.id, place, draft.spec)

    async def updating(self, ctx: Context, tx: Tx, change: Change[Terraform]) -> None:
        if (change.spec.engine, change.spec.provider_version) != (
            change.before.engine,
            change.before.provider_version,
        ):
            place = await ctx.places.of(change.row.id)
            await self._tell_obstacle(ctx, tx, change.row.id, place, change.spec)
        before = secrets_of(ctx, change.row)
        change.sealed[SECRETS_NAME] = take_secrets(change.spec, before)
        change.extras |= _added_fields(change.spec, change.row)
        await watch_updated(ctx, tx, change, _branch_choice(change.spec), _branch_choice(change.before))

    async def _tell_obstacle(self, ctx: Context, tx: Tx, service: str, place: Place, spec: Terraform) -> None:
        """Tells in the status of a service that was never deployed why it cannot run at its place, as far as
        that is known. It is not refused: clients create everything first, and its deployment fails with the
        same reason."""
        status = await tx.statuses.get(service)
        if status and status.state == State.READY:
            await tx.statuses.change(replace(status, message=self._obstacle(ctx, place, spec)))

    def _obstacle(self, ctx: Context, place: Place, spec: Terraform) -> str:
        if place.is_connected and place.elsewhere is None:
            try:
                check_program(ctx.settings, self.programs, place, spec)
            except Invalid as error:
                return str(error)
        return ""

    def size(self, service: Row) -> SizeSettings:
        spec = service.read(Terraform)
        return SizeSettings(spec.name, spec.job_resources.cpu_milli, spec.job_resources.ram_mib)

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        return None  # what it makes elsewhere has names of its own, which two states would change

    def repository(self, service: Row) -> GitRepositoryRequest | None:
        return service.read(Terraform).terraform_files_source.git_repository

    # Deployments

    async def chosen_version(self, tx: Tx, service: Row, body: Spec | None) -> ChosenVersion:
        if not isinstance(body, TerraformDeployRequest | ChosenTerraform):
            return ChosenVersion(sub_action=APPLY)
        if isinstance(body, TerraformDeployRequest) and body.id and body.id != service.id:
            raise clash("id", "must be the id in the path, or left out")
        commit = body.git_commit_id or None
        if not body.plan_id:
            return ChosenVersion(
                git_commit_id=commit, sub_action=_ACTIONS_BY_REQUEST.get(body.action or "", APPLY)
            )
        if commit or body.action:
            raise clash("plan_id", "leave out git_commit_id and action: the plan says what is applied")
        return await _approved_version(tx, service, body.plan_id)

    def deploys_new_commits(self, service: Row) -> bool:
        return _is_watched(service.read(Terraform))

    def new_commit(self, service: Row, commit: str) -> ChosenVersion:
        only_plans = service.read(Terraform).auto_deploy_config.terraform_action == "PLAN"
        return ChosenVersion(git_commit_id=commit, sub_action=PLAN_ONLY if only_plans else APPLY)

    def is_version(self, details: Particulars) -> bool:
        return action_of(details) == APPLY

    def removal_action(self, query: Spec | None) -> str:
        is_kept = isinstance(query, TerraformRemoval | UninstallQuery) and query.force_terraform_action
        return "" if is_kept else DESTROY

    async def is_only_planned(self, ctx: Context, service: Row) -> bool:
        return await last_run(ctx, service, has_succeeded=True) is None

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        return await self._fetch(ctx, build_input)

    async def _fetch(self, ctx: Context, build_input: BuildInput, commit: str | None = None) -> BuiltArtifact:
        place = await ctx.places.of(build_input.service.id)
        try:
            program = await program_of(
                ctx.settings, self.programs, place, build_input.service.read(Terraform)
            )
        except Invalid as error:
            raise BuildError(str(error)) from error
        base = (
            ImageForFiles(ref=program.image, chosen_in=_IMAGE_SETTINGS, mounts=(_MOUNT_PATH,))
            if program.image
            else None
        )
        return await fetch_files(ctx, build_input, base, commit)

    async def prepare_removal(
        self, ctx: Context, build_input: BuildInput, sub_action: str
    ) -> tuple[BuiltArtifact, Workload] | None:
        """Returns the artifact and the workload that destroy the resources, with the commit that created
        them."""
        if sub_action != DESTROY or not await has_resources(ctx, build_input.service):
            return None
        last = await last_run(ctx, build_input.service)
        commit = particulars(last).commit_id if last else None
        built = await self._fetch(ctx, build_input, commit)
        return built, await self.compute(ctx, build_input, built.made.artifact)

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    async def compute(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> Workload:
        spec, details = build_input.service.read(Terraform), particulars(build_input.deployment)
        if details.sub_action != MIGRATE:
            await refuse_moved_state(ctx, build_input)
        place = await ctx.places.of(build_input.service.id)
        program = await program_of(ctx.settings, self.programs, place, spec)
        others = await other_addresses(ctx.store.reads, place.machine, program.server, ctx.clock.now())
        usual = self._usual_workload(ctx, build_input, artifact)
        variables = input_variables(spec, secrets_of(ctx, build_input.service))
        secret = {f"TF_VAR_{item.key}" for item in spec.terraform_variables_source.tf_vars if item.secret}
        request = run_request(ctx.settings, build_input.service, spec, details, program, others)
        requests = {
            RUN_VARIABLE: msgspec.json.encode(request).decode(),
            TOKEN: run_credential(ctx, build_input.deployment.id),
            STATE_TOKEN: run_credential(ctx, build_input.deployment.id, CredentialHolder.PROGRAM),
        }
        return replace(
            _in_container(usual) if program.image else _on_machine(usual, program),
            variables={**usual.variables, **variables, **requests},
            hidden=usual.hidden | secret | {TOKEN, STATE_TOKEN},
            volumes=(Volume(name=VOLUME_NAME, mount=_MOUNT_PATH),),
            time_limit=float(spec.timeout_sec or ctx.settings.run_seconds),
            grace=max(usual.grace, CANCEL_GRACE_SECONDS),
        )

    async def workload(self, ctx: Context, service: Row, default_workload: Workload) -> Workload:
        return default_workload

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """Returns the fields of the service's document that show which commit was applied."""
        if (commit := details.commit) is None or action_of(details) != APPLY:
            return {}
        shown = commit_fields(commit)
        return {"terraform_files_source": {"git_repository": shown, "git": {"git_repository": shown}}}

    async def explain_failure(self, ctx: Context, service: Row, deployment: DeploymentRow) -> str:
        if lock := await describe_lock(ctx.store.reads, service.id, ctx.clock.now(), deployment.id):
            return lock
        lines = await asyncio.to_thread(
            ctx.logs.tail, service.id, MAX_LOG_LINES, line_filter(version=deployment.id)
        )
        return explain_output([msgspec.json.decode(line)["message"] for line in lines])

    # For other services

    def main_port(self, service: Row) -> MainPort | None:
        return None

    async def listed_variables(self, ctx: Context, reads: Reads, service: Row) -> list[BuiltIn]:
        return without_secrets(await _outputs(ctx, reads, service))

    def listed_keys(self, service: Row) -> Collection[str]:
        return ()

    async def offer(self, ctx: Context, reads: Reads, environment: str, address: FindAddress) -> Offer:
        """Returns the outputs of the newest state as variables for other services."""
        variables: list[BuiltIn] = []
        for row in await reads.resources.of_parent(environment, self.family.name):
            variables += await _outputs(ctx, reads, row)
        return Offer(with_compatible_keys(variables))


def _on_machine(default_workload: Workload, program: RunProgram) -> Workload:
    folder = str(Path(program.path).parent)
    environment = {**default_workload.artifact.environment, "PATH": f"{folder}:{_PATH_VARIABLE}"}
    artifact = replace(default_workload.artifact, environment=environment)
    return replace(default_workload, artifact=artifact, command=_LAUNCHER_COMMAND, calls_server=True)


def _in_container(default_workload: Workload) -> Workload:
    return replace(
        default_workload,
        artifact=replace(
            default_workload.artifact,
            environment={**_CONTAINER_VARIABLES, **default_workload.artifact.environment},
        ),
        entrypoint=("python3", "-I", LAUNCHER_PATH),
        files={**default_workload.files, LAUNCHER_PATH: launcher_archive()},
        calls_server=True,
    )


# The machine


def _images_found(settings: Settings, server_host: str) -> Finding:
    try:
        address = address_for_containers(settings, server_host)
    except Invalid as refused:
        return ok("Terraform", f"not yet; only Terraform services need it: {refused}")
    own = settings_of(TerraformSettings, settings)
    names = f"{own.terraform_image} and {own.opentofu_image}"
    return ok("Terraform", f"runs in {names}, and reaches this server at {address}")


def _programs_found(installed_programs: InstalledPrograms) -> Iterator[Finding]:
    programs = installed_programs.find_all()
    for path, why in installed_programs.unusable.items():
        yield warn(
            "Terraform",
            f"{path} is not used, because it does not say its version: {why}",
            f"try `{path} version -json`, and install the program again or remove it",
        )
    if programs:
        yield ok("Terraform", ", ".join(f"{program.version} ({program.path})" for program in programs))
    elif not installed_programs.unusable:
        yield ok(
            "Terraform", "not found; only Terraform services need it: install terraform or tofu for them"
        )


# Settings


def _added_fields(spec: Terraform, row: Row | None) -> Document:
    """Returns the fields that the response has in addition to the settings."""
    shown = row.read(TerraformShown).terraform_files_source.git_repository if row else None
    repository = with_deployed_commit(spec.terraform_files_source.git_repository, shown)
    source = {"git_repository": repository, "git": {"git_repository": repository}}
    return {"terraform_files_source": source, "auto_deploy": spec.auto_deploy_config.auto_deploy}


async def _approved_version(tx: Tx, service: Row, plan_id: str) -> ChosenVersion:
    """Returns the version that applies the plan of a deployment."""
    plan, planned = await tx.plans.get(plan_id), await tx.deployments.get(plan_id)
    if plan is None or planned is None or plan.service != service.id:
        raise Missing(
            "plan_id: choose a deployment of this service that has a plan: GET …/plan shows the newest"
        )
    details = particulars(planned)
    if planned.status != Progress.SUCCEEDED or details.sub_action != PLAN_ONLY or details.made is None:
        raise Conflict("plan_id: choose a deployment with the action PLAN that succeeded")
    return ChosenVersion(
        git_commit_id=details.git_commit_id,
        commit=details.commit,
        made=details.made,
        of=plan_id,
        sub_action=APPLY,
    )


def _branch_choice(spec: Terraform) -> BranchChoice:
    config = spec.auto_deploy_config
    return BranchChoice(
        _is_watched(spec),
        spec.terraform_files_source.git_repository,
        "terraform_files_source.git_repository",
        config.terraform_action,
        "auto_deploy_config.terraform_action",
    )


def _is_watched(spec: Terraform) -> bool:
    return spec.auto_deploy_config.auto_deploy and spec.auto_deploy_config.terraform_action != "NOOP"


# Runs


_MAX_CACHED_STATES: Final = 256
_known_outputs: OrderedDict[tuple[str, str], Sequence[BuiltIn]] = OrderedDict()
"""The outputs of states, by the id of a version and the tag of its service. A state may have megabytes, and
each list of variables and each deployment needs the outputs of all services of the environment."""


async def _outputs(ctx: Context, reads: Reads, service: Row) -> Sequence[BuiltIn]:
    """Returns the outputs of the newest state as variables."""
    version = await reads.terraform.newest(service.id)
    if version is None:
        return ()
    key = version.id, service.tag
    if key not in _known_outputs:
        content = await content_of(ctx, reads, version)
        _known_outputs[key] = _outputs_in(ctx, service, read_state(content)) if content else ()
        if len(_known_outputs) > _MAX_CACHED_STATES:
            _known_outputs.popitem(last=False)
    _known_outputs.move_to_end(key)
    return _known_outputs[key]


def _outputs_in(ctx: Context, service: Row, state: StateFile) -> Sequence[BuiltIn]:
    """Returns the outputs as variables. An output that contains the value of a secret variable or a sensitive
    output is marked as secret, even if the module does not declare it as sensitive."""
    mask = output_mask(ctx, service, state)
    prefix, _ = prefixes_of(terraform.enum_value, service.id)
    return [
        BuiltIn(
            owner=service.id,
            key=prefix + output_word(output.name),
            value=output.value,
            secret=output.is_sensitive or mask.text(output.value) != output.value,
        )
        for output in shared_outputs(state)
    ]


kind = TerraformKind()


def programs_of(ctx: Context) -> Programs:
    """Returns the Terraform programs of this server's machine."""
    kind = ctx.kinds[terraform.name]
    assert isinstance(kind, TerraformKind)
    return kind.programs
