"""Section 6: webhooks are kept, and receivers are told of deployments."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.contract.contract import KINDS, SlowEngine
from tests.contract.rows import row
from tests.webhooks.receivers import Receivers
from tests.world import make_world

HOOK = {"target_url": "https://hooks.example/deployments"}


@row("6.webhook")
async def test_a_webhook_stores_its_target_event_kinds_and_enabled_flag(world) -> None:
    webhooks = f"/organization/{world.org}/webhook"
    body = HOOK | {"events": KINDS, "enabled": False}
    made = await world.post(webhooks, body)
    read = await world.get(f"{webhooks}/{made['id']}")
    listed = (await world.get(webhooks))["results"]
    for document in (made.json, read.json, listed[0]):
        assert {name: document[name] for name in body} == body


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_event_can_be_subscribed_to(embedded, kind: str) -> None:
    answer = await embedded.post(f"/organization/{embedded.org}/webhook", HOOK | {"events": [kind]})
    assert (answer.status, answer["events"]) == (201, [kind])


async def test_event_kinds_of_the_full_interface_are_accepted_and_returned_as_those_of_the_contract(
    embedded,
) -> None:
    full = ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCESSFUL", "DEPLOYMENT_FAILURE", "DEPLOYMENT_FAILED"]
    answer = await embedded.post(f"/organization/{embedded.org}/webhook", HOOK | {"events": full})
    assert (answer.status, answer["events"]) == (201, KINDS)


async def test_two_webhooks_may_have_the_same_target(embedded) -> None:
    body = HOOK | {"events": KINDS}
    answers = [await embedded.post(f"/organization/{embedded.org}/webhook", body) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201]


@row("6.DEPLOYMENT_STARTED", "6.DEPLOYMENT_SUCCEEDED")
async def test_a_successful_deployment_emits_a_started_and_a_succeeded_event(world) -> None:
    application = await world.application()
    await world.post(f"/application/{application}/deploy")
    assert await told(world, application) == []
    await world.settle()
    assert await told(world, application) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]


@row("6.DEPLOYMENT_FAILED")
async def test_a_deployment_that_fails_says_that_it_began_and_why_it_failed(world) -> None:
    world.engine.broken = "no room"
    application = await world.application()
    await world.post(f"/application/{application}/deploy")
    await world.settle()
    assert await told(world, application) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_FAILED"]
    name = (await world.get(f"/application/{application}"))["name"]
    failed = json.loads((await world.events("DEPLOYMENT_FAILED"))[0].body)
    assert failed["message"] == f"no room. No version of {name} serves now"


@row("6.event_type", "6.payload.application_id", "6.acknowledged by 200")
async def test_a_receiver_gets_the_kind_of_event_and_the_application_and_acknowledges_with_200(
    database_url,
) -> None:
    receivers = Receivers()
    async with make_world(database_url, out=receivers) as world:
        body = HOOK | {"events": KINDS, "enabled": True}
        made = await world.post(f"/organization/{world.org}/webhook", body)
        application = await world.application()
        await world.post(f"/application/{application}/deploy")
        await world.settle()
        told = [sent.json for sent in receivers.got[HOOK["target_url"]]]
        assert [message["event_type"] for message in told] == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]
        assert {message["payload"]["application_id"] for message in told} == {application}
        history = await world.get(f"/organization/{world.org}/webhook/{made['id']}/event")
        assert {one["status"] for one in history["results"]} == {"DELIVERED"}


async def test_the_started_event_is_emitted_before_the_deployment_ends(database_url) -> None:
    engine = SlowEngine()
    async with make_world(database_url, engine=engine) as world:
        application = await world.application()
        await world.post(f"/application/{application}/deploy")
        settling = asyncio.create_task(world.settle())
        await engine.began.wait()
        assert await told(world, application) == ["DEPLOYMENT_STARTED"]
        engine.may_go_on.set()
        await settling
        assert await told(world, application) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]


async def test_events_of_a_database_are_recorded_too(world) -> None:
    database = await world.database()
    await world.post(f"/database/{database}/deploy")
    await world.settle()
    assert await told(world, database) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]


async def test_a_deployment_event_has_the_deployment_id_that_the_deploy_request_returned(world) -> None:
    application = await world.application()
    deployment = await world.post(f"/application/{application}/deploy")
    await world.settle()
    (event,) = await world.events("DEPLOYMENT_SUCCEEDED")
    assert json.loads(event.body)["deployment_id"] == deployment["id"]


async def test_a_superseded_deployment_emits_no_started_event(world) -> None:
    application = await world.application()
    await world.post(f"/application/{application}/deploy")
    newer = await world.post(f"/application/{application}/deploy")
    await world.settle()
    (event,) = await world.events("DEPLOYMENT_STARTED")
    assert json.loads(event.body)["deployment_id"] == newer["id"]


async def test_a_refused_deploy_request_emits_no_event(embedded) -> None:
    application = await embedded.application()
    token = await embedded.new_token("Read")
    before = len(await embedded.events())
    assert (await embedded.post(f"/application/{application}/deploy", token=token)).status == 403
    assert (await embedded.post(f"/application/{application}/deploy", {"nonsense": 1})).status == 400
    await embedded.settle()
    assert len(await embedded.events()) == before


async def told(world, service: str) -> list[str]:
    """The kinds of event of a service that a webhook can be told of, in their order."""
    return [event.kind for event in await world.events() if event.target == service and event.kind in KINDS]
