"""The shapes of the settings of Terraform services."""

import re
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta

from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    ChangedSettings,
    Count,
    Id,
    Line,
    Maybe,
    Mebibytes,
    Millicores,
    Text,
    absent,
    always_refused,
    example,
    shaped,
    shown_in_examples,
    usual_choice,
)
from windlass.core.declare.queries import Removal
from windlass.core.declare.resource import Owner, Shown, Spec, clash
from windlass.core.declare.shapes import (
    GitRepository,
    GitRepositoryRequest,
    RelativePath,
)
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import CommitId, Nothing

Engine = Literal["TERRAFORM", "OPEN_TOFU"]
_IDENTIFIER_PATTERN: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,127}"
VariableKey = Annotated[
    str,
    Meta(
        pattern=shaped(
            rf"^{_IDENTIFIER_PATTERN}\Z", "must be the name of an input variable, such as bucket_name"
        ),
        description="Name of an input variable of the module",
        examples=["bucket_name"],
    ),
]
_EXTRA_FOR: Final = ("init", "plan", "apply", "destroy")
_OURS_PATTERN: Final = re.compile(
    r"--?(out|json|state|state-out|backup|backend|backend-config|chdir|lock|input|destroy|help|"
    r"auto-approve|migrate-state|reconfigure|force-copy|from-module|plugin-dir|detailed-exitcode|var|"
    r"generate-config-out|show-sensitive|json-into|cloud)(=|\Z)"
)
"""Arguments that Windlass sets itself, or that would break its guarantees."""
ExtraArgument = Annotated[
    str,
    Meta(
        max_length=1024,
        pattern=shaped(
            r"^-[^\x00-\x1f\x7f]+\Z", "must be an option that begins with -, such as -parallelism=2"
        ),
    ),
]


class TerraformVariable(Spec):
    """The value of an input variable of the module."""

    key: VariableKey
    value: Annotated[
        Maybe[Text],
        Meta(
            description="As on the command line of the program: a text, or an expression for other types. "
            "That of a secret is never answered; without it, a secret keeps its value"
        ),
        example("shop-assets"),
    ] = absent
    secret: Annotated[bool, Meta(description="Encrypt the value, and hide it in logs and plans")] = False


class VariablesSource(Spec):
    tf_var_file_paths: Annotated[
        list[RelativePath],
        Meta(
            max_length=100,
            description="Variable files (.tfvars) in the repository, as paths relative to the folder of "
            "the module",
        ),
        example(["production.tfvars"]),
    ] = []
    tf_vars: Annotated[
        list[TerraformVariable],
        Meta(max_length=1000, description="Values of input variables; they win over those of files"),
        shown_in_examples(),
    ] = []


class FilesSource(Spec):
    git_repository: Annotated[GitRepositoryRequest, shown_in_examples()]


_REFUSED_BLUEPRINT: Final = always_refused("there are no blueprints here")


class BlueprintBackend(Spec):
    type: Annotated[Line, _REFUSED_BLUEPRINT]
    config: Annotated[Maybe[dict[str, str]], _REFUSED_BLUEPRINT] = absent


class StateBackend(Spec):
    """The place where the state is kept. Exactly one of the fields is set."""

    kubernetes: Annotated[
        Maybe[Nothing],
        Meta(description="Windlass keeps the state, encrypted"),
        shown_in_examples(),
        usual_choice(),
    ] = absent
    user_provided: Annotated[
        Maybe[Nothing], Meta(description="The backend that the module names keeps the state")
    ] = absent
    blueprint: Annotated[Maybe[BlueprintBackend], _REFUSED_BLUEPRINT] = absent


class ProgramVersion(Spec):
    """The version of the program."""

    read_from_terraform_block: Annotated[
        bool,
        Meta(description="True: required_version of the module decides whether the installed one will do"),
    ] = False
    explicit_version: Annotated[
        Annotated[
            str,
            Meta(
                pattern=shaped(r"^([0-9]+(\.[0-9]+){0,2})?\Z", "must be a version, such as 1.11 or 1.11.4"),
                description="A version from GET /terraform/availableVersion, or its beginning; on the engine "
                "docker, any tag of the image. Empty: any",
            ),
        ],
        example("1.11"),
    ] = ""


class JobResources(Spec):
    """The resources of each run."""

    cpu_milli: Annotated[Millicores, example(500)] = 500
    ram_mib: Annotated[Mebibytes, example(512)] = 512
    gpu: Annotated[Count, Meta(description="GPUs; more than the engine has are refused")] = 0
    storage_gib: Annotated[Count, WITHOUT_EFFECT] = 1


