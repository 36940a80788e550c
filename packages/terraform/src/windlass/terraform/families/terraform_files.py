"""API operations that read the files of a Terraform module before a service is created from it."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.core.declare.actions import post
from windlass.core.declare.fields import example, fields_by
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec, clash
from windlass.core.declare.shapes import GitRepositoryRequest, RelativePath
from windlass.families.organization import organization

MAX_PATHS: Final = 100


class TerraformVariablesQuestion(Spec):
    git_repository: GitRepositoryRequest


class TerraformVariableDefinition(Shown):
    """An input variable that a module declares."""

    key: Annotated[str, example("bucket_name")]
    sensitive: bool
    nullable: bool = True
    default: Annotated[
        str | None,
        Meta(
            description="As on the command line of the program; null if it has none, and if it is sensitive"
        ),
        example("shop-assets"),
    ] = None
    source: Annotated[str, Meta(description="The file that declares it"), example("variables.tf")]
    description: Annotated[str | None, example("The name of the bucket")] = None


class ValuesFilesMode(Spec):
    """The files to read."""

    type: Annotated[
        Literal["AutoDiscover", "SpecificPaths"],
        Meta(description="AutoDiscover finds files below `root_path` that end with .tfvars or .tfvars.json"),
        example("AutoDiscover"),
    ]
    paths: Annotated[
        list[Annotated[RelativePath, Meta(min_length=1), example("production.tfvars")]],
        Meta(max_length=MAX_PATHS, description="The files of SpecificPaths, relative to `root_path`"),
        example([]),
    ] = []


class ValuesFilesQuestion(Spec):
    git_repository: GitRepositoryRequest
    mode: Annotated[ValuesFilesMode, fields_by("type", {"AutoDiscover": [], "SpecificPaths": ["paths"]})]


class ValuesFile(Shown):
    """A file with values of input variables."""

    source: Annotated[
        str, Meta(description="Its path, relative to `root_path`"), example("production.tfvars")
    ]
    variables: Annotated[
        dict[str, str],
        Meta(description="Values as on the command line of the program, without those of `sensitive`"),
        example({"bucket_name": "shop-assets"}),
    ]
    sensitive: Annotated[
        list[str],
        Meta(description="Variables with a value in the file that the module declares as sensitive"),
        example(["api_key"]),
    ] = []


def check_mode(mode: ValuesFilesMode) -> None:
    if mode.type == "SpecificPaths" and not mode.paths:
        raise clash("mode.paths", "is required: name a file, or send the type AutoDiscover")
    if mode.type == "AutoDiscover" and mode.paths:
        raise clash("mode.paths", "leave it out, or send the type SpecificPaths")
    for index, path in enumerate(mode.paths):
        if not path.strip("/") or ".." in path.split("/"):
            raise clash(f"mode.paths[{index}]", "must be a file of the repository, without `..`")


_FETCHES: Final = (
    "Fetches the newest commit of the branch and runs nothing. 409 with the reason if it cannot be read, 400 "
    "with the file and the line if a file cannot be."
)

of_organizations = Actions(
    organization,
    "Terraform",
    (
        post(
            "parseTerraformVariables",
            list[TerraformVariableDefinition],
            "List the input variables of a module",
            f"Of the files *.tf and *.tf.json in `root_path`. {_FETCHES} Defaults must be plain values.",
            suffix="/parseTerraformVariablesFromGitRepo",
            id="parseTerraformVariablesFromGitRepo",
            body=TerraformVariablesQuestion,
            only_reads=True,
            outside=True,
            paged=False,
            also=(409,),
        ),
        post(
            "listValuesFiles",
            list[ValuesFile],
            "List the files with values of input variables",
            f"{_FETCHES} A variable is sensitive if a module in the folder of the file, or in one above it, "
            "declares it so.",
            suffix="/listTfVarsFilesFromGitRepo",
            id="listTfVarsFilesFromGitRepo",
            body=ValuesFilesQuestion,
            only_reads=True,
            outside=True,
            paged=False,
            also=(409,),
        ),
    ),
)
