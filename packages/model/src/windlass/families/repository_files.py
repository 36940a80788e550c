"""Operations that read files of a repository before a service is created from it."""

from typing import Annotated

from msgspec import Meta

from windlass.core.declare.actions import post
from windlass.core.declare.fields import example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec
from windlass.core.declare.shapes import GitRepositoryRequest, RelativePath
from windlass.families.environment import environment
from windlass.families.organization import organization

MAX_FILES = 100


class DockerfileCheck(Spec):
    git_repository: GitRepositoryRequest
    dockerfile_path: Annotated[
        RelativePath, Meta(min_length=1, description="Relative to `root_path`"), example("Dockerfile")
    ]


class CheckedDockerfile(Shown):
    """A Dockerfile that can be parsed."""

    dockerfile_path: Annotated[str, example("Dockerfile")]
    arg: Annotated[
        list[str], Meta(description="Names of its arguments, of all stages"), example(["VERSION"])
    ] = []
    repositories: Annotated[
        list[str], Meta(description="Images that its stages begin with"), example(["python:3.12-slim"])
    ] = []


class GitFileCheck(Spec):
    git_repository: GitRepositoryRequest
    files: Annotated[
        list[Annotated[RelativePath, Meta(min_length=1), example("values.yaml")]],
        Meta(min_length=1, max_length=MAX_FILES, description="Relative to `root_path`"),
        example(["values.yaml"]),
    ]


class CheckedFiles(Shown):
    """Files that exist in a repository."""

    files: Annotated[list[str], example(["values.yaml"])]


class Directories(Shown):
    results: Annotated[
        list[str],
        Meta(description="Folders below `root_path`, relative to it; those near the top come first"),
        example(["web", "web/src"]),
    ]


_FETCH_DESCRIPTION = (
    "Fetches the newest commit of the branch and runs nothing. 409 with the reason if it cannot be read."
)

of_environments = Actions(
    environment,
    "Git repositories",
    (
        post(
            "checkDockerfile",
            CheckedDockerfile,
            "Look whether a Dockerfile can be parsed",
            f"{_FETCH_DESCRIPTION} 400 if there is no such file, or with the line that cannot be parsed.",
            id="checkDockerfile",
            body=DockerfileCheck,
            only_reads=True,
            outside=True,
            also=(409,),
        ),
        post(
            "checkGitFile",
            CheckedFiles,
            "Look whether a repository has files",
            f"{_FETCH_DESCRIPTION} 400 with the first file that is not there.",
            id="checkGitFile",
            body=GitFileCheck,
            only_reads=True,
            outside=True,
            also=(409,),
        ),
    ),
)

of_organizations = Actions(
    organization,
    "Git repositories",
    (
        post(
            "listDirectories",
            Directories,
            "List the folders of a repository",
            f"{_FETCH_DESCRIPTION} At most 10,000; folders of tools, such as node_modules, are left out.",
            suffix="/listDirectoriesFromGitRepository",
            id="listDirectoriesFromGitRepository",
            body=GitRepositoryRequest,
            only_reads=True,
            outside=True,
            also=(409,),
        ),
    ),
)
