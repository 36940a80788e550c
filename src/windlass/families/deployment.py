"""A deployment: one attempt to change the state of a service. Created by the actions of services."""

from typing import Final

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.resource import Family, Spec, Verb
from windlass.core.declare.traits import CancelRequest, LogLine, Onward, Tail, has_deployments
from windlass.core.declare.traits import Deployment as Shown


class DeploymentSpec(Spec):
    """Has no fields to send: see the actions of services."""


_BUILD_LOG: Final = "What was done, line by line, oldest first; `follow=true` goes on while it is built."
_FOLLOW: Final = (
    "A stream of server-sent events: the deployment as it is now, and again whenever it has "
    "changed. `end` comes after the last, in which it has ended. Also with a `Last-Event-ID` it "
    "begins with the deployment as it is now."
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
        get("follow", Shown, "Follow to its end", _FOLLOW, suffix="/stream", query=Onward, streams=True),
        post("cancel", Shown, "Cancel", "409 if it has ended.", need=Scope.DEPLOY, body=CancelRequest),
    ),
)
