"""Webhooks tell of the events that were asked for, signed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.webhooks.receivers import SECRET, Receivers, Sent
from tests.webhooks.told import ALL, HOUR, URL, deploy, kinds, pass_by, path, webhook
from tests.world import World


async def test_webhooks_report_the_start_and_the_end_of_a_deployment(world: World, receivers: Receivers):
    await webhook(world)
    app = await world.application()
    deployment = await deploy(world, app)
    started, succeeded = receivers.got[URL]
    assert [started.kind, succeeded.kind] == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]
    for one in (started, succeeded):
        assert one.payload["application_id"] == app
        assert one.payload["service_kind"] == "APPLICATION"
        assert one.payload["deployment_id"] == deployment
        assert one.payload["organization_id"] == world.org
        assert one.headers["Content-Type"] == "application/json"
    assert succeeded.payload["status"] == "SUCCEEDED"
    assert succeeded.payload["finished_at"] is not None


async def test_the_failed_deployment_event_contains_the_reason(world: World, receivers: Receivers):
    await webhook(world)
    world.builder.broken = "the Dockerfile is wrong in line 3"
    await deploy(world, await world.application())
    assert kinds(receivers.got[URL]) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_FAILED"]
    assert "wrong in line 3" in receivers.got[URL][1].payload["message"]


async def test_webhooks_name_a_database_by_its_own_id_and_by_that_of_the_contract(
    world: World, receivers: Receivers
):
    """The contract has a payload with an `application_id`, whatever was deployed."""
    await webhook(world)
    database = await world.database()
    await world.post(f"/database/{database}/deploy")
    await world.settle()
    payload = receivers.got[URL][0].payload
    assert (payload["database_id"], payload["service_kind"]) == (database, "DATABASE")
    assert payload["application_id"] == payload["service_id"] == database


async def test_a_webhook_receives_only_its_subscribed_events(world: World, receivers: Receivers):
    await webhook(world, events=["DEPLOYMENT_FAILED"])
    await webhook(world, "https://off.example/", enabled=False)
    await deploy(world, await world.application())
    assert not receivers.tried


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"project_names_filter": ["SHOP"]}, True),
        ({"project_names_filter": ["other", "sh*"]}, True),
        ({"project_names_filter": ["*op"]}, True),
        ({"project_names_filter": ["sho"]}, False),
        ({"project_names_filter": ["s.op"]}, False),
        ({"environment_types_filter": ["PRODUCTION"]}, True),
        ({"environment_types_filter": ["STAGING", "PREVIEW"]}, False),
        ({"project_names_filter": ["shop"], "environment_types_filter": ["STAGING"]}, False),
    ],
    ids=str,
)
async def test_webhook_filters_match_project_names_and_environment_modes(
    world: World, receivers: Receivers, filters, told
):
    await webhook(world, **filters)
    project = await world.project(name="Shop")
    environment = await world.environment(project, mode="PRODUCTION")
    await deploy(world, await world.application(environment))
    assert bool(receivers.got[URL]) is told


async def test_a_webhook_subscribed_in_the_full_interfaces_vocabulary_receives_those_event_names(
    world: World, receivers: Receivers
):
    await webhook(world, events=["DEPLOYMENT_SUCCESSFUL", "DEPLOYMENT_FAILURE"])
    await webhook(world, "https://plain.example/", events=["DEPLOYMENT_SUCCEEDED"])
    await deploy(world, await world.application())
    assert kinds(receivers.got[URL]) == ["DEPLOYMENT_SUCCESSFUL"]
    assert kinds(receivers.got["https://plain.example/"]) == ["DEPLOYMENT_SUCCEEDED"]


async def test_webhooks_of_another_organization_receive_nothing(world: World, receivers: Receivers):
    other, token = await world.organization()
    body = {"target_url": URL, "events": ALL, "enabled": True}
    assert (await world.post(f"/organization/{other}/webhook", body, token=token)).status == 201
    await deploy(world, await world.application())
    assert not receivers.tried


async def test_slack_receives_a_message_for_people(world: World, receivers: Receivers):
    await webhook(world, kind="SLACK", target_secret=SECRET)
    world.builder.broken = "no <main> & no module"
    app = await world.application()
    deployment = await deploy(world, app)
    failed = receivers.got[URL][1]
    said = json.dumps(failed.json)
    assert "could not be deployed" in failed.json["text"]
    assert "no &lt;main&gt; &amp; no module" in said
    assert f"/application/{app}/deployment/{deployment}|" in said
    assert not any(name.startswith("webhook-") for name in failed.headers)


# Signatures


async def test_signatures_are_verified_by_the_standard_library_of_receivers(
    world: World, receivers: Receivers
):
    secret = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cw=="
    await webhook(world, target_secret=secret)
    await deploy(world, await world.application())
    sent = receivers.got[URL][0]
    world_time = int(sent.headers["webhook-timestamp"])
    assert world_time == world.clock.ms // 1000
    assert verified(secret, sent)["event_type"] == "DEPLOYMENT_STARTED"
    with pytest.raises(WebhookVerificationError):
        verified("whsec_" + "YW5vdGhlciBzZWNyZXQ=", sent)
    sent.body = sent.body.replace(b"STARTED", b"ENDED")
    with pytest.raises(WebhookVerificationError):
        verified(secret, sent)


def verified(secret: str | bytes, sent: Sent) -> Any:
    """By the package that receivers use; the clock of the test stands at another time than the machine's."""
    judge = Webhook(secret)
    judge._Webhook__verify_timestamp = _timestamp  # type: ignore[attr-defined]
    return judge.verify(sent.body, dict(sent.headers))


