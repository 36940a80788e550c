"""A request that has started deployments of one or several services of an environment."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.fields import Id, example, refers
from windlass.core.declare.registry import StandaloneOperation
from windlass.core.declare.resource import Shown, Spec
from windlass.core.declare.traits import CancelRequest


class DeploymentRequestQuery(Spec):
    """Selects a deployment request."""

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


_STATUS_DESCRIPTION: Final = (
    "Covers all services that the request has deployed, stopped or removed. Requests for deleted services "
    "are not stored."
)

status = StandaloneOperation(
    path="/environment/deploymentStatus",
    group="Deployments",
    action=get(
        "getDeploymentRequestStatus",
        DeploymentRequestStatus,
        "Read the state of what one request has started",
        _STATUS_DESCRIPTION,
        query=DeploymentRequestQuery,
    ),
)

_CANCEL_DESCRIPTION: Final = (
    "Ends those of its deployments that wait, and asks those under way to stop: all that are left of the "
    "request, and no other. The present releases keep serving. The id is the `deployment_request_id` of an "
    "answer or of a queue, or the id of one of its deployments. May be repeated while it is under way. 409 "
    "if the request has ended, or deletes something."
)

cancellation = StandaloneOperation(
    path="/deploymentQueue/{deployment_id}/cancelDeployment",
    group="Deployments",
    action=post(
        "cancelDeploymentRequest",
        None,
        "Cancel what one request has started",
        _CANCEL_DESCRIPTION,
        ids={"deployment_id": "deployment"},
        body=CancelRequest,
        need=Scope.DEPLOY,
        status=202,
        also=(409,),
    ),
)
