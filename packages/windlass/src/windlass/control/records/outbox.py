"""The outbox of webhooks: deliveries, stored in the transaction of the change that they report.

One change may report events of all services of an environment to all webhooks, while everybody waits. So it
reads the webhooks once, and schedules their work once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec
from msgspec.structs import replace

from windlass.base.clock import stamp
from windlass.control.context.call import encode
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.progress import Particulars
from windlass.core.words.events import SUBSCRIBABLE_EVENTS, Event
from windlass.core.words.webhook_payload import NamedId, NamedRun, Subscription, WebhookPayload, concerns
from windlass.families.environment import Environment
from windlass.families.webhook import webhook
from windlass.store import DeliveryRow, DeploymentRow, Row, Tx

DELIVERY_WORK = "deliver"
"""The kind of work that sends the deliveries of one webhook."""

_decode_payload = msgspec.json.Decoder(WebhookPayload).decode


def work_of(webhook: str) -> str:
    return f"{DELIVERY_WORK}:{webhook}"


def payload_of(delivery: DeliveryRow) -> WebhookPayload:
    return _decode_payload(delivery.body)


async def write_deliveries(
    tx: Tx,
    kind: Event,
    service: Row,
    deployment: DeploymentRow,
    details: Particulars,
    message: str,
    run: NamedRun | None = None,
) -> None:
    """Stores a delivery for each webhook that subscribes to this event of a deployment or run."""
    if kind not in SUBSCRIBABLE_EVENTS:
        return
    receivers = await _receivers(tx, service.org)
    if not receivers:
        return
    news = replace(await _make_payload(tx, kind, service, deployment, details, message), run=run)
    asked = [receiver.row for receiver in receivers if concerns(receiver.subscription, news)]
    await add_deliveries(tx, asked, service.id, news, details.trace)


class _SubscribedWebhook(NamedTuple):
    row: Row
    subscription: Subscription


async def _receivers(tx: Tx, org: str) -> Sequence[_SubscribedWebhook]:
    """Returns the webhooks of an organization. A change reads them again only if it changes one itself."""
    versions = await tx.tree.versions(org, (webhook.name,))
    key, memory = ("webhooks", *versions.items()), tx.session.memory
    if key not in memory:
        rows = await tx.resources.of_org(org, webhook.name) if versions else ()
        memory[key] = [_SubscribedWebhook(row, row.read(Subscription)) for row in rows]
    return cast(Sequence[_SubscribedWebhook], memory[key])


async def add_deliveries(
    tx: Tx, receivers: Sequence[Row], lane: str, event: WebhookPayload, trace: str = ""
) -> list[str]:
    if not receivers:
        return []
    body = encode(event)
    deliveries = await tx.deliveries.add([(row.id, lane, event.kind, body) for row in receivers], trace)
    memory = tx.session.memory
    fresh = [row for row in receivers if ("scheduled deliveries", row.id) not in memory]
    memory |= dict.fromkeys(("scheduled deliveries", row.id) for row in fresh)
    await tx.work.schedule_all(DELIVERY_WORK, [(work_of(row.id), row.org) for row in fresh])
    return deliveries


async def _make_payload(
    tx: Tx, kind: Event, service: Row, deployment: DeploymentRow, details: Particulars, message: str
) -> WebhookPayload:
    environment, project, organization = (await tx.tree.above(service.id))[1:4]
    return WebhookPayload(
        kind=kind,
        at=stamp(tx.now),
        family=service.family,
        service=named_id(service),
        environment=named_id(environment),
        mode=environment.read(Environment).mode,
        project=named_id(project),
        organization=named_id(organization),
        deployment=deployment.id,
        number=deployment.number,
        action=deployment.action,
        status=deployment.status,
        commit=details.commit_id,
        commit_message=details.commit.message if details.commit else "",
        message=message or details.message,
        by=details.actor.name,
        began=stamp(details.began) if details.began else None,
        ended=stamp(details.ended) if details.ended else None,
    )


def named_id(row: Row) -> NamedId:
    return NamedId(row.id, row.read(NamedDocument).name)
