"""A job: a program that is run to its end, at the times of a timetable or at events of its environment."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, field

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.document import Document
from windlass.core.declare.exported import (
    ALL_VARIABLES,
    GROUPS,
    HEALTHCHECKS,
    LEAST_CPU,
    REPOSITORY,
    RESTRICTIONS,
    SETTINGS,
    WHOLE,
    Attribute,
    ExportedResource,
    same,
)
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    ChangedSettings,
    Count,
    Description,
    Icon,
    Id,
    Line,
    Maybe,
    Mebibytes,
    Millicores,
    Name,
    Port,
    Text,
    Timestamp,
    absent,
    alternatives,
    example,
    shown_in_examples,
)
from windlass.core.declare.groups import (
    AnnotationsGroupOfService,
    AnnotationsGroups,
    LabelsGroupOfService,
    LabelsGroups,
)
from windlass.core.declare.job_runs import JobRun
from windlass.core.declare.job_schedules import JobSchedule, normalise_schedule
from windlass.core.declare.program import Architecture, Arguments
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Family, Owner, Shown, Spec, clash
from windlass.core.declare.shapes import (
    GitRepository,
    GitRepositoryRequest,
    Healthcheck,
    RelativePath,
    can_be_cloned,
    normalise_repository,
)
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import (
    CommitId,
    deployable,
    has_commits,
    has_deployments,
    has_logs,
    has_variables,
)
from windlass.core.settings.operations import default_advanced_settings, has_advanced_settings
from windlass.core.settings.service_settings import OF_JOBS
from windlass.families.container import (
    AutoDeployment,
    ImageName,
    ImageRegistry,
    ImageToDeploy,
    RegistryId,
    Tag,
    TagToDeploy,
    check_image_name,
    own_registry,
)
from windlass.families.environment import environment
from windlass.families.organization import organization

CRON, LIFECYCLE = "CRON", "LIFECYCLE"
JobType = Literal["CRON", "LIFECYCLE"]
MAX_RETRIES: Final = 100
MAX_RUN_SECONDS: Final = 30 * 24 * 3600


class JobImage(Spec):
    """An existing image."""

    image_name: Annotated[Maybe[ImageName], shown_in_examples()] = absent
    tag: Annotated[Maybe[Tag], shown_in_examples()] = absent
    registry_id: Maybe[RegistryId] = absent


class JobDocker(Spec):
    """A repository that is built with its Dockerfile or with a detected recipe."""

    git_repository: Annotated[Maybe[GitRepositoryRequest], shown_in_examples()] = absent
    dockerfile_path: Annotated[
        Maybe[RelativePath],
        Meta(description="Path of the Dockerfile, if it has another name or folder"),
        example("Dockerfile"),
    ] = absent
    dockerfile_raw: Annotated[
        Maybe[Text], Meta(description="The Dockerfile itself, instead of one of the repository")
    ] = absent
    docker_target_build_stage: Annotated[
        Maybe[Line], Meta(description="The stage of the Dockerfile to build; without it, the last")
    ] = absent


class JobSource(Spec):
    """An image or a repository: exactly one of them."""

    image: Maybe[JobImage] = absent
    docker: Annotated[Maybe[JobDocker], shown_in_examples()] = absent


class Job(Spec):
    """Jobs: programs that run to their end, by a timetable or at events of their environment."""

    name: Annotated[Name, example("migrate")]
    description: Annotated[Description | None, example("Brings the database up to date")] = ""
    cpu: Millicores = 500
    memory: Mebibytes = 512
    gpu: Annotated[Count, Meta(description="GPUs; more than the engine has are refused")] = 0
    ephemeral_storage_in_gib: Annotated[Maybe[Count], WITHOUT_EFFECT] = absent
    cpu_architecture: Annotated[Maybe[Architecture], WITHOUT_EFFECT] = absent
    max_nb_restart: Annotated[
        int, Meta(ge=0, le=MAX_RETRIES, description="Retries of a run that fails, with growing pauses")
    ] = 0
    max_duration_seconds: Annotated[
        Maybe[Annotated[int, Meta(ge=0, le=MAX_RUN_SECONDS)]],
        Meta(description="Seconds after which a run is ended; 0 or absent is the setting run_seconds"),
    ] = absent
    auto_preview: Annotated[
        bool,
        Meta(
            description="Whether pull requests for its repository, and tags of its image, get previews, "
            "where the environment has them on"
        ),
    ] = False
    port: Annotated[Maybe[Port], WITHOUT_EFFECT] = absent
    source: Annotated[
        JobSource,
        shown_in_examples(),
        alternatives({"A git repository": ["docker"], "An image": ["image"]}),
    ]
    healthchecks: Annotated[Healthcheck, WITHOUT_EFFECT] = field(default_factory=Healthcheck)
    schedule: Annotated[
        JobSchedule,
        shown_in_examples(),
        alternatives(
            {
                "By a timetable": ["cronjob"],
                "At events of the environment": ["on_start", "on_stop", "on_delete"],
            }
        ),
    ]
    auto_deploy: Annotated[
        bool | None,
        Meta(
            description="True deploys new commits of its branch, or a new tag of its image that "
            "deployJobsOfImage names"
        ),
    ] = False
    annotations_groups: AnnotationsGroups = []
    labels_groups: LabelsGroups = []
    icon_uri: Icon = "app://windlass/job"


class JobImageShown(Shown):
    image_name: Annotated[str, example("ghcr.io/acme/shop")]
    tag: Annotated[str, example("1.4.2")]
    registry_id: Maybe[Id] = absent
    registry: Maybe[ImageRegistry] = absent


class JobDockerShown(Shown):
    git_repository: Annotated[Maybe[GitRepository], shown_in_examples()] = absent
    dockerfile_path: Annotated[Maybe[str], example("Dockerfile")] = absent
    dockerfile_raw: Maybe[str] = absent
    docker_target_build_stage: Maybe[str] = absent


class JobSourceShown(Shown):
    """The image or the repository; the other is absent."""

    image: Maybe[JobImageShown] = absent
    docker: Annotated[Maybe[JobDockerShown], shown_in_examples()] = absent


class JobShown(Shown):
    environment: Owner
    description: Annotated[Description, example("Brings the database up to date")] = ""
    source: Annotated[JobSourceShown, shown_in_examples()]
    annotations_groups: list[AnnotationsGroupOfService] = []
    labels_groups: list[LabelsGroupOfService] = []
    job_type: Annotated[JobType, example("LIFECYCLE")]
    service_type: str = "JOB"
    maximum_cpu: int = 0
    maximum_memory: int = 0
    maximum_gpu: int = 0
    advanced_settings: ChangedSettings = absent


class JobDeployRequest(Spec):
    image_tag: Maybe[TagToDeploy] = absent
    git_commit_id: Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = absent


class ChosenJob(Chosen):
    id: Id
    image_tag: Maybe[TagToDeploy] = absent
    git_commit_id: Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = absent

    @property
    def service(self) -> str:
        return self.id


class ForcedEvent(Spec):
    """The query of a deployment: the event whose command runs."""

    force_event: Annotated[
        Maybe[Literal["START", "STOP", "DELETE", "CRON"]],
        Meta(description="Run the command of this event, instead of that of a deployment"),
    ] = field(name="forceEvent", default=absent)


class JobRunRequest(Spec):
    """Overrides the command of one run. Omitted fields default to the job's command."""

    arguments: Annotated[
        Maybe[Arguments],
        Meta(description="Arguments of this run, in the place of those of the job"),
        example(["--only", "orders"]),
    ] = absent
    entrypoint: Annotated[
        Maybe[Line], Meta(description="Program of this run, in the place of that of the job")
    ] = absent


