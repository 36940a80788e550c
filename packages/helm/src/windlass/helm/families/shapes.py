"""The shapes of the settings of Helm services."""

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from windlass.core.declare.fields import (
    ChangedSettings,
    Id,
    Line,
    Maybe,
    Name,
    Port,
    Timestamp,
    absent,
    example,
    left_out_of_examples,
    refers,
    shaped,
    shown_in_examples,
    stays,
    usual_choice,
)
from windlass.core.declare.queries import PageOfWhole
from windlass.core.declare.resource import Owner, Shown, Spec, clash
from windlass.core.declare.shapes import (
    GitRepository,
    GitRepositoryRequest,
    RelativePath,
    normalise_repository,
)
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import CommitId

MAX_VALUES_LENGTH: Final = 1_048_576
"""Maximum length of a file of values in a repository, in characters."""
MAX_TEXT_LENGTH: Final = 524_288
"""The same of a text in a request, whose whole body has a limit, too."""
_CHART_NAME: Final = shaped(
    r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*\Z",
    "must be the name of a chart, such as redis",
)
_VERSION_PATTERN: Final = r"v?[0-9]+(\.[0-9]+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
_VERSION_FORM: Final = "must be a version of a chart, such as 20.1.0"
ChartVersion = Annotated[
    str, Meta(max_length=128, pattern=shaped(rf"^{_VERSION_PATTERN}\Z", _VERSION_FORM), examples=["20.1.0"])
]
VersionToDeploy = Annotated[
    str,
    Meta(
        max_length=128,
        pattern=shaped(rf"^({_VERSION_PATTERN})?\Z", _VERSION_FORM),
        description="The new version of the chart; if left out, the present one",
        examples=["20.2.0"],
    ),
]
DNS_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
ObjectName = Annotated[
    str,
    Meta(
        max_length=253,
        pattern=shaped(
            rf"^{DNS_LABEL}(\.{DNS_LABEL})*\Z",
            "must be a name of Kubernetes, such as shop-web: small letters, digits and -",
        ),
    ),
]
_ALLOWED_OPTIONS: Final = (
    "--atomic", "--cleanup-on-fail", "--debug", "--description", "--disable-openapi-validation",
    "--force-conflicts", "--force-replace", "--history-max", "--no-hooks", "--rollback-on-failure",
    "--skip-crds", "--skip-schema-validation", "--take-ownership", "--wait", "--wait-for-jobs",
)  # fmt: skip
Argument = Annotated[
    str,
    Meta(
        max_length=1024,
        pattern=shaped(
            r"^--[a-z][a-z-]*(=[^\x00-\x1f\x7f]*)?\Z", "must be an option such as --wait, in one word"
        ),
        examples=["--wait"],
    ),
]
ValuePair = Annotated[
    list[Annotated[str, Meta(max_length=65_536), example("replicaCount")]],
    Meta(min_length=2, max_length=2),
    example(["replicaCount", "2"]),
]


class ChartRepository(Spec):
    """A chart of a repository."""

    repository: Annotated[
        Maybe[Annotated[Id, refers("helmRepository")]], Meta(description="The repository with the chart")
    ] = absent
    chart_name: Annotated[
        str,
        Meta(max_length=255, pattern=_CHART_NAME, description="The name of the chart in the repository"),
        example("redis"),
    ]
    chart_version: Annotated[ChartVersion, Meta(description="The version of the chart")]


class ChartSource(Spec):
    """Where the chart comes from: a folder of a git repository, or a chart repository. Exactly one is set."""

    git_repository: Annotated[Maybe[GitRepositoryRequest], shown_in_examples(), usual_choice()] = absent
    helm_repository: Annotated[Maybe[ChartRepository], left_out_of_examples()] = absent


class ChartValues(Spec):
    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=255,
            pattern=shaped(
                r"^[A-Za-z0-9][A-Za-z0-9 ._-]*\Z", "must be the name of a file, such as production.yaml"
            ),
        ),
        example("production.yaml"),
    ]
    content: Annotated[
        str,
        Meta(
            max_length=MAX_TEXT_LENGTH,
            description="YAML. `qovery.env.KEY` stands for the value of the variable or secret KEY",
            extra={"several_lines": True},
        ),
        example("replicaCount: 2\n"),
    ]


