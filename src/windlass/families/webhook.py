"""A webhook: who is told of deployments, and of which."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.events import SUBSCRIBABLE, plain
from windlass.core.fields import Description, Line, Url, hidden
from windlass.core.resource import Family, Shown, Spec
from windlass.families.organization import organization

EventWord = Literal[*SUBSCRIBABLE]  # type: ignore[valid-type]


class Webhook(Spec):
    target_url: Url
    events: Annotated[list[EventWord], Meta(min_length=1, max_length=100)]
    enabled: bool = True
    kind: Literal["STANDARD", "SLACK"] = "STANDARD"
    description: Description = ""
    target_secret: Annotated[Line, hidden("target_secret_set")] = ""
    project_names_filter: list[Line] = []
    environment_types_filter: list[Literal["DEVELOPMENT", "PREVIEW", "PRODUCTION", "STAGING"]] = []


class WebhookShown(Shown):
    events: list[str]


def settle(spec: Webhook) -> None:
    """Both vocabularies are accepted, one is kept, each reader sees its own."""
    spec.events = list(dict.fromkeys(plain(word) for word in spec.events))


webhook = Family(
    "webhook",
    Webhook,
    parent=organization,
    shown=WebhookShown,
    title="OrganizationWebhook",
    group="Webhooks",
    param="webhook_id",
    nested=True,
    names=None,
    settle=settle,
    event_words="events",
)
