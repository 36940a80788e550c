"""The lock of a cluster: while it holds, no service of the cluster is deployed or restarted."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import delete, get, post
from windlass.core.declare.fields import Maybe, absent, example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Spec
from windlass.families.cluster import ClusterLock, cluster
from windlass.families.organization import organization

MAX_LOCK_DAYS: Final = 365


class ClusterLockRequest(Spec):
    reason: Annotated[
        str,
        Meta(min_length=1, max_length=256, description="Shown to everyone whose deployment is refused"),
        example("The disk is being replaced"),
    ]
    ttl_in_days: Maybe[
        Annotated[
            int,
            Meta(ge=1, le=MAX_LOCK_DAYS, description="Days until the lock ends by itself. Left out: never"),
            example(1),
        ]
    ] = absent


_DESCRIPTION: Final = (
    "Until the lock ends, deployments and restarts of services of the cluster are refused with 409 and the "
    "reason. New commits are deployed after it; pushed images are not deployed. Running services keep "
    "running. Stopping and deleting are allowed, as are scheduled jobs. A second lock replaces the first."
)

of_clusters = Actions(
    cluster,
    "Clusters",
    (
        post(
            "lock",
            ClusterLock,
            "Lock a cluster",
            _DESCRIPTION,
            id="lockCluster",
            body=ClusterLockRequest,
            need=Scope.ADMIN,
            unnested=True,
        ),
        delete("unlock", "Remove the lock of a cluster", id="unlockCluster", suffix="/lock", unnested=True),
    ),
)
of_organizations = Actions(
    organization,
    "Clusters",
    (
        get(
            "listClusterLocks",
            list[ClusterLock],
            "List the locks of all clusters",
            id="listClusterLocks",
            suffix="/lock",
            paged=False,
        ),
    ),
)
