"""Deliveries are repeated, ordered, dropped and replayed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.marks import either
from tests.webhooks.receivers import SECRET, Receivers
from tests.webhooks.told import HOUR, URL, deploy, kinds, pass_by, path, webhook
from tests.world import World
from windlass.base.errors import Unavailable
from windlass.base.http_out import HttpResult
from windlass.control.records.outbox import DELIVERY_WORK, work_of
from windlass.control.reporting import delivery_results
from windlass.control.reporting.delivery import WebhookSender
from windlass.store import Claim, Store, Write

DAY = 24 * HOUR


async def deliveries(world: World, id: str) -> list[Any]:
    return list((await world.get(path(world, id, "/event?page_size=1000"))).json["results"])


# Again, later, in order


async def test_a_webhook_delivery_is_retried_with_the_same_id_until_it_is_acknowledged(
    world: World, receivers: Receivers
):
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
async def test_only_a_2xx_status_acknowledges_a_webhook_delivery(
    world: World, receivers: Receivers, status: int
):
    id = await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: status
    await deploy(world, await world.application())
    (delivery,) = await deliveries(world, id)
    assert (delivery["status"], delivery["target_response_status_code"]) == ("WAITING", status)
    assert delivery["next_attempt_at"] is not None


@pytest.mark.parametrize("wanted", ["3601", "99999999999", "9" * 5000])
async def test_a_retry_after_header_delays_a_delivery_by_at_most_an_hour(
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
async def test_a_retry_after_header_of_the_receiver_is_respected(
    world: World, receivers: Receivers, wanted: str
):
    await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: HttpResult(
        status=429, headers={"retry-after": wanted}, body=b"", cut=False, milliseconds=1
    )
    await deploy(world, await world.application())
    await pass_by(world, 590, 10)
    assert len(receivers.tried[URL]) == 1
    await pass_by(world, 20, 10)
    assert len(receivers.tried[URL]) == 2


async def test_a_failed_delivery_for_one_service_does_not_delay_those_for_others(
    world: World, receivers: Receivers
):
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


async def test_a_hanging_receiver_does_not_delay_deliveries_to_others(world: World, receivers: Receivers):
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
    await pass_by(world, HOUR, 60)
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


async def test_a_failing_receiver_gets_deliveries_no_more_often_than_the_backoff_allows(
    world: World, receivers: Receivers
):
    """An answer to `HEAD` proves nothing."""
    await webhook(world, events=["DEPLOYMENT_STARTED"])
    receivers.answers[URL] = lambda sent: 500
    await deploy(world, await world.application())
    await pass_by(world, HOUR, 60)
    assert 3 <= len(receivers.tried[URL]) <= 5
    assert receivers.looks[URL] > 50


async def test_hundreds_of_events_reach_ten_receivers_after_an_hour_of_unavailability(
    world: World, receivers: Receivers
):
    urls = [f"https://receiver-{number}.example/" for number in range(10)]
    for url in urls:
        await webhook(world, url)
    receivers.away |= set(urls)
    apps = [await world.application() for _ in range(10)]
    rounds = either(5, 100)
    for _ in range(rounds):
        for app in apps:
            await world.post(f"/application/{app}/deploy")
        await world.settle()
    await pass_by(world, HOUR, 120)
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
    await pass_by(world, 6 * DAY, 4 * HOUR)
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


async def test_a_clock_that_steps_ahead_disables_no_webhook(
    world: World, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
):
    id = await webhook(world)
    receivers.away.add(URL)
    await deploy(world, await world.application())
    monkeypatch.setattr(delivery_results, "may_expire", lambda clock: False)
    await pass_by(world, 6 * DAY, 4 * HOUR)
    assert (await world.get(path(world, id)))["enabled"] is True
    receivers.away.clear()
    await pass_by(world, 12 * HOUR, HOUR)
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
        await pass_by(world, DAY, 4 * HOUR)
    states = {
        (one["request"]["payload"]["service_id"], one["matched_event"]): one["status"]
        for one in await deliveries(world, id)
    }
    assert states[app, "DEPLOYMENT_STARTED"] == "FAILED"
    assert states[app, "DEPLOYMENT_SUCCEEDED"] == "DELIVERED"


# By hand


async def test_a_test_delivery_is_sent_as_an_example_event(world: World, receivers: Receivers):
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


async def test_a_deleted_webhook_receives_nothing_more(world: World, receivers: Receivers):
    id = await webhook(world)
    receivers.away.add(URL)
    await deploy(world, await world.application())
    assert (await world.delete(path(world, id))).status == 204
    receivers.away.clear()
    await pass_by(world, HOUR, 300)
    assert not receivers.got[URL]


async def test_the_delivery_history_of_a_webhook_contains_no_secret(world: World, receivers: Receivers):
    id = await webhook(world, target_secret=SECRET, send_secret=True)
    await deploy(world, await world.application())
    assert SECRET.encode() not in (await world.get(path(world, id, "/event"))).body


async def test_webhook_deliveries_are_deleted_after_their_retention(world: World, receivers: Receivers):
    id = await webhook(world)
    await deploy(world, await world.application())
    await pass_by(world, 13 * DAY, 12 * HOUR)
    assert len(await deliveries(world, id)) == 2
    await pass_by(world, 2 * DAY, 12 * HOUR)
    assert await deliveries(world, id) == []


class Away:
    """A store that can be read, and takes nothing."""

    def __init__(self, store: Store) -> None:
        self.reads = store.reads

    async def write(self, change: Write[Any]) -> Any:
        raise Unavailable("it is away")


async def test_a_delivery_whose_result_could_not_be_stored_is_sent_again(world: World, receivers: Receivers):
    id = await webhook(world)
    await world.post(path(world, id, "/test"))
    ctx = world.installation.ctx
    claim = Claim(id=work_of(id), kind=DELIVERY_WORK, epoch=1, attempts=0)
    with pytest.raises(Unavailable):
        await WebhookSender(replace(ctx, store=Away(ctx.store)), claim, id).work()
    await world.settle()
    first, second = receivers.got[URL]
    assert first.id == second.id
    assert [one["status"] for one in await deliveries(world, id)] == ["DELIVERED"]