class RawValues(Spec):
    values: Annotated[
        list[ChartValues],
        Meta(max_length=50, description="Texts of values; later ones win"),
        shown_in_examples(),
    ] = []


class ValuesInGit(Spec):
    git_repository: Annotated[GitRepositoryRequest, shown_in_examples()]
    paths: Annotated[
        list[Annotated[RelativePath, Meta(min_length=1), example("values/production.yaml")]],
        Meta(min_length=1, max_length=50, description="Files of values, relative to `root_path`"),
        example(["values/production.yaml"]),
    ]


class ChartValuesFiles(Spec):
    """Files of values: texts, or files of a git repository. The other one is null."""

    raw: Annotated[Maybe[RawValues], shown_in_examples()] = absent
    git: Annotated[Maybe[ValuesInGit], left_out_of_examples()] = absent


class ValuesOverride(Spec):
    """Values that override those of the chart. Later ones win: files, then set, set_string and set_json."""

    set: Annotated[
        list[ValuePair],
        Meta(max_length=500, description="Pairs of a path and a value, as for the option --set"),
        example([["replicaCount", "2"]]),
    ] = []
    set_string: Annotated[
        list[ValuePair],
        Meta(max_length=500, description="The same for --set-string: each value is a text"),
        example([["image.tag", "1.4.2"]]),
    ] = []
    set_json: Annotated[
        list[ValuePair],
        Meta(max_length=500, description="The same for --set-json: each value is JSON"),
        example([["tolerations", "[]"]]),
    ] = []
    file: Annotated[Maybe[ChartValuesFiles], shown_in_examples()] = absent


class Selector(Spec):
    key: Annotated[Line, example("app.kubernetes.io/name")]
    value: Annotated[Line, example("shop")]


PortProtocol = Literal["HTTP", "GRPC"]


class ChartPort(Spec):
    """A port of a Service of the chart. Exactly one of `service_name` and `service_selectors` is set."""

    name: Maybe[Name] = absent
    internal_port: Annotated[Port, example(8080)]
    external_port: Annotated[Maybe[Port], example(443)] = absent
    namespace: Annotated[
        Maybe[ObjectName], Meta(description="Left out: the namespace of the environment"), example("shop")
    ] = absent
    protocol: PortProtocol = "HTTP"
    is_default: Maybe[bool] = absent
    service_name: Annotated[
        Maybe[ObjectName], Meta(description="Name of the Service"), example("shop-web"), shown_in_examples()
    ] = absent
    service_selectors: Annotated[
        Maybe[list[Selector]], Meta(description="Labels of the Service"), left_out_of_examples()
    ] = absent


class HelmDeployRequest(Spec):
    chart_version: Maybe[VersionToDeploy] = absent
    git_commit_id: Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = absent
    values_override_git_commit_id: Annotated[
        Maybe[CommitId],
        Meta(description="A commit of the repository with the values"),
        example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07"),
    ] = absent


class ChosenHelm(Chosen):
    id: Id
    chart_version: Maybe[VersionToDeploy] = absent
    git_commit_id: Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = absent
    values_override_git_commit_id: Annotated[
        Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")
    ] = absent

    @property
    def service(self) -> str:
        return self.id


class ForcedDifference(Spec):
    """The query of a deployment."""

    force_event: Annotated[
        Maybe[Literal["DIFF"]],
        Meta(description="DIFF only makes a plan: what the deployment would change. It changes nothing"),
    ] = field(name="forceEvent", default=absent)


class GitChartShown(Shown):
    git_repository: Annotated[GitRepository, shown_in_examples()]


class RepositoryOfChart(Shown):
    id: Id
    name: Annotated[str, example("charts of the shop")]
    url: Annotated[str, example("https://charts.example.com")]


class StoredChartShown(Shown):
    chart_name: Annotated[str, example("redis")]
    chart_version: Annotated[str, example("20.1.0")]
    repository: Annotated[RepositoryOfChart, shown_in_examples()]


class ChartSourceShown(Shown):
    """The source of the chart, under the names of the request and under those of existing clients."""

    git_repository: Annotated[Maybe[GitRepository], shown_in_examples()] = absent
    git: Annotated[Maybe[GitChartShown], shown_in_examples()] = absent
    helm_repository: Annotated[Maybe[ChartRepository], left_out_of_examples()] = absent
    repository: Annotated[Maybe[StoredChartShown], left_out_of_examples()] = absent


