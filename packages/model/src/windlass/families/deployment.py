"""A deployment: one attempt to change the state of a service. Created by the actions of services."""

from typing import Final

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.queries import Tail
from windlass.core.declare.resource import Family, Spec, Verb
from windlass.core.declare.traits import CancelRequest, LogLine, StreamOptions, has_deployments
from windlass.core.declare.traits import Deployment as Shown


class DeploymentSpec(Spec):
    """A deployment: one attempt to change the state of a service. Actions of services create it."""


_BUILD_LOG: Final = (
    "The lines of the build log, oldest first; `follow=true` continues with new lines during the build."
)
_FOLLOW_DESCRIPTION: Final = (
    "A stream of server-sent events: the present state of the deployment, and each change. `end` follows "
    "the last change. With a `Last-Event-ID` it begins with the present state, too."
)

deployment = Family(
    "deployment",
    DeploymentSpec,
    parent=has_deployments,
    nested=True,
    shown=Shown,
    verbs=frozenset({Verb.LIST, Verb.READ}),
    names=None,
    actions=(
        get("log", list[LogLine], "Read the build log", _BUILD_LOG, query=Tail, paged=False),
        get(
            "follow",
            Shown,
            "Follow until it ends",
            _FOLLOW_DESCRIPTION,
            suffix="/stream",
            query=StreamOptions,
            streams=True,
        ),
        post(
            "cancel",
            Shown,
            "Cancel a deployment that waits or is under way",
            "409 if it has ended.",
            need=Scope.DEPLOY,
            body=CancelRequest,
        ),
    ),
)
