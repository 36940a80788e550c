"""The inputs of a Terraform run: the values of variables and the request to the launcher. Also finds earlier
runs of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from windlass.builders.builder import BuildError
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.control.records.past_deployments import newest_first
from windlass.control.records.sealed_workload import workload_of
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.control.workloads.build_input import BuildInput
from windlass.core.declare.document import Document
from windlass.core.declare.resource import clash
from windlass.core.declare.spec import Spec
from windlass.core.deploy.progress import Particulars
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, Progress
from windlass.core.words.masking import Mask
from windlass.launch.terraform import APPLY, MIGRATE
from windlass.launch.terraform_environment import RUN_VARIABLE
from windlass.store import NEVER, DeploymentRow, Row
from windlass.terraform.families.shapes import TerraformVariable
from windlass.terraform.families.terraform import Terraform
from windlass.terraform.run_programs import RunProgram
from windlass.terraform.state_files import StateFile, has_managed, outputs_of
from windlass.terraform.states import newest_state

SECRETS_NAME: Final = "terraform_variables"
"""The name under which the encrypted values of secret variables are stored with the service."""


def take_secrets(spec: Terraform, previous_secrets: Mapping[str, str]) -> str:
    """Removes the values of secret variables from the settings and returns them as JSON, to be encrypted. A
    secret variable without a value keeps its previous value."""
    taken: dict[str, str] = {}
    variables = spec.terraform_variables_source.tf_vars
    for index, variable in enumerate(variables):
        if not variable.secret:
            continue
        value = variable.value if isinstance(variable.value, str) else previous_secrets.get(variable.key)
        if value is None:
            field = f"terraform_variables_source.tf_vars[{index}].value"
            raise clash(
                field,
                f"is required: there is no earlier value of {variable.key}; a default needs no row here",
            )
        taken[variable.key] = value
        variables[index] = TerraformVariable(key=variable.key, secret=True)
    return msgspec.json.encode(taken).decode()


def secrets_of(ctx: Context, service: Row) -> dict[str, str]:
    sealed = decrypt_hidden(ctx, service).get(SECRETS_NAME, "{}")
    return msgspec.json.decode(sealed, type=dict[str, str])


def output_mask(ctx: Context, service: Row, state: StateFile) -> Mask:
    """Returns a mask that hides the values of secret variables and sensitive outputs."""
    sensitive = (output.value for output in outputs_of(state) if output.is_sensitive)
    return Mask([*secrets_of(ctx, service).values(), *sensitive])


def run_request(
    settings: Settings,
    service: Row,
    spec: Terraform,
    details: Particulars,
    program: RunProgram,
    other_servers: Sequence[str] = (),
) -> Document:
    """Returns the request for the launcher of a run. `other_servers` are the addresses of other servers that
    the run can use if this one is gone."""
    source = spec.terraform_variables_source
    is_approved = details.of and details.sub_action == APPLY and details.made
    return {
        "program": program.path,
        "action": action_of(details),
        "url": f"{program.server}/terraform-run/{service.id}",
        "others": [f"{server}/terraform-run/{service.id}" for server in other_servers],
        "container": bool(program.image),
        "keeps_state": keeps_state(spec),
        "plan_of": details.of if is_approved else "",
        "arguments": spec.action_extra_arguments,
        "var_files": source.tf_var_file_paths,
        "vars": [variable.key for variable in source.tf_vars],
        "mirror": program.providers,
        "downloads": settings.toolchain_downloads,
    }


def action_of(details: Particulars) -> str:
    """Returns the action of a deployment. The default, for example for a rollback, is to apply the module."""
    return details.sub_action or APPLY


def keeps_state(spec: Terraform) -> bool:
    return isinstance(spec.backend.kubernetes, Spec)


def input_variables(spec: Terraform, secrets: Mapping[str, str]) -> dict[str, str]:
    return dict(_input_values(spec, secrets))


def _input_values(spec: Terraform, secrets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for variable in spec.terraform_variables_source.tf_vars:
        value = secrets.get(variable.key, "") if variable.secret else variable.value
        yield f"TF_VAR_{variable.key}", str(value)


async def last_run(ctx: Context, service: Row, *, has_succeeded: bool = False) -> DeploymentRow | None:
    """Returns the newest deployment that applied the module.

    With `has_succeeded`, failed deployments are skipped. Plans are always skipped.
    """
    async for row in newest_first(ctx, service.id, NEVER):
        details = particulars(row)
        is_wanted = row.status == Progress.SUCCEEDED or not has_succeeded
        is_applied = row.action in ACTIONS_WITH_BUILD and action_of(details) in (APPLY, MIGRATE)
        if is_wanted and is_applied and details.commit and details.run:
            return row
    return None


async def refuse_moved_state(ctx: Context, build_input: BuildInput) -> None:
    """Refuses a run if its backend differs from the backend of the last successful run and the state is not
    empty. The run would begin with an empty state and create all resources again."""
    service, is_kept = build_input.service, keeps_state(build_input.service.read(Terraform))
    last = await last_run(ctx, service, has_succeeded=True)
    if last is None:  # the state of failed runs is only in Windlass
        is_moved = not is_kept and await _has_managed(ctx, service)
    else:
        is_moved = await _kept_state(ctx, last) not in (None, is_kept) and await has_resources(ctx, service)
    if is_moved:
        raise BuildError(
            "backend: deploy with the action MIGRATE_STATE first: the backend was changed since the last "
            "run, and the state is still in the former one"
        )


async def _has_managed(ctx: Context, service: Row) -> bool:
    _, state = await newest_state(ctx, ctx.store.reads, service.id)
    return state is not None and has_managed(state)


async def _kept_state(ctx: Context, run: DeploymentRow) -> bool | None:
    """Returns whether Windlass stored the state of a run. None if the run was never started."""
    workload = await workload_of(ctx, run.id)
    return bool(msgspec.json.decode(workload.variables[RUN_VARIABLE])["keeps_state"]) if workload else None


async def has_resources(ctx: Context, service: Row) -> bool:
    """Returns whether there may be resources to destroy.

    The copy of a state in another backend comes from the last successful run. Resources that a later failed
    run created are missing in this copy.
    """
    _, state = await newest_state(ctx, ctx.store.reads, service.id)
    if state is not None and has_managed(state):
        return True
    last = await last_run(ctx, service)
    if last is None or (state is not None and last.status == Progress.SUCCEEDED):
        return False
    return await _kept_state(ctx, last) is False
