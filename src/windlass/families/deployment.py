"""A deployment: one attempt to bring a service to where somebody wants it. Made by acting on the service."""

from windlass.core.access import Scope
from windlass.core.resource import Action, Family, Spec, Verb
from windlass.core.traits import CancelRequest, LogLine, Onward, Tail, has_deployments
from windlass.core.traits import Deployment as Shown


class Deployment(Spec):
    """Nothing of it is sent: see the actions of services."""


deployment = Family(
    "deployment",
    Deployment,
    parent=has_deployments,
    nested=True,
    shown=Shown,
    title="Deployment",
    group="Deployments",
    param="deployment_id",
    verbs=frozenset({Verb.LIST, Verb.READ}),
    names=None,
    actions=(
        Action(
            name="log",
            method="GET",
            suffix="/log",
            need=Scope.READ,
            summary="Read the build log",
            query=Tail,
            answer=LogLine,
            listing=True,
            paged=False,
            description="What was done, line by line, oldest first; `follow=true` goes on while it is built.",
        ),
        Action(
            name="follow",
            method="GET",
            suffix="/stream",
            need=Scope.READ,
            summary="Follow to its end",
            query=Onward,
            answer=Shown,
            streams=True,
            description=(
                "A stream of server-sent events: the deployment as it is now, and again whenever it has "
                "changed. `end` comes after the last, in which it has ended. Also with a `Last-Event-ID` it "
                "begins with the deployment as it is now."
            ),
        ),
        Action(
            name="cancel",
            method="POST",
            suffix="/cancel",
            need=Scope.DEPLOY,
            summary="Cancel",
            body=CancelRequest,
            answer=Shown,
            status=202,
            description="409 if it has ended.",
        ),
    ),
)
