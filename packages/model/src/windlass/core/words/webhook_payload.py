"""Formats the body of a webhook delivery. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from windlass.core.words.events import full
from windlass.core.words.naming import enum_value


class NamedId(Struct, frozen=True):
    id: str
    name: str


class NamedRun(Struct, frozen=True):
    """A run of a job."""

    id: str
    number: int


class WebhookPayload(Struct, frozen=True, kw_only=True):
    """An event of a deployment, with its service, environment, project and organization at that time."""

    kind: str
    """The event, in the contract's vocabulary."""
    at: str
    family: str
    service: NamedId
    environment: NamedId
    mode: str
    project: NamedId
    organization: NamedId
    deployment: str
    number: int
    action: str
    status: str
    commit: str | None = None
    commit_message: str = ""
    message: str = ""
    by: str = ""
    began: str | None = None
    ended: str | None = None
    test: bool = False
    run: NamedRun | None = None
    """The run that the event is about; None if it is about the deployment."""

    @property
    def path(self) -> str:
        if self.run:
            return f"/{self.family}/{self.service.id}/run/{self.run.id}"
        return f"/{self.family}/{self.service.id}/deployment/{self.deployment}"


class Subscription(Struct):
    """The fields of a webhook that select events and set the format."""

    target_url: str
    events: list[str]
    enabled: bool
    kind: str
    project_names_filter: list[str]
    environment_types_filter: list[str]
    vocabulary: str
    send_secret: bool = False


def concerns(webhook: Subscription, event: WebhookPayload) -> bool:
    """Returns whether a webhook subscribes to this event."""
    names, modes = webhook.project_names_filter, webhook.environment_types_filter
    return (
        webhook.enabled
        and event.kind in webhook.events
        and (not names or any(matches_pattern(name, event.project.name) for name in names))
        and (not modes or event.mode in modes)
    )


def matches_pattern(pattern: str, name: str) -> bool:
    """Returns whether a name matches a pattern with `*`. Uses the first occurrence of each part, without the
    backtracking of a regular expression."""
    begin, *others = pattern.casefold().split("*")
    name = name.casefold()
    if not others:
        return name == begin
    if not name.startswith(begin):
        return False
    *middle, end = others
    at = len(begin)
    for part in middle:
        place = name.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return name.endswith(end) and len(name) - at >= len(end)


def render(webhook: Subscription, event: WebhookPayload, base: str) -> dict[str, Any]:
    """Returns the body of a delivery. `base`: the address of this server."""
    link = base.rstrip("/") + event.path
    return _render_slack(event, link) if webhook.kind == "SLACK" else _render_standard(webhook, event, link)


def _render_standard(webhook: Subscription, event: WebhookPayload, link: str) -> dict[str, Any]:
    word = full(event.kind) if webhook.vocabulary == "FULL" else event.kind
    payload: dict[str, Any] = {
        f"{event.family}_id": event.service.id,
        "application_id": event.service.id,  # the contract requires it in every payload
        "service_id": event.service.id,
        "service_kind": enum_value(event.family),
        "service_name": event.service.name,
        "environment_id": event.environment.id,
        "environment_name": event.environment.name,
        "environment_mode": event.mode,
        "project_id": event.project.id,
        "project_name": event.project.name,
        "organization_id": event.organization.id,
        "organization_name": event.organization.name,
        "deployment_id": event.deployment,
        "deployment_number": event.number,
        "deployment_url": link,
        "action": event.action,
        "status": event.status,
        "git_commit_id": event.commit,
        "message": event.message,
        "triggered_by": event.by,
        "created_at": event.at,
        "started_at": event.began,
        "finished_at": event.ended,
    }
    if event.run:
        payload |= {"run_id": event.run.id, "run_number": event.run.number}
    return {"event_type": word, "payload": payload | ({"test": True} if event.test else {})}


# Slack

_SLACK_PHRASES: Final[Mapping[str, tuple[str, str]]] = {
    "DEPLOYMENT_STARTED": (":rocket:", "is being deployed"),
    "DEPLOYMENT_SUCCEEDED": (":white_check_mark:", "is deployed"),
    "DEPLOYMENT_FAILED": (":x:", "could not be deployed"),
    "DEPLOYMENT_CANCELLED": (":no_entry_sign:", "is not deployed: it was cancelled"),
}
_FAILED_RUN_WORDS: Final = (":x:", "failed in a run of its timetable")
_MAX_MESSAGE_LENGTH = 2500
"""Maximum length of a message in characters. A Slack block is limited to 3,000."""


def _render_slack(event: WebhookPayload, link: str) -> dict[str, Any]:
    sign, says = _FAILED_RUN_WORDS if event.run else _SLACK_PHRASES[event.kind]
    where = f"{event.project.name} / {event.environment.name}"
    title = f"{sign} *{_escape(event.service.name)}* {says}" + (
        " (a test of this webhook)" if event.test else ""
    )
    facts = [
        f"*Where:* {_escape(where)}",
        *(
            [f"*Commit:* `{event.commit[:12]}` {_escape(_first_line(event.commit_message))}"]
            if event.commit
            else []
        ),
        *([f"*By:* {_escape(event.by)}"] if event.by else []),
    ]
    blocks = [_slack_section(title), _slack_section("\n".join(facts))]
    if event.message:
        blocks.append(_slack_section(f"```{_escape(_shorten_middle(event.message)).replace('```', '')}```"))
    name = f"Run {event.run.number}" if event.run else f"Deployment {event.number}"
    blocks.append(_slack_section(f"<{link}|{name}>"))
    text = f"{event.service.name} {says} ({where})" + (
        f": {_first_line(event.message)}" if event.message else ""
    )
    return {"text": _escape(_shorten_middle(text)), "blocks": blocks}


def _slack_section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escape(text: str) -> str:
    """Escapes characters that Slack would interpret as a link, mention or entity."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def _shorten_middle(text: str) -> str:
    """Shortens a text in the middle, because the cause is at the beginning and the last output at the end."""
    if len(text) <= _MAX_MESSAGE_LENGTH:
        return text
    half = _MAX_MESSAGE_LENGTH // 2
    return f"{text[:half]}\n…\n{text[-half:]}"
