"""A session: a short-lived JWT of the built-in issuer, for the console."""

from typing import Annotated

from windlass.core.access import Scope
from windlass.core.fields import Timestamp, shown_once
from windlass.core.registry import Endpoint
from windlass.core.resource import Action, Shown


class Session(Shown):
    token: Annotated[str, shown_once()]
    token_type: str = "Bearer"  # noqa: S105
    expires_at: Timestamp


session = Endpoint(
    path="/account/session",
    group="Account",
    action=Action(
        name="createSession",
        method="POST",
        suffix="",
        need=Scope.READ,
        summary="Exchange an API token for a short-lived JWT",
        answer=Session,
        status=201,
        description="The JWT may do what the token may, and ends with it.",
    ),
)