class ChartPortShown(Shown):
    id: Id
    port_type: Annotated[Literal["SERVICE_NAME", "SERVICE_SELECTORS"], example("SERVICE_NAME")] = (
        "SERVICE_NAME"
    )
    name: Annotated[str, example("p8080")]
    internal_port: Annotated[Port, example(8080)]
    external_port: Annotated[Maybe[Port], example(443)] = absent
    namespace: Annotated[Maybe[str], example("shop")] = absent
    protocol: PortProtocol = "HTTP"
    is_default: bool = False
    publicly_accessible: Annotated[
        bool,
        Meta(
            description="Whether the gateway routes to the port: its Service has to be in the namespace of "
            "the environment"
        ),
    ] = False
    service_name: Annotated[Maybe[str], example("shop-web"), shown_in_examples()] = absent
    service_selectors: Annotated[Maybe[list[Selector]], left_out_of_examples()] = absent


class GitValuesShown(Shown):
    git_repository: Annotated[GitRepository, shown_in_examples()]
    paths: Annotated[list[str], example(["values/production.yaml"])]


class ChartValuesFilesShown(Shown):
    raw: Annotated[Maybe[RawValues], shown_in_examples()] = absent
    git: Annotated[Maybe[GitValuesShown], left_out_of_examples()] = absent


class ValuesShown(Shown):
    set: Annotated[list[list[str]], example([["replicaCount", "2"]])] = []
    set_string: Annotated[list[list[str]], example([["image.tag", "1.4.2"]])] = []
    set_json: Annotated[list[list[str]], example([["tolerations", "[]"]])] = []
    file: Annotated[Maybe[ChartValuesFilesShown], shown_in_examples()] = absent


class HelmShown(Shown):
    environment: Owner
    service_type: str = "HELM"
    source: Annotated[ChartSourceShown, shown_in_examples()]
    ports: list[ChartPortShown] = []
    values_override: Annotated[ValuesShown, shown_in_examples()]
    advanced_settings: ChangedSettings = absent


class ServiceMetadata(Shown):
    name: Annotated[str, example("shop-web")]


class ServicePortShown(Shown):
    name: str = ""
    port: Annotated[int, example(8080)]


class KubernetesServiceSpec(Shown):
    type: Annotated[str, example("ClusterIP")] = "ClusterIP"
    ports: Annotated[list[ServicePortShown], shown_in_examples()] = []
    selectors: Annotated[list[Selector], shown_in_examples()] = []


class KubernetesService(Shown):
    """A Service that the release has made."""

    metadata: Annotated[ServiceMetadata, shown_in_examples()]
    service_spec: Annotated[KubernetesServiceSpec, shown_in_examples()]


class HelmPod(Shown):
    """A Pod of the release, as it is in the cluster."""

    name: Annotated[str, example("shop-web-7d4b9c6f5-x2k8p")]
    phase: Annotated[str, Meta(description="The word of the cluster"), example("Running")]
    ready: Annotated[bool, Meta(description="Whether all of its containers are ready"), example(True)]
    restarts: Annotated[int, Meta(description="Restarts of its containers"), example(0)]
    node: Annotated[str, Meta(description="Empty while no node is chosen"), example("node-1")] = ""
    reason: Annotated[
        str, Meta(description="Why it does not run; empty if no problem is known"), example("")
    ] = ""
    created_at: Annotated[Maybe[Timestamp], Meta(description="When the cluster has made it")] = absent


class HelmEvent(Shown):
    """What the cluster has told about an object of the release."""

    address: Annotated[str, Meta(description="Kind and name of the object"), example("Pod/shop-web-x2k8p")]
    reason: Annotated[str, Meta(description="The word of the cluster"), example("FailedScheduling")]
    message: Annotated[str, example("0/3 nodes are available: 3 Insufficient cpu.")]
    warning: Annotated[bool, Meta(description="Whether it is a warning"), example(True)]
    count: Annotated[int, Meta(description="How often it has happened"), example(4)]
    last_at: Annotated[Maybe[Timestamp], Meta(description="When it happened last")] = absent


