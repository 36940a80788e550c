"""An application: built from a git repository, deployed, watched, scaled."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Icon,
    Id,
    Line,
    Maybe,
    Name,
    absent,
    example,
)
from windlass.core.declare.program import Program, ProgramShown, normalise_program
from windlass.core.declare.resource import Family
from windlass.core.declare.shapes import (
    GitRepository,
    GitRepositoryRequest,
    RelativePath,
    normalise_repository,
)
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import (
    CommitId,
    DeployRequest,
    deployable,
    has_commits,
    has_deployments,
    has_links,
    has_logs,
    has_variables,
)
from windlass.families.environment import environment


class Application(Program):
    name: Annotated[Name, example("web")]
    git_repository: GitRepositoryRequest
    build_mode: Annotated[Literal["DOCKER"], WITHOUT_EFFECT] = "DOCKER"
    dockerfile_path: Annotated[
        Maybe[RelativePath],
        Meta(description="Path of the Dockerfile, if it has another name or folder"),
        example("Dockerfile"),
    ] = absent
    docker_target_build_stage: Annotated[
        Maybe[Line], Meta(description="The stage of the Dockerfile to build; without it, the last")
    ] = absent
    icon_uri: Icon = "app://windlass/application"


class ChosenApplication(Chosen):
    application_id: Id
    git_commit_id: Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = absent

    @property
    def service(self) -> str:
        return self.application_id


class ApplicationShown(ProgramShown):
    own_fields_follow = "maximum_gpu"

    git_repository: GitRepository
    service_type: str = "APPLICATION"
    maximun_gpu: int = 0


def normalise(spec: Application) -> None:
    normalise_program(spec)
    normalise_repository(spec.git_repository)


application = Family(
    "application",
    Application,
    parent=environment,
    shown=ApplicationShown,
    param="app_id",
    normalise=normalise,
    traits=(
        deployable(DeployRequest, ChosenApplication),
        has_deployments,
        has_commits,
        has_links,
        has_logs,
        has_variables,
    ),
    about="cpu is in millicores, memory in MB, storage in GB.",
)
