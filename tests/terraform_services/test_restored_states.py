"""An earlier version of the state that is made the newest one, without a run of the program."""

from __future__ import annotations

import json

import pytest

from tests.terraform_services.test_moved_states import service_of
from tests.terraform_services.test_settings import body
from tests.world import World
from windlass.store import Tx
from windlass.terraform.states import (
    PlanRecord,
    add_version,
    newest_content,
    present_state,
    put_plan,
)

NUMBERS = '"long": 123456789012345678901234567890, "exact": 0.1234567890123456789012345678, "one": 1.0'
STATE = '{"version": 4, "serial": %d, "lineage": "l", "outputs": {"%s": {"value": 1}}, "check": {%s}}'


async def with_two_versions(world: World) -> str:
    service = await world.made(f"/environment/{await world.environment()}/terraform", body())
    for serial, output in ((1, "first"), (2, "second")):
        await stored(world, service, (STATE % (serial, output, NUMBERS)).encode())
    return service


async def stored(world: World, service: str, content: bytes) -> None:
    async def store(tx: Tx) -> None:
        row = await tx.resources.get(service)
        assert row is not None
        await add_version(world.installation.ctx, tx, row, service, content)

    await world.installation.ctx.store.write(store)


async def test_a_restored_state_equals_the_earlier_one_including_large_numbers(world: World):
    service = await with_two_versions(world)
    answer = await world.post(f"/terraform/{service}/restoreState", {"number": 1})
    assert (answer.status, answer["number"], answer["restored_from"]) == (200, 3, 1), answer
    ctx = world.installation.ctx
    content = (await newest_content(ctx, ctx.store.reads, service)).decode()
    assert NUMBERS in content
    assert json.loads(content)["serial"] == 3, "no plan was made for it"
    assert list(json.loads(content)["outputs"]) == ["first"]


async def planned(world: World, service: str) -> str:
    """A deployment that has made a plan of the present state."""
    ctx = world.installation.ctx
    deployment = (await world.post(f"/terraform/{service}/deploy", {"action": "PLAN"}))["id"]
    await world.settle()

    async def store(tx: Tx) -> None:
        row = await tx.deployments.get(deployment)
        assert row is not None
        record = PlanRecord("text", [], b"file", await present_state(tx, service))
        await put_plan(ctx, tx, row, (1, 0, 0), record)

    await ctx.store.write(store)
    return str(deployment)


async def is_applicable(world: World, service: str, deployment: str) -> bool:
    [plan] = (await world.get(f"/terraform/{service}/plan?deployment_id={deployment}"))["results"]
    return bool(plan["applicable"])


@pytest.mark.parametrize("first", [b"", (STATE % (0, "first", NUMBERS)).encode()], ids=["empty", "whole"])
async def test_a_plan_made_before_a_restore_is_not_applicable_although_the_state_is_identical(
    world: World, first: bytes
):
    """A state that was emptied in between counts its serials from the beginning."""
    service = await service_of(world)
    await stored(world, service, first)
    await world.post(f"/terraform/{service}/restoreState", {"number": 1})
    plan = await planned(world, service)
    assert await is_applicable(world, service, plan)
    await stored(world, service, b'{"version": 4}' if not first else b"")
    assert not await is_applicable(world, service, plan)
    versions = (await world.get(f"/terraform/{service}/stateVersion"))["results"]
    answer = await world.post(f"/terraform/{service}/restoreState", {"number": versions[1]["number"]})
    assert answer.status == 200
    assert not await is_applicable(world, service, plan)
    assert await is_applicable(world, service, await planned(world, service))


async def test_restoring_a_state_needs_the_scope_deploy(world: World):
    service = await with_two_versions(world)
    for scopes, status in ((["Read"], 403), (["Write"], 403), (["Deploy"], 200), (["Admin"], 200)):
        token = await world.new_token(*scopes)
        answer = await world.post(f"/terraform/{service}/restoreState", {"number": 1}, token=token)
        assert answer.status == status, (scopes, answer)
    restored = (await world.get(f"/organization/{world.org}/events?eventType=TERRAFORM_STATE_RESTORED"))[
        "events"
    ]
    assert [event["target_id"] for event in restored] == [service] * 2
    assert json.loads(restored[0]["change"])["restored_from"] == 1