class DueTimes(Shown):
    """The timetable of a job, and its next due times."""

    scheduled_at: Annotated[str, Meta(description="Empty for a job of events"), example("30 3 * * *")]
    timezone: Annotated[str, example("Europe/Berlin")]
    is_active: Annotated[bool, Meta(description="False before it is deployed, and while it is stopped")]
    due_at: Annotated[list[Timestamp], example(["2026-01-31T02:30:00.000Z"])]
    local_times: Annotated[
        list[str],
        Meta(description="The same, as the clock of the time zone shows them"),
        example(["2026-01-31T03:30:00+01:00"]),
    ]


class DueTimesQuery(Spec):
    """Selects due times of a timetable."""

    count: Annotated[int, Meta(ge=1, le=100, description="Number of due times")] = 10


class CleanedRuns(Shown):
    clean_kubernetes_jobs: Annotated[
        list[str], Meta(description="Ids of the runs that were deleted"), example([])
    ] = []


def normalise(spec: Job) -> None:
    _normalise_source(spec.source)
    normalise_schedule(spec.schedule)
    spec.description = spec.description or ""
    spec.auto_deploy = bool(spec.auto_deploy)


def _is_empty(spec: Spec) -> bool:
    """Returns whether the object is empty. Existing clients send `{}` for the alternative that they do not
    use."""
    return all(getattr(spec, name) in (UNSET, None, []) for name in spec.__struct_fields__)


