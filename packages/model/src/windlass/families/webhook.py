"""A webhook: a receiver of deployment events, and its subscription."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from windlass.core.declare.actions import get, post
from windlass.core.declare.fields import (
    Description,
    Id,
    Line,
    Maybe,
    Password,
    Timestamp,
    absent,
    example,
    hidden,
    redacted,
    shown_once,
)
from windlass.core.declare.fields import Url as Address
from windlass.core.declare.queries import Moment
from windlass.core.declare.resource import Family, Shown, Spec, clash
from windlass.core.words.events import SUBSCRIBABLE_EVENTS, full, is_full, plain
from windlass.families.organization import organization

EventWord = Literal[*SUBSCRIBABLE_EVENTS]  # type: ignore[valid-type]
Pattern = Annotated[
    Line, Meta(description="Name of a project, compared without regard to case; * stands for any letters")
]


class Webhook(Spec):
    target_url: Annotated[Address, redacted(), Meta(description="Address that events are sent to")]
    events: Annotated[
        list[EventWord],
        Meta(min_length=1, max_length=100, description="Events that are sent"),
        example(["DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED"]),
    ]
    enabled: Annotated[bool, Meta(description="False: nothing is sent")] = True
    kind: Annotated[
        Literal["STANDARD", "SLACK"], Meta(description="SLACK: a message for Slack, unsigned")
    ] = "STANDARD"
    description: Annotated[Description, example("Tells the team channel")] = ""
    target_secret: Annotated[
        Password,
        Meta(description="Key of the signatures: any text, or whsec_ with the key in Base64"),
        hidden("target_secret_set", sent_to=("target_url", "send_secret")),
    ] = ""
    project_names_filter: list[Pattern] = []
    environment_types_filter: Annotated[
        list[Literal["DEVELOPMENT", "PREVIEW", "PRODUCTION", "STAGING"]],
        Meta(description="Only events of environments with this mode; without it, of all"),
    ] = []
    vocabulary: Annotated[
        Maybe[Literal["PLAIN", "FULL"]],
        Meta(
            description="Vocabulary of `event_type`: DEPLOYMENT_SUCCEEDED and _FAILED, or "
            "DEPLOYMENT_SUCCESSFUL and _FAILURE. Left out: as the events were named here."
        ),
    ] = absent
    send_secret: Annotated[
        bool,
        Meta(description="Also send the secret itself, in the header Qovery-Signature, for older receivers"),
    ] = False


class WebhookShown(Shown):
    events: Annotated[list[str], example(["DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED"])]
    vocabulary: Annotated[str, example("PLAIN")]
    failing_since: Annotated[
        Timestamp | None, Meta(description="Time since which all deliveries have failed, if they fail")
    ] = None
    disabled_reason: Annotated[str, Meta(description="Reason if Windlass disabled it; otherwise empty")] = ""


class Attempt(Shown):
    """An attempt to deliver an event."""

    at: Timestamp
    target_url: str
    status_code: Annotated[int, Meta(description="Status code of the answer; 0 without an answer")]
    body: Annotated[str, Meta(description="The beginning of the answer")] = ""
    error: Annotated[str, Meta(description="Reason if there was no answer")] = ""
    duration_in_ms: int = 0


class Delivery(Shown):
    """The delivery of an event to a receiver. The receiver gets `id` as `webhook-id`."""

    id: Id
    created_at: Timestamp
    kind: Annotated[str, example("STANDARD")]
    matched_event: Annotated[str, example("DEPLOYMENT_SUCCEEDED")]
    status: Annotated[str, Meta(description="WAITING, DELIVERED, or FAILED: given up"), example("DELIVERED")]
    target_url_used: Annotated[str, example("https://example.com/hooks/deployments")]
    request: Annotated[dict[str, Any], Meta(description="The body")]
    target_response_status_code: int = 0
    target_response_body: str = ""
    next_attempt_at: Timestamp | None = None
    attempts: Annotated[list[Attempt], Meta(description="The latest attempts, oldest first")] = []


class Replay(Spec):
    event_id: Maybe[Annotated[Id, Meta(description="Only this delivery, in any state")]] = absent
    since: Annotated[Moment, Meta(description="All deliveries since this time")] = ""
    only_failed: Annotated[bool, Meta(description="Without `event_id`: only failed deliveries")] = True


class Replayed(Shown):
    replayed: int


class Rotation(Spec):
    target_secret: Annotated[
        Password,
        Meta(
            description="The new secret; if left out, Windlass generates one and shows it in this answer only"
        ),
    ] = ""
    overlap_in_hours: Annotated[
        int,
        Meta(ge=0, le=720, description="Hours for which deliveries are also signed with the previous secret"),
    ] = 24


class Rotated(Shown):
    target_secret: Annotated[str, Meta(description="Only if Windlass generated it"), shown_once()] = ""
    previous_valid_until: Timestamp | None = None


def normalise(spec: Webhook) -> None:
    """Accepts events in both vocabularies, and stores the contract's words. Responses use the reader's
    vocabulary."""
    spec.vocabulary = spec.vocabulary or ("FULL" if any(map(is_full, spec.events)) else "PLAIN")
    spec.events = list(dict.fromkeys(plain(word) for word in spec.events))
    if spec.send_secret:
        check_sendable(spec.target_secret)


def check_sendable(secret: str) -> None:
    if not (secret.isascii() and secret.isprintable()):
        raise clash("target_secret", "must be printable ASCII, because send_secret puts it into a header")


_TEST_DESCRIPTION: Final = (
    "Delivers the first event that the webhook subscribes to, with `test: true` in the payload. The list "
    "of deliveries shows the outcome. 409 while the webhook is disabled."
)
_REPLAY_DESCRIPTION: Final = (
    "Delivers one event, or all since a time, again, each with its former `webhook-id`. An empty object "
    "selects all that failed."
)
_ROTATE_DESCRIPTION: Final = (
    "Until the overlap ends, every delivery carries a signature with each of the two secrets."
)

webhook = Family(
    "webhook",
    Webhook,
    parent=organization,
    shown=WebhookShown,
    title="OrganizationWebhook",
    group="Webhooks",
    nested=True,
    names=None,
    normalise=normalise,
    in_full=lambda document: {**document, "events": [full(word) for word in document["events"]]},
    about=(
        "With a `target_secret`, deliveries are signed as https://www.standardwebhooks.com specifies. "
        "Deliveries wait while a receiver is unavailable, and arrive in order when it is back."
    ),
    actions=(
        get("event", list[Delivery], "List deliveries", "Newest first.", id="listWebhookEvent"),
        post("test", Delivery, "Deliver an example", _TEST_DESCRIPTION, status=202, also=(409,)),
        post(
            "replay",
            Replayed,
            "Deliver past events again",
            _REPLAY_DESCRIPTION,
            body=Replay,
            status=202,
            also=(404, 409),
        ),
        post(
            "rotateSecret",
            Rotated,
            "Change the secret without interruption",
            _ROTATE_DESCRIPTION,
            body=Rotation,
        ),
    ),
)
