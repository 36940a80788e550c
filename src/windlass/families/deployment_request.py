"""A request that has started deployments: of one service, or of many of an environment."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, example, refers
from windlass.core.declare.registry import StandaloneOperation
from windlass.core.declare.resource import Shown, Spec


class DeploymentRequestQuery(Spec):
    """Names a request."""

    deploymentRequestId: Annotated[
        Id,
        refers("deployment"),
        Meta(description="The `deployment_request_id` of an answer, or the id of one of its deployments"),
    ]


class DeploymentRequestStatus(Shown):
    """The combined state of the deployments of one request."""

    deployment_request_id: Id
    environment_id: Id
    status: Annotated[
        str, Meta(description="Combined state of its deployments, such as DEPLOYED"), example("DEPLOYED")
    ]


_STATUS: Final = (
    "Of all services that the request has deployed, stopped or removed. Requests for services that were "
    "deleted are not kept."
)

status = StandaloneOperation(
    path="/environment/deploymentStatus",
    group="Deployments",
    action=get(
        "getDeploymentRequestStatus",
        DeploymentRequestStatus,
        "Read the state of what one request has started",
        _STATUS,
        query=DeploymentRequestQuery,
    ),
)