def _normalise_source(source: JobSource) -> None:
    source.image = absent if not source.image or _is_empty(source.image) else source.image
    source.docker = absent if not source.docker or _is_empty(source.docker) else source.docker
    if bool(source.image) == bool(source.docker):
        problem = "must be one of the two, not both" if source.image else "is required"
        raise clash(
            "source", f"{problem}: an image that is there already (`image`), or a repository (`docker`)"
        )
    if image := source.image:
        if not image.image_name:
            raise clash(
                "source.image.image_name", "is required: the name of an image, such as ghcr.io/acme/shop"
            )
        if not image.tag:
            raise clash("source.image.tag", "is required: a tag, such as 1.4.2")
        check_image_name("source.image.image_name", image.image_name)
        image.registry_id = own_registry(image.image_name, image.registry_id)
    if docker := source.docker:
        if not docker.git_repository:
            raise clash(
                "source.docker.git_repository", 'is required, such as {"url": "https://host/a/b.git"}'
            )
        normalise_repository(docker.git_repository, "source.docker.git_repository")
        if docker.dockerfile_raw and docker.dockerfile_path:
            raise clash("source.docker.dockerfile_raw", "leave out either this or dockerfile_path")


def in_full(document: Document) -> Document:
    """Returns the document for clients of the full interface, which read the id of a registry with each
    image."""
    source = document.get("source")
    image = source.get("image") if isinstance(source, dict) else None
    registry = image.get("registry") if isinstance(image, dict) else None
    if not isinstance(source, dict) or not isinstance(image, dict) or not isinstance(registry, dict):
        return document
    return {**document, "source": {**source, "image": {**image, "registry_id": registry["id"]}}}


_RUN_DESCRIPTION: Final = (
    "Runs the version that is deployed, with other arguments if some are named. It changes nothing of the "
    "schedule. 409 while a run of the job is under way, and before it was deployed."
)
_COMMAND: Final = same("entrypoint arguments")
_SCHEDULE: Final = Attribute(
    "schedule",
    parts=(
        Attribute("on_start", parts=_COMMAND),
        Attribute("on_stop", parts=_COMMAND),
        Attribute("on_delete", parts=_COMMAND),
        Attribute(
            "cronjob",
            parts=(Attribute("schedule", "scheduled_at"), Attribute("command", WHOLE, _COMMAND)),
        ),
        Attribute("lifecycle_type"),
    ),
)
_REGISTRY: Final = Attribute("registry_id", refers="container registry", otherwise="source.image.registry.id")
_SOURCE: Final = Attribute(
    "source",
    parts=(
        Attribute("image", parts=(_REGISTRY, Attribute("name", "image_name"), Attribute("tag"))),
        Attribute(
            "docker",
            parts=(
                Attribute("git_repository", parts=REPOSITORY),
                *same("dockerfile_path dockerfile_raw docker_target_build_stage"),
            ),
        ),
    ),
)
job = Family(
    "job",
    Job,
    parent=environment,
    shown=JobShown,
    normalise=normalise,
    in_full=in_full,
    traits=(
        deployable(JobDeployRequest, ChosenJob, runs_once=True, query=ForcedEvent),
        has_deployments,
        can_be_cloned,
        has_commits,
        has_logs,
        has_variables,
        has_advanced_settings(OF_JOBS),
    ),
    actions=(
        post(
            "run", JobRun, "Run it once", _RUN_DESCRIPTION, need=Scope.DEPLOY, body=JobRunRequest, also=(409,)
        ),
        get("dueTimes", DueTimes, "List the next due times of its timetable", query=DueTimesQuery),
        post(
            "cleanFailedJob",
            CleanedRuns,
            "Delete its failed runs from the list",
            id="cleanFailedJob",
            need=Scope.DEPLOY,
            status=200,
        ),
    ),
    about="A job of a timetable has `schedule.cronjob`, one of events `on_start`, `on_stop` or `on_delete`.",
    exported=ExportedResource(
        "qovery_job",
        (
            *same("name icon_uri"),
            Attribute("cpu", least=LEAST_CPU),
            *same("memory max_nb_restart max_duration_seconds port auto_preview auto_deploy"),
            Attribute("ephemeral_storage", "ephemeral_storage_in_gib"),
            HEALTHCHECKS,
            _SCHEDULE,
            _SOURCE,
            *GROUPS,
        ),
        lists=ALL_VARIABLES | {RESTRICTIONS, SETTINGS},
    ),
)

deploy_jobs = Actions(
    organization,
    "Jobs",
    (
        post(
            "jobDeploy",
            AutoDeployment,
            "Deploy a new tag to all jobs of an image",
            "Deploys every job with this image, another tag and `auto_deploy`, that the caller may deploy. "
            "The tag becomes that of the job.",
            id="deployJobsOfImage",
            suffix="/job/deploy",
            body=ImageToDeploy,
            need=Scope.DEPLOY,
            also=(409,),
        ),
    ),
)

defaults = default_advanced_settings(OF_JOBS, "Jobs")
