"""A session: a short-lived JWT of the built-in issuer, for the console."""

from typing import Annotated

from windlass.core.access import Scope
from windlass.core.declare.actions import post
from windlass.core.declare.fields import Timestamp, example, shown_once
from windlass.core.declare.registry import StandaloneOperation
from windlass.core.declare.resource import Shown


class Session(Shown):
    token: Annotated[str, shown_once(), example("eyJhbGciOiJFZERTQSJ9.EXAMPLE.signature")]
    token_type: str = "Bearer"  # noqa: S105
    expires_at: Annotated[Timestamp, example("2026-01-31T10:05:00.007Z")]


session = StandaloneOperation(
    path="/account/session",
    group="Account",
    action=post(
        "createSession",
        Session,
        "Exchange an API token for a short-lived JWT",
        "The JWT has the permissions of the token, and ends with it.",
        need=Scope.READ,
        status=201,
    ),
)
