"""An application: built from a git repository or an uploaded folder, deployed, watched, scaled."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta

from windlass.base.http_in.own_headers import GATEWAY_HEADERS
from windlass.builders.builder import BuilderChoice
from windlass.core.declare.build_shapes import (
    Command,
    File,
    Folder,
    LanguageVersion,
    ProcessName,
    StaticHeader,
    SystemPackage,
    WatchedPath,
)
from windlass.core.declare.executions import has_one_off_runs, runs_commands
from windlass.core.declare.exported import (
    ALL_VARIABLES,
    DOMAINS,
    PROGRAM,
    REPOSITORY,
    RESTRICTIONS,
    SETTINGS,
    Attribute,
    ExportedResource,
    same,
)
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Icon,
    Id,
    Line,
    Maybe,
    Name,
    absent,
    example,
    follows,
    kept,
    shown_in_examples,
)
from windlass.core.declare.program import Program, ProgramShown, normalise_program
from windlass.core.declare.resource import Family, clash
from windlass.core.declare.shapes import (
    GitRepository,
    GitRepositoryRequest,
    RelativePath,
    can_be_cloned,
    has_network,
    normalise_repository,
)
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import (
    CommitId,
    DeployRequest,
    deployable,
    has_commits,
    has_deployments,
    has_domains,
    has_links,
    has_logs,
    has_variables,
)
from windlass.core.settings.operations import default_advanced_settings, has_advanced_settings
from windlass.core.settings.service_settings import OF_APPLICATIONS
from windlass.families.environment import environment

GIT_SOURCE = "GIT"
"""The `source` of applications that are built from a git repository."""


class Application(Program):
    name: Annotated[Name, example("web")]
    source: Annotated[
        Literal["GIT", "UPLOAD"],
        Meta(description="UPLOAD builds uploaded folders, and needs no git_repository"),
    ] = "GIT"
    git_repository: Annotated[Maybe[GitRepositoryRequest], kept(), shown_in_examples()] = absent
    root_path: Annotated[
        Maybe[RelativePath],
        Meta(description="Folder of the application in the uploaded folder; without it, that folder itself"),
    ] = absent
    build_mode: Annotated[Literal["DOCKER"], WITHOUT_EFFECT] = "DOCKER"
    dockerfile_path: Annotated[
        Maybe[RelativePath],
        Meta(description="Path of the Dockerfile, if it has another name or folder"),
        example("Dockerfile"),
    ] = absent
    docker_target_build_stage: Annotated[
        Maybe[Line], Meta(description="The stage of the Dockerfile to build; without it, the last")
    ] = absent
    builder: Annotated[
        BuilderChoice,
        Meta(
            description="DOCKERFILE builds the Dockerfile, RECIPE what is detected. AUTO takes the "
            "Dockerfile, if there is one and no setting of a recipe is given"
        ),
    ] = "AUTO"
    install_command: Annotated[
        Maybe[Command],
        Meta(description="Command that installs dependencies, such as npm ci, instead of the detected one"),
    ] = absent
    build_command: Annotated[
        Maybe[Command],
        Meta(description="Command that builds it, such as npm run build, instead of the detected one"),
    ] = absent
    start_command: Annotated[
        Maybe[Command],
        Meta(
            description="Command to run, as a shell reads it, such as node server.js --port $PORT, instead "
            "of the detected one"
        ),
    ] = absent
    release_command: Annotated[
        Maybe[Command],
        Meta(
            description="Command that runs once for each deployment before it serves, such as python "
            "manage.py migrate; its failure stops the deployment"
        ),
    ] = absent
    process: Annotated[
        Maybe[ProcessName],
        Meta(description="Process type of the Procfile to run; without it, web, or the only one"),
    ] = absent
    static_folder: Annotated[
        Maybe[Folder], Meta(description="Folder to serve after the build, instead of running a process")
    ] = absent
    static_fallback: Annotated[
        Maybe[File],
        Meta(description="File of a static site to answer where no file has the path, such as index.html"),
    ] = absent
    static_headers: Annotated[
        list[StaticHeader], Meta(max_length=100, description="Headers of the files of a static site")
    ] = []
    language_version: Annotated[
        Maybe[LanguageVersion],
        Meta(description="Version of the language, instead of the one that the repository names"),
    ] = absent
    system_packages: Annotated[
        list[SystemPackage],
        Meta(max_length=100, description="Debian packages for its image, in addition to the detected ones"),
    ] = []
    auto_deploy: Annotated[
        bool | None,
        Meta(
            description="True deploys each new commit of the branch, once it was deployed. To turn it on, or "
            "to change git_repository while it is on, needs Deploy"
        ),
    ] = False
    watch_paths: Annotated[
        list[WatchedPath],
        Meta(
            max_length=100,
            description="With auto_deploy, only commits are deployed that change one of these paths of the "
            "repository, such as web, docs/*.md or !web/test; empty watches all",
        ),
    ] = []
    automatic_port: Annotated[
        Maybe[bool],
        follows("ports", when_named=True),
        Meta(
            description="True where ports is left out: Windlass adds one public HTTP port when a build finds "
            "a web process or a static site, and follows its number. False once ports are named"
        ),
    ] = absent
    icon_uri: Icon = "app://windlass/application"


class ChosenApplication(Chosen):
    application_id: Id
    git_commit_id: Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = absent
    upload_id: Annotated[Maybe[Id], Meta(description="A complete upload, instead of a commit")] = absent

    @property
    def service(self) -> str:
        return self.application_id


class ApplicationShown(ProgramShown):
    own_fields_follow = "maximum_gpu"

    git_repository: Annotated[Maybe[GitRepository], shown_in_examples()] = absent
    automatic_port: bool = False
    push_url: Annotated[
        str,
        Meta(
            description="Address for git push and git clone, with any user name and an API token as "
            "password. It takes pushes if git_repository.url is windlass://push, or source is UPLOAD"
        ),
        example("http://127.0.0.1:8080/git/5b3e9c1e-6d0f-4a3c-9d57-0f2a8f6f1c77.git"),
    ] = ""
    service_type: str = "APPLICATION"
    maximun_gpu: int = 0


def normalise(spec: Application) -> None:
    normalise_program(spec, may_get_port=spec.ports is UNSET or spec.automatic_port is True)
    if spec.git_repository:
        normalise_repository(spec.git_repository, takes_pushes=True)
    elif spec.source == GIT_SOURCE:
        raise clash("git_repository", "is required, unless source is UPLOAD")
    _check_root_path(spec)
    _check_start(spec)
    _check_builder(spec)
    for index, header in enumerate(spec.static_headers):
        if header.name.lower() in GATEWAY_HEADERS:
            reason = f"choose another header: the gateway sets {header.name} itself"
            raise clash(f"static_headers[{index}].name", reason)


def _check_root_path(spec: Application) -> None:
    if not spec.root_path:
        return
    if spec.git_repository:
        raise clash("root_path", "leave it out, and set git_repository.root_path")
    if ".." in spec.root_path.split("/"):
        raise clash("root_path", "must stay inside the uploaded folder: leave out `..`")


def _check_start(spec: Application) -> None:
    """Raises Invalid if more than one setting determines what runs."""
    own_command = "arguments" if spec.arguments else "entrypoint" if spec.entrypoint else ""
    names = [name for name in ("static_folder", "start_command", "process") if getattr(spec, name)]
    names += [own_command] if own_command else []
    if len(names) > 1:
        raise clash(names[0], f"leave out either this or {names[1]}: each of them says what runs")


def _check_builder(spec: Application) -> None:
    """Raises Invalid for recipe settings if only a Dockerfile is built."""
    recipe = ("install_command", "build_command", "static_folder", "language_version", "system_packages")
    name = next((name for name in recipe if getattr(spec, name)), "")
    if spec.builder == "DOCKERFILE" and name:
        raise clash(name, "leave it out, or set builder to RECIPE: a Dockerfile says itself how it is built")


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
        can_be_cloned,
        has_network,
        has_links,
        has_domains,
        has_logs,
        has_variables,
        runs_commands,
        has_one_off_runs,
        has_advanced_settings(OF_APPLICATIONS),
    ),
    about="cpu is in millicores, memory in MB, storage in GB.",
    exported=ExportedResource(
        "qovery_application",
        (
            *PROGRAM,
            Attribute("git_repository", parts=REPOSITORY, is_required=True),
            *same("build_mode dockerfile_path docker_target_build_stage"),
        ),
        lists=ALL_VARIABLES | {DOMAINS, RESTRICTIONS, SETTINGS},
    ),
)

defaults = default_advanced_settings(OF_APPLICATIONS, "Applications")
