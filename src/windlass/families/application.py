"""An application: built from a git repository, deployed, watched, scaled."""

from typing import Annotated, Literal

from msgspec import field

from windlass.core.declare.fields import (
    Count,
    Description,
    Id,
    Line,
    Maybe,
    Mebibytes,
    Millicores,
    Name,
    absent,
    example,
)
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.core.declare.shapes import (
    VOLUME_DIGITS,
    Architecture,
    Arguments,
    Autoscaling,
    AutoscalingShown,
    GitRepository,
    GitRepositoryRequest,
    Group,
    GroupRef,
    Healthcheck,
    Instances,
    MaxInstances,
    PortRequest,
    RelativePath,
    ServicePort,
    Storage,
    StorageRequest,
    check_ids,
    settle_autoscaling,
    settle_instances,
    settle_ports,
    settle_repository,
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


class Application(Spec):
    name: Annotated[Name, example("web")]
    description: Description | None = ""
    git_repository: GitRepositoryRequest
    build_mode: Literal["DOCKER"] = "DOCKER"
    dockerfile_path: Maybe[RelativePath] = absent
    docker_target_build_stage: Maybe[Line] = absent
    cpu: Millicores = 500
    memory: Mebibytes = 512
    gpu: Count = 0
    ephemeral_storage_in_gib: Maybe[Count] = absent
    cpu_architecture: Maybe[Architecture] = absent
    min_running_instances: Instances = 1
    max_running_instances: MaxInstances = 1
    healthchecks: Healthcheck = field(default_factory=Healthcheck)
    ports: list[PortRequest] = []
    storage: list[StorageRequest] = []
    arguments: Arguments = []
    entrypoint: Maybe[Line] = absent
    auto_preview: bool = True
    auto_deploy: bool | None = False
    annotations_groups: list[GroupRef] = []
    labels_groups: list[GroupRef] = []
    icon_uri: Line = "app://windlass/application"
    autoscaling: Maybe[Autoscaling] = absent


class ChosenApplication(Chosen):
    application_id: Id
    git_commit_id: Maybe[CommitId] = absent

    @property
    def service(self) -> str:
        return self.application_id


class ApplicationShown(Shown):
    description: Description = ""
    git_repository: GitRepository
    ports: list[ServicePort] = []
    storage: list[Storage] = []
    annotations_groups: list[Group] = []
    labels_groups: list[Group] = []
    autoscaling: Maybe[AutoscalingShown] = absent
    environment: Owner
    service_type: str = "APPLICATION"
    maximum_cpu: int = 0
    maximum_memory: int = 0
    maximum_gpu: int = 0
    maximun_gpu: int = 0


def normalise(spec: Application) -> None:
    settle_instances(spec)
    settle_ports(spec.ports)
    check_ids("storage", spec.storage, VOLUME_DIGITS)
    settle_repository(spec.git_repository)
    if spec.autoscaling:
        settle_autoscaling(spec.autoscaling)
    spec.description = spec.description or ""
    spec.auto_deploy = bool(spec.auto_deploy)


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
