"""Events without a change: tokens that are used, sign-ins, refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.audit.asking import events, told, types
from tests.world import World, make_world
from windlass.base.clock import HOUR
from windlass.base.errors import Unavailable
from windlass.control.context.call import Origin
from windlass.control.reporting.security_events import MAX_WAITING_EVENTS, SecurityEvents
from windlass.core.access import Actor, Scope, permits_throughout
from windlass.store import Store, Write


async def test_a_token_at_a_new_address_is_an_event(world: World):
    robot = await world.new_token("Read", name="robot")
    for address in ("198.51.100.1", "198.51.100.1", "198.51.100.2", "198.51.100.1"):
        await world.get("/organization", token=robot, address=address, headers={"user-agent": "curl/8"})
    found = await events(world, eventType="TOKEN_USED", triggeredBy="robot")
    assert [one["address"] for one in found] == ["198.51.100.2", "198.51.100.1"]
    assert (found[0]["target_name"], found[0]["sub_target_type"]) == ("robot", "API_TOKEN")
    assert found[0]["user_agent"] == "curl/8"


async def test_creating_a_session_records_a_sign_in_event(world: World):
    robot = await world.new_token("Read", name="robot")
    await world.post("/account/session", token=robot, address="198.51.100.3")
    (found,) = await events(world, eventType="SIGN_IN")
    assert (found["triggered_by"], found["address"]) == ("robot", "198.51.100.3")


async def test_a_request_refused_with_403_records_an_event_with_its_operation_and_path(world: World):
    project = await world.project(name="shop")
    reader = await world.new_token("Read", name="reader")
    for _ in range(2):
        answer = await world.put(f"/project/{project}", {"name": "x"}, token=reader)
        assert answer.status == 403
    found = await events(world, eventType="ACCESS_REFUSED")
    assert len(found) == 2
    event = found[0]
    assert (event["triggered_by"], event["target_id"], event["target_name"]) == ("reader", project, "shop")
    assert event["project_id"] == project
    facts = told(event)
    assert (facts["operation"], facts["method"], facts["path"]) == (
        "editProject",
        "PUT",
        f"/project/{project}",
    )
    assert facts["message"] == answer.message


async def test_a_refused_request_to_another_organization_is_recorded_only_in_the_callers_organization(
    world: World,
):
    foreign, stranger = await world.organization()
    reader = (
        await world.post(
            f"/organization/{foreign}/apiToken", {"name": "spy", "scopes": ["Read"]}, token=stranger
        )
    )["token"]
    project = await world.project()
    assert (await world.delete(f"/project/{project}", token=reader)).status == 403
    assert await events(world, eventType="ACCESS_REFUSED") == []
    theirs = (await world.get(f"/organization/{foreign}/events?pageSize=50", token=stranger))["events"]
    (refusal,) = [one for one in theirs if one["event_type"] == "ACCESS_REFUSED"]
    assert refusal["target_id"] == foreign
    assert refusal["project_id"] is None


async def test_use_of_a_revoked_token_is_recorded_once_an_hour_and_address(world: World):
    robot = await world.new_token("Read", name="robot")
    (made,) = await events(world, subTargetType="API_TOKEN", eventType="CREATE")
    await world.delete(f"/organization/{world.org}/apiToken/{told(made)['id']}")
    for _ in range(3):
        assert (await world.get("/organization", token=robot, address="198.51.100.4")).status == 401
    found = await events(world, eventType="TOKEN_REFUSED")
    assert [(one["triggered_by"], one["address"]) for one in found] == [("robot", "198.51.100.4")]
    assert told(found[0])["message"] == "The token was revoked"
    world.clock.turn(HOUR // 1000)
    await world.get("/organization", token=robot, address="198.51.100.4")
    assert len(await events(world, eventType="TOKEN_REFUSED")) == 2, "once an hour and address"


async def test_use_of_an_expired_token_is_recorded(world: World):
    robot = await world.new_token("Read", name="robot", expires_at="2026-09-21T15:00:00Z")
    world.clock.turn(7 * 86_400)
    assert (await world.get("/organization", token=robot)).status == 401
    (found,) = await events(world, eventType="TOKEN_REFUSED")
    assert (found["triggered_by"], told(found)["message"]) == (
        "robot",
        "Use another API token: this one has expired",
    )


async def test_a_request_with_an_unknown_token_records_no_event(world: World):
    count = len(await events(world))
    for header in ("Token nonsense", "Bearer a.b.c", "Token wdl_" + "x" * 42):
        assert (await world.get("/organization", token=header)).status == 401
    assert len(await events(world)) == count


async def test_a_graceful_stop_writes_pending_security_events(tmp_path):
    async with make_world(folder=tmp_path) as world:
        reader = await world.new_token("Read", name="reader")
        assert (
            await world.post(f"/organization/{world.org}/project", {"name": "x"}, token=reader)
        ).status == 403
    async with make_world(folder=tmp_path) as world:
        assert "ACCESS_REFUSED" in types(await events(world))


class AwayOnce:
    """A store whose database cannot be reached the first time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reached = False

    async def write(self, change: Write[Any]) -> Any:
        if not self.reached:
            self.reached = True
            raise Unavailable("gone for a moment")
        return await self._store.write(change)


def refuse(world: World, seen: SecurityEvents, times: int = 1) -> None:
    actor = Actor(
        id=world.org, name="reader", subject="reader", permits=permits_throughout(world.org, Scope.READ)
    )
    operation = world.installation.ctx.registry.operation("deleteOrganization")
    for _ in range(times):
        seen.record_refused(
            actor, operation, "/organization/x", (world.org,), "This needs Admin", Origin("API")
        )


async def test_a_security_event_whose_write_failed_is_written_once_on_retry(world: World):
    ctx = world.installation.ctx
    seen = SecurityEvents(replace(ctx, store=AwayOnce(ctx.store)))
    refuse(world, seen)
    with pytest.raises(Unavailable):
        await seen.note()
    assert await events(world, eventType="ACCESS_REFUSED") == []
    await seen.note()
    await seen.note()
    assert len(await events(world, eventType="ACCESS_REFUSED")) == 1


async def test_cancelling_a_write_of_security_events_duplicates_none(world: World):
    seen = SecurityEvents(world.installation.ctx)
    refuse(world, seen)
    noting = asyncio.create_task(seen.note())
    await asyncio.sleep(0)
    noting.cancel()
    await asyncio.gather(noting, return_exceptions=True)
    await seen.note()
    assert len(await events(world, eventType="ACCESS_REFUSED")) == 1


async def test_security_events_beyond_the_queue_limit_are_counted_in_the_last_one():
    async with make_world() as world:
        seen = SecurityEvents(world.installation.ctx)
        refuse(world, seen, MAX_WAITING_EVENTS + 5)
        await seen.note()
        newest = (await events(world, eventType="ACCESS_REFUSED", pageSize=1))[0]
        assert told(newest)["more"] == 5
