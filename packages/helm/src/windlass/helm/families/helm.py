"""A Helm service: a release of a chart in the namespace of its environment."""

from typing import Annotated, Final

from msgspec import Meta, field

from windlass.core.declare.actions import get
from windlass.core.declare.exported import (
    ALL_VARIABLES,
    DOMAINS,
    REPOSITORY,
    RESTRICTIONS,
    SETTINGS,
    Attribute,
    ExportedResource,
    same,
)
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Description,
    Icon,
    Id,
    Maybe,
    Name,
    absent,
    alternatives,
    example,
    in_section,
    shown_in_examples,
)
from windlass.core.declare.resource import Family, Spec
from windlass.core.declare.shapes import can_be_cloned
from windlass.core.declare.traits import (
    deployable,
    has_commits,
    has_deployments,
    has_domains,
    has_links,
    has_logs,
    has_variables,
)
from windlass.core.settings.operations import has_advanced_settings
from windlass.families.environment import environment
from windlass.helm.families.helm_defaults import OF_CHARTS
from windlass.helm.families.shapes import (
    Argument,
    ChartPort,
    ChartSource,
    ChosenHelm,
    ForcedDifference,
    HelmDeployRequest,
    HelmEvent,
    HelmPlan,
    HelmPlanQuery,
    HelmPod,
    HelmShown,
    KubernetesService,
    ValuesOverride,
    check_arguments,
    check_ports,
    check_source,
    check_values,
)


class Helm(Spec):
    name: Annotated[Name, example("redis")]
    description: Annotated[Description, example("The cache of the shop")] = ""
    timeout_sec: Annotated[
        int,
        Meta(
            ge=0,
            le=86_400,
            description="Time limit of a run with its hooks, in seconds; 0: the server's setting run_seconds",
        ),
    ] = 600
    auto_preview: Annotated[
        bool | None,
        Meta(description="Whether previews of the environment include it, in a namespace of their own"),
    ] = None
    auto_deploy: Annotated[
        bool,
        Meta(
            description="Whether new commits of the chart's branch are deployed by themselves. To turn it on "
            "needs Deploy"
        ),
    ] = False
    source: Annotated[
        ChartSource,
        shown_in_examples(),
        alternatives({"A chart repository": ["helm_repository"], "A git repository": ["git_repository"]}),
    ]
    ports: Annotated[
        list[ChartPort], Meta(max_length=100, description="Ports of Services of the chart that get addresses")
    ] = []
    arguments: Annotated[
        list[Argument],
        Meta(max_length=50, description="Options of helm upgrade, each as one word, such as --name=value"),
        example(["--wait"]),
    ] = []
    allow_cluster_wide_resources: Annotated[
        bool,
        Meta(
            description="Whether the chart may change objects outside of its namespace. To turn it on, or "
            "to change the chart, its values or arguments while it is on, needs Admin"
        ),
        in_section("chart"),
    ] = False
    values_override: Annotated[ValuesOverride, shown_in_examples(), in_section("chart")] = field(
        default_factory=ValuesOverride
    )
    icon_uri: Icon = "app://windlass/helm"
    blueprint_id: Annotated[Maybe[Id], WITHOUT_EFFECT] = absent


def normalise(spec: Helm) -> None:
    check_source(spec.source)
    check_values(spec.values_override)
    check_arguments(spec.arguments)
    check_ports(spec.ports)
    spec.auto_preview = bool(spec.auto_preview)


DIFFERENCE: Final = "DIFF"
"""The event of a deployment that only plans."""
_PLAN_DESCRIPTION: Final = (
    "The changes of each object by the last 20 runs, newest first. A deploy with `forceEvent=DIFF` "
    "makes a plan and changes nothing. Values of Secrets are not shown."
)
_CHART: Final = (
    Attribute("helm_repository_id", "repository", refers="Helm repository"),
    *same("chart_name chart_version"),
)
_VALUES_IN_GIT: Final = Attribute(
    "git_repository",
    "git",
    (
        Attribute("url", "git_repository.url"),
        Attribute("branch", "git_repository.branch"),
        Attribute("paths"),
        Attribute("git_token_id", "git_repository.git_token_id", refers="git token"),
    ),
)
_EXPORTED: Final = ExportedResource(
    "qovery_helm",
    (
        *same("name icon_uri timeout_sec auto_preview auto_deploy"),
        Attribute("arguments", is_required=True),
        Attribute("allow_cluster_wide_resources", is_required=True),
        Attribute(
            "source",
            parts=(
                Attribute("git_repository", parts=REPOSITORY),
                Attribute("helm_repository", parts=_CHART),
            ),
        ),
        Attribute("values_override", parts=(Attribute("file", parts=(_VALUES_IN_GIT,)),), is_required=True),
    ),
    lists=ALL_VARIABLES | {DOMAINS, RESTRICTIONS, SETTINGS},
)
helm = Family(
    "helm",
    Helm,
    parent=environment,
    shown=HelmShown,
    group="Helm",
    spoken="Helm service",
    normalise=normalise,
    traits=(
        deployable(
            HelmDeployRequest,
            ChosenHelm,
            runs_once=True,
            query=ForcedDifference,
        ),
        has_deployments,
        can_be_cloned,
        has_commits,
        has_logs,
        has_variables,
        has_links,
        has_domains,
        has_advanced_settings(OF_CHARTS),
    ),
    actions=(
        get(
            "listServices",
            list[KubernetesService],
            "List the Services of the release",
            "As of the last deployment.",
            id="listHelmServices",
            paged=False,
        ),
        get(
            "pods",
            list[HelmPod],
            "List the Pods of the release",
            "As they are in the cluster, at most 500. 503 while the cluster does not answer.",
            id="listHelmPods",
            also=(503,),
            paged=False,
            outside=True,
        ),
        get(
            "clusterEvents",
            list[HelmEvent],
            "List the events of the cluster about the release",
            "The newest 200 about its Pods and their controllers, as long as the cluster keeps them, "
            "usually for an hour. 503 while the cluster does not answer.",
            id="listHelmClusterEvents",
            also=(503,),
            paged=False,
            outside=True,
        ),
        get(
            "plan",
            list[HelmPlan],
            "List the plans",
            _PLAN_DESCRIPTION,
            id="listHelmPlans",
            query=HelmPlanQuery,
            paged=False,
        ),
    ),
    about="Its environment has to be on a Kubernetes cluster.",
    exported=_EXPORTED,
)
