"""Terraform services: a module that the machine's program plans, applies and destroys; each deployment is a run.

The run itself is `launch.terraform`; its state, lock and plans are in `records.terraform_states`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import BuildError
from windlass.builders.terraform.programs import NAMES, InstalledProgram, choose
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.context.neighbours import MainPort
from windlass.control.context.place import Place
from windlass.control.kinds.service_kind import FindAddress, Offer, ServiceKind, SizeSettings
from windlass.control.records.deployments import particulars
from windlass.control.records.past_deployments import newest_first
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.control.records.terraform_states import (
    describe_lock,
    newest_state,
    run_credential,
)
from windlass.control.request.behaviour import Change, Draft
from windlass.control.request.hidden import decrypt_hidden
from windlass.control.workloads.branch_choice import BranchChoice, watch_created, watch_updated
from windlass.control.workloads.making import Making
from windlass.control.workloads.modules import fetch_module
from windlass.core.declare.document import Document
from windlass.core.declare.resource import clash
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.core.declare.spec import Spec
from windlass.core.deploy.engine_limits import Demand
from windlass.core.deploy.injected_variables import BuiltIn, prefixes_of, with_twins
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.states import BUILDS, Progress
from windlass.core.deploy.terraform_state import has_managed, outputs_of
from windlass.core.deploy.workload import Artifact, Volume, Workload
from windlass.families.database import database
from windlass.families.terraform import (
    ChosenTerraform,
    Terraform,
    TerraformDeployRequest,
    TerraformRemoval,
    TerraformShown,
    TerraformVariable,
    Uninstalling,
    terraform,
)
from windlass.launch.terraform import APPLY, DESTROY, MIGRATE, PLAN_ONLY, RUN, TOKEN, UNLOCK
from windlass.store import DeploymentRow, Reads, Row, Tx

VOLUME: Final = "terraform"
GRACE: Final = 60.0
"""Seconds in which a run that is cancelled finishes what it makes, and stores its state."""
_SECRETS: Final = "terraform_variables"
"""The name under which the values of secret variables are encrypted with the service."""
_ACTIONS: Final = {"PLAN": PLAN_ONLY, "FORCE_UNLOCK": UNLOCK, "MIGRATE_STATE": MIGRATE}
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMMANDS: Final = {
    "TERRAFORM": "`apt-get install terraform` from the packages of HashiCorp",
    "OPEN_TOFU": "`apt-get install tofu` from the packages of OpenTofu",
}
_DEPLOYED: Final = "deployed_commit"
_LAUNCHER: Final = (sys.executable, "-I", "-m", "windlass.launch.terraform")
_NO_CONTAINERS: Final = (
    "engine: use an environment whose cluster has the engine process: Terraform services run with the program "
    "of the machine, and not in containers"
)


class TerraformKind(ServiceKind[Terraform]):
    family = terraform
    waits_for = frozenset({database.name})
    size_fields: ClassVar = {
        "cpu": "job_resources.cpu_milli",
        "memory": "job_resources.ram_mib",
        "gpu": "job_resources.gpu",
    }

    def hindrance(self, place: Place) -> str:
        return _NO_CONTAINERS if place.takes == "image" else ""

    def demand(self, spec: Terraform) -> Demand:
        resources = spec.job_resources
        return Demand(resources.cpu_milli, resources.ram_mib, resources.gpu)

    # As a resource

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Terraform]) -> None:
        place = await ctx.places.of_environment(tx, draft.above.id)
        if place.is_connected and place.elsewhere is None:
            _program(ctx, draft.spec)
        draft.sealed[_SECRETS] = _take_secrets(draft.spec, {})
        draft.give(**_shown(draft.spec, None))
        await watch_created(ctx, tx, draft, _branch_choice(draft.spec))

    async def updating(self, ctx: Context, tx: Tx, change: Change[Terraform]) -> None:
        if (change.spec.engine, change.spec.provider_version) != (
            change.before.engine,
            change.before.provider_version,
        ):
            place = await ctx.places.of(change.row.id)
            if place.is_connected and place.elsewhere is None:
                _program(ctx, change.spec)
        before = _secrets_of(ctx, change.row)
        change.sealed[_SECRETS] = _take_secrets(change.spec, before)
        change.extras |= _shown(change.spec, change.row)
        await watch_updated(ctx, tx, change, _branch_choice(change.spec), _branch_choice(change.before))

    def size(self, service: Row) -> SizeSettings:
        spec = service.read(Terraform)
        return SizeSettings(spec.name, spec.job_resources.cpu_milli, spec.job_resources.ram_mib)

    def repository(self, service: Row) -> GitRepositoryRequest | None:
        return service.read(Terraform).terraform_files_source.git_repository

    # From a deploy to what runs

    async def chosen_version(self, tx: Tx, service: Row, body: Spec | None) -> ChosenVersion:
        if not isinstance(body, TerraformDeployRequest | ChosenTerraform):
            return ChosenVersion(sub_action=APPLY)
        if isinstance(body, TerraformDeployRequest) and body.id and body.id != service.id:
            raise clash("id", "must be the id in the path, or left out")
        commit = body.git_commit_id or None
        if not body.plan_id:
            return ChosenVersion(git_commit_id=commit, sub_action=_ACTIONS.get(body.action or "", APPLY))
        if commit or body.action:
            raise clash("plan_id", "leave out git_commit_id and action: the plan says what is applied")
        return await _approved(tx, service, body.plan_id)

    def deploys_new_commits(self, service: Row) -> bool:
        config = service.read(Terraform).auto_deploy_config
        return config.auto_deploy and config.terraform_action != "NOOP"

    def new_commit(self, service: Row, commit: str) -> ChosenVersion:
        only_plans = service.read(Terraform).auto_deploy_config.terraform_action == "PLAN"
        return ChosenVersion(git_commit_id=commit, sub_action=PLAN_ONLY if only_plans else APPLY)

    def removal_action(self, query: Spec | None) -> str:
        is_kept = isinstance(query, TerraformRemoval | Uninstalling) and query.force_terraform_action
        return "" if is_kept else DESTROY

    async def make(self, ctx: Context, making: Making) -> BuiltArtifact:
        details = particulars(making.deployment)
        if details.sub_action != MIGRATE:
            await _refuse_moved_state(ctx, making)
        return await fetch_module(ctx, making)

    async def prepare_removal(
        self, ctx: Context, making: Making, sub_action: str
    ) -> tuple[BuiltArtifact, Workload] | None:
        """Destroys the resources with the module that made them."""
        if sub_action != DESTROY or not await _has_resources(ctx, making.service):
            return None
        last = await _last_run(ctx, making.service)
        commit = particulars(last).commit_id if last else None
        built = await fetch_module(ctx, making, commit)
        return built, await self.compute(ctx, making, built.made.artifact)

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    async def compute(self, ctx: Context, making: Making, artifact: Artifact) -> Workload:
        spec, details = making.service.read(Terraform), particulars(making.deployment)
        program = await in_thread(_program, ctx, spec)
        folder = str(Path(program.path).parent)
        artifact = replace(artifact, environment={**artifact.environment, "PATH": f"{folder}:{_PATH}"})
        usual = self._usual_workload(ctx, making, artifact)
        variables = _variables(spec, _secrets_of(ctx, making.service))
        secret = {f"TF_VAR_{item.key}" for item in spec.terraform_variables_source.tf_vars if item.secret}
        told = {
            RUN: msgspec.json.encode(_told(ctx, making.service, spec, details, program)).decode(),
            TOKEN: run_credential(ctx, making.deployment.id),
        }
        return replace(
            usual,
            command=_LAUNCHER,
            variables={**usual.variables, **variables, **told},
            hidden=usual.hidden | secret | {TOKEN},
            volumes=(Volume(name=VOLUME, mount="/windlass-terraform"),),
            time_limit=float(spec.timeout_sec or ctx.settings.run_seconds),
            grace=max(usual.grace, GRACE),
        )

    async def workload(self, ctx: Context, service: Row, usual: Workload) -> Workload:
        return usual

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """The document shows which commit was applied."""
        if (commit := details.commit) is None or details.sub_action != APPLY:
            return {}
        shown = {
            f"{_DEPLOYED}_id": commit.git_commit_id,
            f"{_DEPLOYED}_date": commit.created_at,
            f"{_DEPLOYED}_contributor": commit.author_name,
            f"{_DEPLOYED}_tag": commit.tag,
        }
        return {"terraform_files_source": {"git_repository": shown, "git": {"git_repository": shown}}}

    async def explain_failure(self, ctx: Context, service: Row, deployment: DeploymentRow) -> str:
        return await describe_lock(ctx.store.reads, service.id, ctx.clock.now())

    # For its neighbours

    def main_port(self, service: Row) -> MainPort | None:
        return None

    async def listed_variables(self, ctx: Context, source: Reads, service: Row) -> list[BuiltIn]:
        return [
            variable
            if not variable.secret
            else BuiltIn(owner=variable.owner, key=variable.key, value="", secret=True)
            for variable in await _outputs(ctx, source, service)
        ]

    def listed_keys(self, service: Row) -> Collection[str]:
        return ()

    async def offer(self, ctx: Context, source: Reads, environment: str, address: FindAddress) -> Offer:
        """The outputs of the present state."""
        variables: list[BuiltIn] = []
        for row in await source.resources.of_parent(environment, self.family.name):
            variables += await _outputs(ctx, source, row)
        return Offer(with_twins(variables))


# Settings


def _program(ctx: Context, spec: Terraform) -> InstalledProgram:
    """Returns the program that runs the module; raises Invalid if the machine does not have it."""
    installed = ctx.programs.look()
    version = (
        "" if spec.provider_version.read_from_terraform_block else spec.provider_version.explicit_version
    )
    program = choose(installed, spec.engine, version)
    if program is not None:
        return program
    own = [program.version for program in installed if program.engine == spec.engine]
    if own:
        raise Invalid(
            f"provider_version.explicit_version: choose one of {', '.join(own)}, which the machine of this "
            f"server has, or install {version} beside it as {NAMES[spec.engine]}-{version}"
        )
    others = sorted({program.engine for program in installed})
    choice = f", or choose {others[0]}" if others else ""
    raise Invalid(
        f"engine: the machine of this server has no {NAMES[spec.engine]}: install it "
        f"({_COMMANDS[spec.engine]}){choice}"
    )


def _take_secrets(spec: Terraform, before: Mapping[str, str]) -> str:
    """Takes the values of secret variables out of the settings, to be encrypted. One that is sent without a
    value keeps it."""
    taken: dict[str, str] = {}
    variables = spec.terraform_variables_source.tf_vars
    for index, variable in enumerate(variables):
        if not variable.secret:
            continue
        value = variable.value if isinstance(variable.value, str) else before.get(variable.key)
        if value is None:
            field = f"terraform_variables_source.tf_vars[{index}].value"
            raise clash(field, f"is required: there is no earlier value of {variable.key}")
        taken[variable.key] = value
        variables[index] = TerraformVariable(key=variable.key, secret=True)
    return msgspec.json.encode(taken).decode()


def _secrets_of(ctx: Context, service: Row) -> dict[str, str]:
    sealed = decrypt_hidden(ctx, service).get(_SECRETS, "{}")
    return msgspec.json.decode(sealed, type=dict[str, str])


def _shown(spec: Terraform, row: Row | None) -> Document:
    """Returns the fields that the answer has besides, or in another form."""
    repository = msgspec.to_builtins(spec.terraform_files_source.git_repository)
    if row is not None:
        stored = msgspec.to_builtins(row.read(TerraformShown).terraform_files_source.git_repository)
        if stored["url"] == repository["url"]:
            repository |= {name: value for name, value in stored.items() if name.startswith(_DEPLOYED)}
    source = {"git_repository": repository, "git": {"git_repository": repository}}
    return {"terraform_files_source": source, "auto_deploy": spec.auto_deploy_config.auto_deploy}


async def _approved(tx: Tx, service: Row, plan_id: str) -> ChosenVersion:
    """Returns the version that applies the plan of a deployment."""
    plan, planned = await tx.terraform.plan(plan_id), await tx.deployments.get(plan_id)
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
    repository = spec.terraform_files_source.git_repository
    return BranchChoice(
        spec.auto_deploy_config.auto_deploy, repository, "terraform_files_source.git_repository"
    )


# Runs


def _told(
    ctx: Context, service: Row, spec: Terraform, details: Particulars, program: InstalledProgram
) -> Document:
    source = spec.terraform_variables_source
    is_approved = details.of and details.sub_action == APPLY and details.made
    return {
        "program": program.path,
        "action": details.sub_action or APPLY,
        "url": f"{_own_address(ctx.settings)}/terraform-run/{service.id}",
        "keeps_state": _keeps_state(spec),
        "plan_of": details.of if is_approved else "",
        "arguments": spec.action_extra_arguments,
        "var_files": source.tf_var_file_paths,
        "vars": [variable.key for variable in source.tf_vars],
        "mirror": str(Path(ctx.settings.terraform_providers).resolve())
        if ctx.settings.terraform_providers
        else "",
        "downloads": ctx.settings.toolchain_downloads,
    }


def _own_address(settings: Settings) -> str:
    """Returns the address at which programs of this machine reach this server."""
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _keeps_state(spec: Terraform) -> bool:
    return isinstance(spec.backend.kubernetes, Spec)


def _variables(spec: Terraform, secrets: Mapping[str, str]) -> dict[str, str]:
    return dict(_input_values(spec, secrets))


def _input_values(spec: Terraform, secrets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for variable in spec.terraform_variables_source.tf_vars:
        value = secrets.get(variable.key, "") if variable.secret else variable.value
        yield f"TF_VAR_{variable.key}", str(value)


async def _last_run(ctx: Context, service: Row) -> DeploymentRow | None:
    """Returns the last deployment that has applied the module."""
    async for row in newest_first(ctx, service.id, 200):
        details = particulars(row)
        if row.action in BUILDS and details.commit and details.sub_action in (APPLY, MIGRATE) and details.run:
            return row
    return None


async def _refuse_moved_state(ctx: Context, making: Making) -> None:
    """Refuses a run with another backend than the last one: it would begin with an empty state, and make
    everything a second time."""
    last = await _last_run(ctx, making.service)
    workload = decrypt_workload(ctx, last) if last else None
    if last is None or workload is None or last.status != Progress.SUCCEEDED:
        return
    kept = msgspec.json.decode(workload.variables[RUN])["keeps_state"]
    if kept != _keeps_state(making.service.read(Terraform)):
        raise BuildError(
            "backend: it was changed since the last run, and the state is still in the former one: deploy with "
            "the action MIGRATE_STATE first"
        )


async def _has_resources(ctx: Context, service: Row) -> bool:
    """True if there may be anything to destroy."""
    _, state = await newest_state(ctx, ctx.store.reads, service.id)
    if state is not None:
        return has_managed(state)
    return not _keeps_state(service.read(Terraform)) and await _last_run(ctx, service) is not None


async def _outputs(ctx: Context, source: Reads, service: Row) -> list[BuiltIn]:
    _, state = await newest_state(ctx, source, service.id)
    prefix, _ = prefixes_of(terraform.enum_value, service.id)
    return [
        BuiltIn(
            owner=service.id,
            key=prefix + output.name.upper().replace("-", "_"),
            value=output.value,
            secret=output.is_sensitive,
        )
        for output in (outputs_of(state) if state else ())
    ]


kind = TerraformKind()