class PlannedObject(Shown):
    """An object of Kubernetes that a deployment would change."""

    address: Annotated[str, Meta(description="Its kind and name"), example("Deployment/shop-web")]
    namespace: Annotated[str, example("shop")] = ""
    action: Annotated[Literal["create", "update", "destroy"], example("update")]
    difference: Annotated[
        str,
        Meta(description="The changed lines. Values of Secrets are replaced by their length"),
        example("-  replicas: 1\n+  replicas: 2\n"),
    ] = ""


class HelmPlan(Shown):
    """The changes that a deployment made or would make."""

    deployment_id: Id
    created_at: Timestamp
    added: Annotated[int, example(1)]
    changed: Annotated[int, example(2)]
    destroyed: Annotated[int, example(0)]
    applicable: Annotated[
        bool, Meta(description="False: a deployment makes a plan of its own and stores it")
    ] = False
    revision: Annotated[
        int, Meta(description="The revision of the release before it; 0 if there was none"), example(3)
    ] = 0
    resources: Annotated[list[PlannedObject], shown_in_examples()] = []
    text: Annotated[
        str,
        Meta(description="All changed lines"),
        example("Deployment/shop-web\n-  replicas: 1\n+  replicas: 2\n"),
    ] = ""


class HelmPlanQuery(PageOfWhole):
    """Selects plans."""

    deployment_id: Annotated[Maybe[Id], Meta(description="Only the plan of this deployment")] = absent


def check_source(source: ChartSource, *, path: str = "source") -> None:
    """Checks that exactly one source is set, and removes the null one, which existing clients refuse."""
    source.git_repository = source.git_repository or absent
    source.helm_repository = source.helm_repository or absent
    if bool(source.git_repository) == bool(source.helm_repository):
        problem = "must be one of the two, not both" if source.git_repository else "is required"
        raise clash(
            path, f"{problem}: a folder of a repository (`git_repository`), or a chart (`helm_repository`)"
        )
    if source.git_repository:
        normalise_repository(source.git_repository, f"{path}.git_repository")
    if (chart := source.helm_repository) and not chart.repository:
        raise clash(
            f"{path}.helm_repository.repository", "is required: a Helm repository of the organization"
        )


def check_values(values: ValuesOverride) -> None:
    files = values.file or absent
    values.file = files
    if files:
        files.raw, files.git = files.raw or absent, files.git or absent
        if files.git:
            normalise_repository(files.git.git_repository, "values_override.file.git.git_repository")
            for index, path in enumerate(files.git.paths):
                if not path.strip("/") or ".." in path.split("/"):
                    at = f"values_override.file.git.paths[{index}]"
                    raise clash(at, "must be a file of the repository, without `..`")
        if files.raw:
            _check_file_names(files.raw)
        if not files.raw and not files.git:
            values.file = absent
    for name in ("set", "set_string", "set_json"):
        for index, (key, _) in enumerate(getattr(values, name)):
            if not key or key.startswith("-") or re.search(r"[\x00-\x1f=,]", key):
                raise clash(
                    f"values_override.{name}[{index}][0]",
                    "must be the path of a value, such as image.tag, without `,` and `=`",
                )


def _check_file_names(raw: RawValues) -> None:
    seen: set[str] = set()
    for index, file in enumerate(raw.values):
        if file.name in seen:
            raise clash(
                f"values_override.file.raw.values[{index}].name", f"there is already a file {file.name}"
            )
        seen.add(file.name)


def check_arguments(arguments: list[str]) -> None:
    for index, argument in enumerate(arguments):
        option = argument.partition("=")[0]
        if option not in _ALLOWED_OPTIONS:
            raise clash(
                f"arguments[{index}]",
                f"leave out {option}: Windlass sets it, or it would affect more than the release. These are "
                f"allowed: {', '.join(_ALLOWED_OPTIONS)}",
            )


def check_ports(ports: list[ChartPort]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        port.service_selectors = port.service_selectors or absent
        if bool(port.service_name) == bool(port.service_selectors):
            raise clash(
                f"ports[{index}].service_name",
                "set this or service_selectors, and not both: the Service of the chart that has the port",
            )
        name = port.name or f"p{port.internal_port}"
        if name in seen:
            raise clash(f"ports[{index}].name", f"there is already a port {name}: give it another name")
        seen.add(name)
    if sum(bool(port.is_default) for port in ports) > 1:
        raise clash("ports", "make one port the default, not several")


ReleaseSettings = Annotated[ValuesOverride, stays()]
