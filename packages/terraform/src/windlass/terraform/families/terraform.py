"""A Terraform service: a module in a Git repository. Its runs create, change and destroy what it declares."""

from typing import Annotated, Any, Final

from msgspec import Meta, field

from windlass.core.access import Scope
from windlass.core.declare.actions import SubAction, get, post
from windlass.core.declare.document import Document
from windlass.core.declare.exported import ANY_REPOSITORY, SETTINGS, Attribute, ExportedResource, same
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Description,
    Icon,
    Id,
    Maybe,
    Name,
    absent,
    alternatives,
    always_refused,
    example,
    shown_in_examples,
    stays,
)
from windlass.core.declare.resource import Family, Spec, clash
from windlass.core.declare.shapes import can_be_cloned, normalise_repository
from windlass.core.declare.traits import (
    deployable,
    has_commits,
    has_deployments,
    has_logs,
    has_variables,
)
from windlass.core.settings.operations import default_advanced_settings, has_advanced_settings
from windlass.core.settings.service_settings import rows_of
from windlass.core.settings.setting import settings_of_kind
from windlass.families.environment import environment
from windlass.terraform.families.shapes import (
    AutoDeployConfig,
    ChosenTerraform,
    Engine,
    ExtraArgument,
    FilesSource,
    JobResources,
    ProgramVersion,
    StateBackend,
    TerraformDeployRequest,
    TerraformRemoval,
    TerraformShown,
    UninstallQuery,
    VariablesSource,
    check_arguments,
    check_backend,
    check_variables,
)
from windlass.terraform.families.state_shapes import (
    PlanQuery,
    RestoreRequest,
    StateVersionShown,
    TerraformLock,
    TerraformOutput,
    TerraformPlan,
    TerraformResource,
)


class Terraform(Spec):
    name: Annotated[Name, example("bucket")]
    description: Description = ""
    auto_deploy_config: Annotated[AutoDeployConfig, stays()] = field(default_factory=AutoDeployConfig)
    terraform_files_source: Annotated[FilesSource, shown_in_examples()]
    terraform_variables_source: Annotated[VariablesSource, shown_in_examples()] = field(
        default_factory=VariablesSource
    )
    backend: Annotated[
        StateBackend,
        shown_in_examples(),
        alternatives({"Kept by Windlass": ["kubernetes"], "As the module says": ["user_provided"]}),
        stays(),
    ]
    engine: Annotated[Engine, Meta(description="The program that runs the module"), example("TERRAFORM")]
    provider_version: Annotated[ProgramVersion, shown_in_examples()] = field(default_factory=ProgramVersion)
    timeout_sec: Annotated[
        int,
        Meta(ge=0, le=86_400, description="Seconds that a run may take; 0 is the setting run_seconds"),
    ] = 600
    icon_uri: Icon = "app://windlass/terraform"
    job_resources: Annotated[JobResources, shown_in_examples()] = field(default_factory=JobResources)
    use_cluster_credentials: Annotated[bool, WITHOUT_EFFECT] = False
    action_extra_arguments: Annotated[
        dict[str, Annotated[list[ExtraArgument], Meta(max_length=50)]],
        Meta(description="Further options of the program, by its command: init, plan, apply or destroy"),
        example({"plan": ["-parallelism=2"]}),
    ] = {}
    dockerfile_fragment: Annotated[
        Maybe[dict[str, Any]],
        always_refused("the operator chooses the program, and its image"),
    ] = absent
    blueprint_id: Annotated[Maybe[Id], WITHOUT_EFFECT] = absent


def normalise(spec: Terraform) -> None:
    repository = spec.terraform_files_source.git_repository
    normalise_repository(repository)
    check_backend(spec.backend)
    check_variables(spec.terraform_variables_source)
    check_arguments(spec.action_extra_arguments)
    if spec.dockerfile_fragment:
        raise clash("dockerfile_fragment", "leave it out: the operator chooses the program, and its image")
    version = spec.provider_version
    if not version.read_from_terraform_block and not version.explicit_version:
        version.read_from_terraform_block = True
    if version.read_from_terraform_block and version.explicit_version == _ANY_VERSION:
        version.explicit_version = ""


_ANY_VERSION: Final = "1"
"""What clients of the full interface read and send for a version that the module decides: they need one,
which is not used."""


def in_full(document: Document) -> Document:
    version = document.get("provider_version")
    if not isinstance(version, dict) or version.get("explicit_version"):
        return document
    return {**document, "provider_version": {**version, "explicit_version": _ANY_VERSION}}