def _timestamp(header: str) -> datetime:
    return datetime.fromtimestamp(float(header), UTC)


async def test_a_webhook_without_a_secret_sends_no_signature_header(world: World, receivers: Receivers):
    await webhook(world)
    await deploy(world, await world.application())
    assert "webhook-signature" not in receivers.got[URL][0].headers
    assert "webhook-id" in receivers.got[URL][0].headers


async def test_the_webhook_secret_itself_is_sent_only_with_send_secret(world: World, receivers: Receivers):
    await webhook(world, target_secret=SECRET)
    await webhook(world, "https://old.example/", target_secret=SECRET, send_secret=True)
    await deploy(world, await world.application())
    assert "Qovery-Signature" not in receivers.got[URL][0].headers
    assert receivers.got["https://old.example/"][0].headers["Qovery-Signature"] == SECRET


async def test_a_secret_is_rotated_with_two_valid_signatures(world: World, receivers: Receivers):
    id = await webhook(world, target_secret=SECRET)
    answer = await world.post(path(world, id, "/rotateSecret"), {"overlap_in_hours": 2})
    new = str(answer["target_secret"])
    assert new.startswith("whsec_")
    app = await world.application()
    await deploy(world, app)
    sent = receivers.got[URL][-1]
    assert verified(new, sent) == verified(SECRET.encode(), sent)
    await pass_by(world, 2 * HOUR, HOUR)
    await deploy(world, app)
    sent = receivers.got[URL][-1]
    assert verified(new, sent)
    with pytest.raises(WebhookVerificationError):
        verified(SECRET.encode(), sent)


async def test_rotating_to_a_given_secret_does_not_return_it(world: World, receivers: Receivers):
    id = await webhook(world)
    answer = await world.post(path(world, id, "/rotateSecret"), {"target_secret": SECRET})
    assert answer["target_secret"] == ""
    assert answer["previous_valid_until"] is None
    assert (await world.get(path(world, id)))["target_secret_set"] is True
    await deploy(world, await world.application())
    assert verified(SECRET.encode(), receivers.got[URL][0])


async def test_a_rotation_to_a_secret_that_no_header_can_carry_is_refused(world: World, receivers: Receivers):
    id = await webhook(world, target_secret=SECRET, send_secret=True)
    answer = await world.post(path(world, id, "/rotateSecret"), {"target_secret": "gehëim"})
    assert answer.status == 400
    assert "target_secret" in answer["message"]
    await deploy(world, await world.application())
    assert receivers.got[URL][0].headers["Qovery-Signature"] == SECRET
