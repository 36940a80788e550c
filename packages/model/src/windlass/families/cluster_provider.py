"""The cloud provider of a cluster: which one it is, and whose credentials belong to it."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.fields import WITHOUT_EFFECT, Id, Line, Maybe, absent, example, ignored
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec
from windlass.families.cluster import ClusterStatus, Vendor, cluster


class NamedCredentials(Spec):
    id: Annotated[
        Maybe[Id],
        Meta(description="Id of the credentials; null for none"),
        example("41b3d8a0-7d3a-4b2b-9a6e-7a0e2a6d3f11"),
    ] = absent
    name: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent


class ClusterCloudProviderInfoRequest(Spec):
    cloud_provider: Annotated[Maybe[Vendor], Meta(description="Provider of the machines"), example("AWS")] = (
        absent
    )
    credentials: Annotated[
        Maybe[NamedCredentials], Meta(description="Cloud credentials of the organization")
    ] = absent
    region: Annotated[Maybe[Line], Meta(description="Region of the provider"), example("eu-west-3")] = absent


class CredentialsName(Shown):
    """The credentials of a cluster."""

    id: Annotated[Maybe[Id], example("41b3d8a0-7d3a-4b2b-9a6e-7a0e2a6d3f11")] = absent
    name: Annotated[str, example("account of the shop")] = ""


class ClusterCloudProviderInfo(Shown):
    """The cloud provider of a cluster."""

    cloud_provider: Vendor
    credentials: CredentialsName
    region: Annotated[str, example("eu-west-3")]


class ClusterRoute(Shown):
    """A route of the network of a cluster."""

    destination: Annotated[str, example("10.0.1.0/24")]
    target: Annotated[str, example("10.0.0.1")]
    description: Annotated[str, example("To the office")]


class ClusterDeployQuery(Spec):
    """Options of a check."""

    dry_run: Annotated[bool, ignored("Windlass changes no machines")] = False


_PROVIDER_DESCRIPTION: Final = (
    "Windlass keeps it for programs that read it, and makes no machines: where services run is decided by "
    "`engine` of the cluster."
)
_DEPLOY_DESCRIPTION: Final = (
    "Checks whether the engine of the cluster answers. 409 with the reason if it does not, or if the cluster "
    "has none. Windlass makes no machines, so there is nothing to deploy."
)

of_clusters = Actions(
    cluster,
    "Clusters",
    (
        get("cloudProviderInfo", ClusterCloudProviderInfo, "Read the cloud provider of a cluster"),
        post(
            "setCloudProviderInfo",
            ClusterCloudProviderInfo,
            "Change the cloud provider of a cluster",
            _PROVIDER_DESCRIPTION,
            id="editClusterCloudProviderInfo",
            suffix="/cloudProviderInfo",
            body=ClusterCloudProviderInfoRequest,
            need=Scope.ADMIN,
            status=201,
        ),
        get(
            "routingTable",
            list[ClusterRoute],
            "Read the routes of a cluster's network: always empty",
            "Windlass makes no networks between machines, and so has no routes.",
            paged=False,
        ),
        post(
            "checkEngine",
            ClusterStatus,
            "Check the engine",
            _DEPLOY_DESCRIPTION,
            id="deployCluster",
            suffix="/deploy",
            query=ClusterDeployQuery,
            need=Scope.ADMIN,
            status=201,
            only_reads=True,
            outside=True,
            also=(409,),
        ),
    ),
)