class AutoDeployConfig(Spec):
    """The action that a new commit of the branch starts."""

    auto_deploy: Annotated[
        bool, Meta(description="True deploys new commits of the branch by itself. To turn it on needs Deploy")
    ] = False
    terraform_action: Annotated[
        Literal["DEFAULT", "PLAN", "NOOP"],
        Meta(
            description="DEFAULT plans and applies, PLAN only plans, NOOP does nothing. To change it to "
            "DEFAULT or PLAN needs Deploy"
        ),
    ] = "DEFAULT"


PlanId = Annotated[
    Maybe[Id],
    Meta(
        description="The deployment whose plan is applied as it is. It fails if the state has changed since"
    ),
]
DeployAction = Annotated[
    Maybe[Literal["PLAN", "FORCE_UNLOCK", "MIGRATE_STATE"]],
    Meta(
        description="null plans and applies. PLAN only plans. FORCE_UNLOCK releases the lock on the state. "
        "MIGRATE_STATE moves the state to the present backend"
    ),
    example(None),
]
CommitToRun = Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")]


class TerraformDeployRequest(Spec):
    git_commit_id: CommitToRun = absent
    action: DeployAction = absent
    plan_id: PlanId = absent
    id: Annotated[Maybe[Id], Meta(description="The service, which the path names already")] = absent


class ChosenTerraform(Chosen):
    id: Id
    git_commit_id: CommitToRun = absent
    action: DeployAction = absent
    plan_id: PlanId = absent

    @property
    def service(self) -> str:
        return self.id


SkipDestroy = Annotated[
    Maybe[Literal["SKIP_DESTROY"]],
    Meta(description="SKIP_DESTROY leaves the resources as they are, and forgets their state"),
]


class UninstallQuery(Spec):
    """The query parameters of `uninstall`."""

    force_terraform_action: SkipDestroy = absent


class TerraformRemoval(Removal):
    """The query parameters of a deletion."""

    force_terraform_action: SkipDestroy = absent
    resources_only: Annotated[
        bool, Meta(description="Destroy the resources, and keep the service with its settings")
    ] = False


class GitSourceShown(Shown):
    git_repository: Annotated[GitRepository, shown_in_examples()]


class FilesSourceShown(Shown):
    git_repository: Annotated[GitRepository, shown_in_examples()]
    git: Annotated[
        GitSourceShown, Meta(description="The same, as existing clients read it"), shown_in_examples()
    ]


class TerraformShown(Shown):
    environment: Owner
    service_type: str = "TERRAFORM"
    auto_deploy: bool = False
    terraform_files_source: Annotated[FilesSourceShown, shown_in_examples()]
    advanced_settings: ChangedSettings = absent


def check_backend(backend: StateBackend) -> None:
    """Checks that exactly one backend is set, and removes null fields. Existing clients refuse a response
    with a second key."""
    named = [name for name in backend.__struct_fields__ if getattr(backend, name) not in (UNSET, None)]
    if len(named) != 1:
        raise clash("backend", "must have exactly one of kubernetes and user_provided")
    if named == ["blueprint"]:
        raise clash("backend.blueprint", "choose kubernetes or user_provided: there are no blueprints here")
    for name in backend.__struct_fields__:
        if name not in named:
            setattr(backend, name, UNSET)


def check_variables(source: VariablesSource) -> None:
    for index, path in enumerate(source.tf_var_file_paths):
        if not path.strip("/") or ".." in path.split("/"):
            raise clash(
                f"terraform_variables_source.tf_var_file_paths[{index}]",
                "must be a file of the repository, without `..`",
            )
    seen: set[str] = set()
    for index, variable in enumerate(source.tf_vars):
        at = f"terraform_variables_source.tf_vars[{index}]"
        if variable.key in seen:
            raise clash(f"{at}.key", f"there is already a value for {variable.key}")
        seen.add(variable.key)
        if not variable.secret and variable.value in (UNSET, None):
            raise clash(f"{at}.value", "is required, unless secret is true and it was sent before")


def check_arguments(arguments: dict[str, list[str]]) -> None:
    for command, options in arguments.items():
        at = f"action_extra_arguments.{command}"
        if command not in _EXTRA_FOR:
            raise clash(at, f"must be one of {', '.join(_EXTRA_FOR)}")
        for index, option in enumerate(options):
            if _OURS_PATTERN.match(option):
                raise clash(f"{at}[{index}]", f"leave out {option}: Windlass itself sets this option")