_RESTORE_DESCRIPTION: Final = (
    "The content of the version becomes the newest version; the versions in between stay. 409 while a run "
    "is under way or the state is locked. It decides what the next run destroys, so it needs Deploy."
)
_OUTPUT_DESCRIPTION: Final = "Each with the variable by which the services of the environment get it."
_PLAN_DESCRIPTION: Final = (
    "Newest first, of the last 20 runs. A deploy with `plan_id` applies exactly that plan."
)
_STATE_DESCRIPTION: Final = "Newest first. Only of a state that Windlass keeps (`backend.kubernetes`)."

_VARIABLE: Final = (
    Attribute("key"),
    Attribute("value", is_required=True, secret_if="secret"),  # noqa: S106 (the name of a field)
    Attribute("is_secret", "secret"),
)
_EXPORTED: Final = ExportedResource(
    "qovery_terraform_service",
    (
        *same("name description icon_uri"),
        Attribute("auto_deploy", "auto_deploy_config.auto_deploy"),
        Attribute("terraform_action", "auto_deploy_config.terraform_action"),
        Attribute("git_repository", "terraform_files_source.git_repository", ANY_REPOSITORY),
        Attribute("tfvars_files", "terraform_variables_source.tf_var_file_paths", is_required=True),
        Attribute("variables", "terraform_variables_source.tf_vars", _VARIABLE),
        Attribute("backend", parts=same("kubernetes user_provided")),
        Attribute("engine"),
        Attribute(
            "engine_version",
            "provider_version",
            (Attribute("explicit_version", default=_ANY_VERSION), Attribute("read_from_terraform_block")),
        ),
        Attribute("timeout_seconds", "timeout_sec"),
        Attribute("job_resources", parts=same("cpu_milli ram_mib gpu storage_gib")),
        Attribute("use_cluster_credentials"),
        Attribute("action_extra_arguments", is_map=True),
        Attribute("blueprint_id"),
    ),
    lists=frozenset({SETTINGS}),
)
OF_TERRAFORM: Final = settings_of_kind("Terraform", rows_of("T"))
terraform = Family(
    "terraform",
    Terraform,
    parent=environment,
    shown=TerraformShown,
    group="Terraform",
    spoken="Terraform service",
    normalise=normalise,
    in_full=in_full,
    traits=(
        deployable(
            TerraformDeployRequest,
            ChosenTerraform,
            runs_once=True,
            sub_actions=(
                SubAction(
                    word="TERRAFORM_PLAN_ONLY",
                    trigger="DEPLOY_DRY_RUN",
                    outcome="is planned, and nothing is changed",
                ),
                SubAction(
                    word="TERRAFORM_FORCE_UNLOCK_STATE",
                    trigger="TERRAFORM_FORCE_UNLOCK",
                    outcome="has no lock on its state now, and nothing else is changed",
                ),
                SubAction(
                    word="TERRAFORM_MIGRATE_STATE",
                    trigger="TERRAFORM_MIGRATE_STATE",
                    outcome="has its state in the present backend now",
                ),
            ),
            removal=TerraformRemoval,
            uninstall_query=UninstallQuery,
        ),
        has_deployments,
        can_be_cloned,
        has_commits,
        has_logs,
        has_variables,
        has_advanced_settings(OF_TERRAFORM),
    ),
    actions=(
        get(
            "terraformResources",
            list[TerraformResource],
            "List the resources in the state",
            id="listTerraformResources",
            paged=False,
        ),
        get(
            "output",
            list[TerraformOutput],
            "List the outputs of the state",
            _OUTPUT_DESCRIPTION,
            id="listTerraformOutputs",
            paged=False,
        ),
        get(
            "plan",
            list[TerraformPlan],
            "List the plans",
            _PLAN_DESCRIPTION,
            id="listTerraformPlans",
            query=PlanQuery,
            paged=False,
        ),
        get("lock", TerraformLock, "Read the lock on the state", id="getTerraformLock"),
        get(
            "stateVersion",
            list[StateVersionShown],
            "List the versions of the state",
            _STATE_DESCRIPTION,
            id="listTerraformStateVersions",
            paged=False,
        ),
        post(
            "restoreState",
            StateVersionShown,
            "Restore a version of the state",
            _RESTORE_DESCRIPTION,
            id="restoreTerraformState",
            need=Scope.DEPLOY,
            status=200,
            body=RestoreRequest,
            also=(409,),
        ),
    ),
    about="400 if this place does not have the program.",
    exported=_EXPORTED,
)

defaults = default_advanced_settings(OF_TERRAFORM, "Terraform")
