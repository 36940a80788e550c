"""The state of the addresses of a service, as existing clients read it."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown
from windlass.core.declare.traits import has_links


class IngressDeploymentStatus(Shown):
    """The state of the addresses of a service."""

    routerId: Annotated[Id, Meta(description="The id of the service: its addresses are routed together")]
    status: Annotated[
        str,
        Meta(description="DEPLOYED while a release answers there; else the reason, such as STOPPED"),
        example("DEPLOYED"),
    ]


_STATES_DESCRIPTION: Final = (
    "READY if it has no addresses. DEPLOYED while a release answers at them, also during a newer "
    "deployment. UNAVAILABLE if none of its instances is ready, or its engine is away. Otherwise the state "
    "of the service."
)

of_services = Actions(
    has_links,
    "Deployments",
    (
        get(
            "ingressDeploymentStatus",
            IngressDeploymentStatus,
            "Read whether its addresses lead to it",
            _STATES_DESCRIPTION,
        ),
    ),
)
