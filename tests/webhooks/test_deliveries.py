"""What receivers are told, in which order, and what becomes of it when they do not listen."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.forms import either
from tests.webhooks.receivers import SECRET, Receivers, Sent
from tests.world import World
from windlass.base.errors import Unavailable
from windlass.base.http_out import HttpResult
from windlass.control.records.outbox import DELIVER, work_of
from windlass.control.telling.delivery import WebhookSender
from windlass.store import Claim, Store, Write

URL = "https://receiver.example/hook"
ALL = ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED", "DEPLOYMENT_CANCELLED"]
HOUR = 3600
DAY = 24 * HOUR


async def webhook(world: World, url: str = URL, **fields: Any) -> str:
    body = {"target_url": url, "events": ALL, "enabled": True} | fields
    return await world.made(f"/organization/{world.org}/webhook", body)


def path(world: World, id: str, rest: str = "") -> str:
    return f"/organization/{world.org}/webhook/{id}{rest}"


async def deploy(world: World, app: str) -> str:
    answer = await world.post(f"/application/{app}/deploy")
    assert answer.status == 202, answer
    await world.settle()
    return str(answer["id"])


async def pass_by(world: World, seconds: int, step: int = 30) -> None:
    """Lets time pass in larger steps than a second."""
    for _ in range(0, seconds, step):
        await world.settle()
        world.clock.turn(step)
    await world.settle()


async def deliveries(world: World, id: str) -> list[Any]:
    return list((await world.get(path(world, id, "/event?page_size=1000"))).json["results"])


def kinds(sent: list[Sent]) -> list[str]:
    return [one.kind for one in sent]


# What is told


async def test_a_deployment_is_told_of_when_it_begins_and_when_it_ends(world: World, receivers: Receivers):
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


async def test_a_deployment_that_fails_says_why(world: World, receivers: Receivers):
    await webhook(world)
    world.builder.broken = "the Dockerfile is wrong in line 3"
    await deploy(world, await world.application())
    assert kinds(receivers.got[URL]) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_FAILED"]
    assert "wrong in line 3" in receivers.got[URL][1].payload["message"]


async def test_a_database_is_told_of_with_its_own_id(world: World, receivers: Receivers):
    await webhook(world)
    database = await world.database()
    await world.post(f"/database/{database}/deploy")
    await world.settle()
    payload = receivers.got[URL][0].payload
    assert (payload["database_id"], payload["service_kind"]) == (database, "DATABASE")
    assert "application_id" not in payload


async def test_only_what_was_asked_for_is_told(world: World, receivers: Receivers):
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
async def test_filters_are_of_project_names_and_kinds_of_environment(
    world: World, receivers: Receivers, filters, told
):
    await webhook(world, **filters)
    project = await world.project(name="Shop")
    environment = await world.environment(project, mode="PRODUCTION")
    await deploy(world, await world.application(environment))
    assert bool(receivers.got[URL]) is told


async def test_a_webhook_of_the_full_vocabulary_gets_its_words(world: World, receivers: Receivers):
    await webhook(world, events=["DEPLOYMENT_SUCCESSFUL", "DEPLOYMENT_FAILURE"])
    await webhook(world, "https://plain.example/", events=["DEPLOYMENT_SUCCEEDED"])
    await deploy(world, await world.application())
    assert kinds(receivers.got[URL]) == ["DEPLOYMENT_SUCCESSFUL"]
    assert kinds(receivers.got["https://plain.example/"]) == ["DEPLOYMENT_SUCCEEDED"]


async def test_another_organization_is_told_nothing(world: World, receivers: Receivers):
    other, token = await world.organization()
    body = {"target_url": URL, "events": ALL, "enabled": True}
    assert (await world.post(f"/organization/{other}/webhook", body, token=token)).status == 201
    await deploy(world, await world.application())
    assert not receivers.tried


async def test_slack_is_told_in_a_message_for_people(world: World, receivers: Receivers):
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


async def test_without_a_secret_nothing_is_signed(world: World, receivers: Receivers):
    await webhook(world)
    await deploy(world, await world.application())
    assert "webhook-signature" not in receivers.got[URL][0].headers
    assert "webhook-id" in receivers.got[URL][0].headers


async def test_the_secret_itself_is_sent_only_if_asked_for(world: World, receivers: Receivers):
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


async def test_a_secret_of_ones_own_is_rotated_to_and_not_answered(world: World, receivers: Receivers):
    id = await webhook(world)
    answer = await world.post(path(world, id, "/rotateSecret"), {"target_secret": SECRET})
    assert answer["target_secret"] == ""
    assert answer["previous_valid_until"] is None
    assert (await world.get(path(world, id)))["target_secret_set"] is True
    await deploy(world, await world.application())
    assert verified(SECRET.encode(), receivers.got[URL][0])


async def test_a_secret_that_no_header_can_carry_is_refused_also_when_it_is_rotated_to(
    world: World, receivers: Receivers
):
    id = await webhook(world, target_secret=SECRET, send_secret=True)
    answer = await world.post(path(world, id, "/rotateSecret"), {"target_secret": "gehëim"})
    assert answer.status == 400
    assert "target_secret" in answer["message"]
    await deploy(world, await world.application())
    assert receivers.got[URL][0].headers["Qovery-Signature"] == SECRET


# Again, later, in order


async def test_a_delivery_is_repeated_with_the_same_id_until_it_is_taken(world: World, receivers: Receivers):
    id = await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: 500 if len(receivers.tried[URL]) < 3 else 204
    await deploy(world, await world.application())
    await pass_by(world, 10, 1)
    assert len(receivers.tried[URL]) == 2
    await pass_by(world, 7 * 60)
    assert len({one.id for one in receivers.tried[URL]}) == 1
    (delivery,) = await deliveries(world, id)
    assert delivery["status"] == "DELIVERED"
    assert [one["status_code"] for one in delivery["attempts"]] == [500, 500, 204]
    assert delivery["target_response_body"] == "said the receiver"


@pytest.mark.parametrize("status", [301, 302, 400, 401, 404, 500, 503])
async def test_only_a_2xx_acknowledges(world: World, receivers: Receivers, status: int):
    id = await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: status
    await deploy(world, await world.application())
    (delivery,) = await deliveries(world, id)
    assert (delivery["status"], delivery["target_response_status_code"]) == ("WAITING", status)
    assert delivery["next_attempt_at"] is not None


@pytest.mark.parametrize("wanted", ["3601", "99999999999", "9" * 5000])
async def test_a_receiver_is_waited_for_no_longer_than_an_hour_at_its_word(
    world: World, receivers: Receivers, wanted: str
):
    await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: HttpResult(
        status=429, headers={"retry-after": wanted}, body=b"", cut=False, milliseconds=1
    )
    await deploy(world, await world.application())
    await pass_by(world, HOUR - 30)
    assert len(receivers.tried[URL]) == 1
    await pass_by(world, 60)
    assert len(receivers.tried[URL]) == 2


@pytest.mark.parametrize("wanted", ["600", "0" * 20 + "600"])
async def test_a_receiver_says_how_long_to_wait(world: World, receivers: Receivers, wanted: str):
    await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: HttpResult(
        status=429, headers={"retry-after": wanted}, body=b"", cut=False, milliseconds=1
    )
    await deploy(world, await world.application())
    await pass_by(world, 590, 10)
    assert len(receivers.tried[URL]) == 1
    await pass_by(world, 20, 10)
    assert len(receivers.tried[URL]) == 2


async def test_a_waiting_message_of_one_service_delays_no_other(world: World, receivers: Receivers):
    await webhook(world)
    bad, good = await world.application(), await world.application()
    receivers.answers[URL] = lambda sent: 500 if sent.payload["service_id"] == bad else 200
    await deploy(world, bad)
    await deploy(world, good)
    assert [one.payload["service_id"] for one in receivers.got[URL]] == [good, good]
    receivers.answers.clear()
    await pass_by(world, 10, 1)
    of_bad = [one for one in receivers.got[URL] if one.payload["service_id"] == bad]
    assert kinds(of_bad) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]


async def test_a_dead_receiver_holds_up_no_other(world: World, receivers: Receivers):
    dead = "https://dead.example/"
    await webhook(world, dead)
    await webhook(world)
    hung = asyncio.Event()
    send = receivers.send

    async def hang(method: str, url: str, *rest: Any, **named: Any) -> HttpResult:
        if url == dead:
            await hung.wait()
        return await send(method, url, *rest, **named)

    receivers.send = hang  # type: ignore[method-assign]
    app = await world.application()
    await world.post(f"/application/{app}/deploy")
    for _ in range(200):
        await world.installation.worker.start_due()
        await asyncio.sleep(0.01)
        if len(receivers.got[URL]) == 2:
            break
    assert kinds(receivers.got[URL]) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]
    hung.set()
    await world.settle()
    assert len(receivers.got[dead]) == 2


async def test_a_receiver_back_within_a_minute_gets_all_in_order(world: World, receivers: Receivers):
    id = await webhook(world)
    apps = [await world.application() for _ in range(3)]
    receivers.away.add(URL)
    for _ in range(3):
        for app in apps:
            await deploy(world, app)
    await pass_by(world, HOUR)
    assert (await world.get(path(world, id)))["failing_since"] is not None
    tried = len(receivers.tried[URL])
    assert tried < 40, "who takes nothing is sent one thing at a time"
    receivers.away.clear()
    await pass_by(world, 60, 5)
    for app in apps:
        of_app = [one for one in receivers.got[URL] if one.payload["service_id"] == app]
        assert kinds(of_app) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"] * 3
        numbers = [one.payload["deployment_number"] for one in of_app]
        assert numbers == [1, 1, 2, 2, 3, 3]
    assert (await world.get(path(world, id)))["failing_since"] is None


async def test_a_refusing_receiver_is_not_asked_more_often_than_the_backoff_allows(
    world: World, receivers: Receivers
):
    """That it answers when it is only looked for proves nothing."""
    await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: 500
    await deploy(world, await world.application())
    await pass_by(world, HOUR)
    assert 3 <= len(receivers.tried[URL]) <= 5
    assert receivers.looks[URL] > 50


@pytest.mark.sized
async def test_hundreds_of_events_reach_ten_receivers_that_were_away_for_an_hour(
    world: World, receivers: Receivers
):
    urls = [f"https://receiver-{number}.example/" for number in range(10)]
    for url in urls:
        await webhook(world, url)
    receivers.away |= set(urls)
    apps = [await world.application() for _ in range(10)]
    rounds = either(10, 100)
    for _ in range(rounds):
        for app in apps:
            await world.post(f"/application/{app}/deploy")
        await world.settle()
    await pass_by(world, HOUR, 60)
    receivers.away.clear()
    await pass_by(world, 60, 10)
    for url in urls:
        assert len(receivers.got[url]) == 2 * len(apps) * rounds
        assert len({one.id for one in receivers.got[url]}) == 2 * len(apps) * rounds
        for app in apps:
            numbers = [
                one.payload["deployment_number"]
                for one in receivers.got[url]
                if one.payload["service_id"] == app
            ]
            assert numbers == sorted(numbers)
            assert len(numbers) == 2 * rounds


async def test_a_webhook_without_success_for_days_is_disabled_with_the_reason(
    world: World, receivers: Receivers
):
    id = await webhook(world)
    receivers.away.add(URL)
    app = await world.application()
    await deploy(world, app)
    await pass_by(world, 6 * DAY, HOUR)
    shown = await world.get(path(world, id))
    assert shown["enabled"] is False
    assert shown["disabled_reason"] == ("The receiver has taken nothing for 5 days: nobody listens there")
    assert len(await world.events("WEBHOOK_DISABLED")) == 1
    receivers.away.clear()
    assert (await world.patch(path(world, id), {"enabled": True})).status == 200
    await world.settle()
    shown = await world.get(path(world, id))
    assert (shown["disabled_reason"], shown["failing_since"]) == ("", None)
    assert kinds(receivers.got[URL]) == ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"]


async def test_a_410_disables_a_webhook_at_once(world: World, receivers: Receivers):
    id = await webhook(world)
    receivers.answers[URL] = lambda sent: 410
    await deploy(world, await world.application())
    shown = await world.get(path(world, id))
    assert shown["enabled"] is False
    assert "410" in shown["disabled_reason"]
    assert len(receivers.tried[URL]) == 1


async def test_an_event_refused_for_days_is_dropped_and_later_ones_are_delivered(
    world: World, receivers: Receivers
):
    id = await webhook(world)
    app, other = await world.application(), await world.application()
    await webhook(world, "https://else.example/")
    receivers.answers[URL] = lambda sent: (
        400 if sent.payload["service_id"] == app and sent.kind == "DEPLOYMENT_STARTED" else 200
    )
    await deploy(world, app)
    for _ in range(6):
        await deploy(world, other)
        await pass_by(world, DAY, HOUR)
    states = {
        (one["request"]["payload"]["service_id"], one["matched_event"]): one["status"]
        for one in await deliveries(world, id)
    }
    assert states[app, "DEPLOYMENT_STARTED"] == "FAILED"
    assert states[app, "DEPLOYMENT_SUCCEEDED"] == "DELIVERED"


# By hand


async def test_a_test_is_delivered_as_an_example(world: World, receivers: Receivers):
    id = await webhook(world, target_secret=SECRET)
    answer = await world.post(path(world, id, "/test"))
    assert (answer.status, answer["status"]) == (202, "WAITING")
    await world.settle()
    (sent,) = receivers.got[URL]
    assert (sent.id, sent.payload["test"]) == (answer["id"], True)
    assert (await deliveries(world, id))[0]["status"] == "DELIVERED"
    await world.patch(path(world, id), {"enabled": False})
    assert (await world.post(path(world, id, "/test"))).status == 409


async def test_deliveries_are_replayed_one_by_one_or_since_a_time(world: World, receivers: Receivers):
    id = await webhook(world)
    app = await world.application()
    await deploy(world, app)
    world.clock.turn(60)
    since = str(world.clock.ms)
    await deploy(world, app)
    first = receivers.got[URL][0]
    assert (await world.post(path(world, id, "/replay"), {"event_id": first.id}))["replayed"] == 1
    await world.settle()
    assert receivers.got[URL][-1].id == first.id
    answer = await world.post(path(world, id, "/replay"), {"since": since, "only_failed": False})
    assert answer["replayed"] == 2
    await world.settle()
    assert [one.id for one in receivers.got[URL][-2:]] == [one.id for one in receivers.got[URL][2:4]]
    assert (await world.post(path(world, id, "/replay"), {}))["replayed"] == 0
    missing = {"event_id": "00000000-0000-4000-8000-000000000000"}
    assert (await world.post(path(world, id, "/replay"), missing)).status == 404


async def test_a_webhook_that_is_deleted_is_told_nothing_more(world: World, receivers: Receivers):
    id = await webhook(world)
    receivers.away.add(URL)
    await deploy(world, await world.application())
    assert (await world.delete(path(world, id))).status == 204
    receivers.away.clear()
    await pass_by(world, HOUR)
    assert not receivers.got[URL]


async def test_no_secret_is_in_the_history(world: World, receivers: Receivers):
    id = await webhook(world, target_secret=SECRET, send_secret=True)
    await deploy(world, await world.application())
    assert SECRET.encode() not in (await world.get(path(world, id, "/event"))).body


async def test_a_message_is_kept_a_while_and_then_forgotten(world: World, receivers: Receivers):
    id = await webhook(world)
    await deploy(world, await world.application())
    await pass_by(world, 13 * DAY, HOUR)
    assert len(await deliveries(world, id)) == 2
    await pass_by(world, 2 * DAY, HOUR)
    assert await deliveries(world, id) == []


# When it cannot be written down


class Away:
    """A store that can be read, and takes nothing."""

    def __init__(self, store: Store) -> None:
        self.reads = store.reads

    async def write(self, change: Write[Any]) -> Any:
        raise Unavailable("it is away")


async def test_a_delivery_that_was_not_recorded_is_sent_again(world: World, receivers: Receivers):
    id = await webhook(world)
    await world.post(path(world, id, "/test"))
    ctx = world.installation.ctx
    claim = Claim(id=work_of(id), kind=DELIVER, epoch=1, attempts=0)
    with pytest.raises(Unavailable):
        await WebhookSender(replace(ctx, store=Away(ctx.store)), claim, id).work()
    await world.settle()
    first, second = receivers.got[URL]
    assert first.id == second.id
    assert [one["status"] for one in await deliveries(world, id)] == ["DELIVERED"]
