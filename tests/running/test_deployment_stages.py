"""Deployment stages: each service of an environment is in exactly one, and their order is total."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.contract import is_refused
from tests.fakes.engine import FakeEngine
from tests.marks import examples, nightly
from tests.postgres import chosen_database
from tests.tables import rows
from tests.world import World, make_world
from windlass.control.services import deployment_stages
from windlass.core.deploy.stage_order import DEFAULT_STAGES, moved, stage_for
from windlass.store import Tx

DEFAULTS = ["default-databases", "default-jobs", "default-applications"]
IMAGE = {"image_name": "acme/cache", "tag": "1.0"}
SCHEDULE = {"cronjob": {"scheduled_at": "0 3 * * *", "arguments": ["true"]}}
BASES = ("", "/api/v1", "/compat")


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with make_world(database_url, engine=FakeEngine("image")) as made:
        yield made


@pytest.fixture(scope="module", params=["sqlite", *nightly("postgres")])
def module_database(request: pytest.FixtureRequest) -> Iterator[str]:
    with chosen_database(request) as url:
        yield url


@pytest.fixture(scope="module")
async def shared(module_database: str) -> AsyncIterator[World]:
    async with make_world(module_database, engine=FakeEngine("image")) as made:
        yield made


async def stages(world: World, environment: str, **options: Any) -> list[Any]:
    answer = await world.get(f"/environment/{environment}/deploymentStage?page_size=100", **options)
    assert answer.status == 200, answer
    return list(answer["results"])


async def names(world: World, environment: str) -> list[str]:
    return [stage["name"] for stage in await stages(world, environment)]


async def by_stage(world: World, environment: str) -> dict[str, list[str]]:
    return {
        stage["name"]: [service["service_id"] for service in stage["services"]]
        for stage in await stages(world, environment)
    }


async def stage_of(world: World, service: str) -> Any:
    return (await world.get(f"/service/{service}/deploymentStage")).json


async def new_stage(world: World, environment: str, name: str) -> str:
    return await world.made(f"/environment/{environment}/deploymentStage", {"name": name})


async def place(world: World, stage: str, service: str, body: Any = None) -> Any:
    return await world.put(f"/deploymentStage/{stage}/service/{service}", body)


async def one_of_each(world: World, environment: str) -> dict[str, str]:
    job = {"name": "nightly", "source": {"image": IMAGE}, "schedule": SCHEDULE}
    return {
        "DATABASE": await world.database(environment),
        "JOB": await world.made(f"/environment/{environment}/job", job),
        "APPLICATION": await world.application(environment),
        "CONTAINER": await world.made(f"/environment/{environment}/container", {"name": "cache"} | IMAGE),
    }


async def forget_stages(world: World, environment: str) -> None:
    """Makes the environment one of an earlier version, which had no stages."""
    services = [service for ids in (await by_stage(world, environment)).values() for service in ids]
    found = [stage["id"] for stage in await stages(world, environment)]

    async def forget(tx: Tx) -> None:
        for id in found:
            row = await tx.resources.get(id)
            assert row is not None
            await tx.remove(row)
        for service in services:
            await tx.deployment_stages.delete_of(service)

    await world.installation.ctx.store.write(forget)


@rows("base", BASES)
async def test_a_new_environment_has_the_default_stages_in_their_order(shared: World, base: str):
    environment = await shared.environment()
    listed = (await shared.get(f"{base}/environment/{environment}/deploymentStage"))["results"]
    assert [stage["name"] for stage in listed] == DEFAULTS
    assert [stage["deployment_order"] for stage in listed] == [1, 2, 3]
    assert all(stage["environment"] == {"id": environment} for stage in listed)
    assert all(stage["services"] == [] and stage["description"] for stage in listed)


async def test_a_new_service_is_placed_in_the_stage_of_its_kind(shared: World):
    environment = await shared.environment()
    made = await one_of_each(shared, environment)
    placed = await by_stage(shared, environment)
    assert {name: {*services} for name, services in placed.items()} == {
        "default-databases": {made["DATABASE"]},
        "default-jobs": {made["JOB"]},
        "default-applications": {made["APPLICATION"], made["CONTAINER"]},
    }
    for kind, service in made.items():
        (shown,) = [one for one in (await stage_of(shared, service))["services"] if one["id"] == service]
        assert (shown["service_id"], shown["service_type"], shown["is_skipped"]) == (service, kind, False)


@rows("first", ["list", "stage of a service", "new service", "new stage"])
async def test_an_environment_of_an_earlier_version_gets_its_stages_when_they_are_needed_first(
    shared: World, first: str
):
    environment = await shared.environment()
    made = await one_of_each(shared, environment)
    await forget_stages(shared, environment)
    if first == "stage of a service":
        assert (await stage_of(shared, made["DATABASE"]))["name"] == "default-databases"
    elif first == "new service":
        made["DATABASE 2"] = await shared.database(environment)
    elif first == "new stage":
        await new_stage(shared, environment, "web")
    placed = await by_stage(shared, environment)
    assert sorted(service for inside in placed.values() for service in inside) == sorted(made.values())
    assert [*placed][:3] == DEFAULTS
    assert made["JOB"] in placed["default-jobs"]


async def test_a_stage_is_created_last_replaced_and_deleted(shared: World):
    environment = await shared.environment()
    path = f"/environment/{environment}/deploymentStage"
    made = await shared.post(path, {"name": "web", "description": None})
    assert (made.status, made["deployment_order"], made["services"], made["description"]) == (200, 4, [], "")
    own = f"/deploymentStage/{made['id']}"
    assert (await shared.get(own)).json == made.json
    changed = await shared.put(own, {"name": "pages", "description": "All of them"})
    assert (changed.status, changed["name"], changed["deployment_order"]) == (200, "pages", 4)
    assert (await shared.patch(own, {"description": "Some"}))["services"] == []
    is_refused(await shared.post(path, {"name": "Pages"}), 409)
    assert (await shared.delete(own)).status == 204
    assert (await shared.get(own)).status == 404
    assert await names(shared, environment) == DEFAULTS


async def test_a_stage_is_deleted_only_without_services_and_never_as_the_last(shared: World):
    environment = await shared.environment()
    app = await shared.application(environment)
    ids = [stage["id"] for stage in await stages(shared, environment)]
    refused = await shared.delete(f"/deploymentStage/{ids[2]}")
    is_refused(refused, 400)
    assert "Place its services in other stages first" in refused.message
    assert (await place(shared, ids[0], app)).status == 200
    assert [(await shared.delete(f"/deploymentStage/{id}")).status for id in ids[1:]] == [204, 204]
    assert (await shared.delete(f"/application/{app}")).status == 204
    is_refused(await shared.delete(f"/deploymentStage/{ids[0]}"), 400)
    again = await shared.application(environment)
    assert await by_stage(shared, environment) == {"default-databases": [again]}


async def test_stages_are_moved_before_and_after_others(shared: World):
    environment = await shared.environment()
    web = await new_stage(shared, environment, "web")
    first, *_ = await stages(shared, environment)
    for move, expected in (
        (f"moveBefore/{first['id']}", ["web", *DEFAULTS]),
        (f"moveAfter/{first['id']}", [DEFAULTS[0], "web", *DEFAULTS[1:]]),
        (f"moveAfter/{web}", [DEFAULTS[0], "web", *DEFAULTS[1:]]),
    ):
        answer = await shared.put(f"/deploymentStage/{web}/{move}")
        assert answer.status == 200
        assert [stage["name"] for stage in answer["results"]] == expected == await names(shared, environment)
        assert [stage["deployment_order"] for stage in answer["results"]] == [1, 2, 3, 4]


async def test_stages_and_services_of_another_environment_are_refused(shared: World):
    environment, other = await shared.environment(), await shared.environment()
    here, there = (await stages(shared, environment))[0]["id"], (await stages(shared, other))[0]["id"]
    app = await shared.application(other)
    for answer in (
        await place(shared, here, app),
        await shared.put(f"/deploymentStage/{here}/moveAfter/{there}"),
        await shared.put(f"/deploymentStage/{here}/moveBefore/{there}"),
    ):
        is_refused(answer, 400)
    assert (await stage_of(shared, app))["name"] == "default-applications"


async def test_a_skipped_service_is_left_out_of_deployments_of_its_environment(world: World):
    environment = await world.environment()
    left_out, app = await world.application(environment), await world.application(environment)
    stage = (await stage_of(world, left_out))["id"]
    answer = await place(world, stage, left_out, {"is_skipped": True})
    (shown,) = [one for stage in answer["results"] for one in stage["services"] if one["id"] == left_out]
    assert shown["is_skipped"]
    assert (await world.post(f"/environment/{environment}/deploy")).status == 202
    await world.settle()
    states = [await world.state(f"/application/{id}") for id in (left_out, app)]
    assert states == ["STOPPED", "RUNNING"]
    assert (await world.get(f"/application/{left_out}/deployment"))["results"] == []
    assert (await world.post(f"/application/{left_out}/deploy")).status == 202
    await world.settle()
    assert await world.state(f"/application/{left_out}") == "RUNNING"
    assert (await world.post(f"/environment/{environment}/stop")).status == 202
    await world.settle()
    assert await world.state(f"/application/{left_out}") == "STOPPED"


async def test_a_service_that_moves_to_another_stage_is_no_longer_skipped(shared: World):
    environment = await shared.environment()
    app = await shared.application(environment)
    first, _, last = [stage["id"] for stage in await stages(shared, environment)]

    async def is_skipped() -> bool:
        (shown,) = (await stage_of(shared, app))["services"]
        return bool(shown["is_skipped"])

    await place(shared, last, app, {"is_skipped": True})
    assert await is_skipped()
    await place(shared, first, app)
    assert not await is_skipped()
    await place(shared, first, app, {"is_skipped": True})
    assert await is_skipped()
    await place(shared, first, app, {})
    assert not await is_skipped()


async def test_a_copied_environment_has_the_same_stages_and_each_copy_is_in_the_same_one(shared: World):
    environment = await shared.environment()
    made = await one_of_each(shared, environment)
    ids = {stage["name"]: stage["id"] for stage in await stages(shared, environment)}
    web = await new_stage(shared, environment, "web")
    await shared.put(f"/deploymentStage/{web}/moveBefore/{ids['default-jobs']}")
    await place(shared, web, made["APPLICATION"], {"is_skipped": True})
    assert (await shared.delete(f"/deploymentStage/{ids['default-databases']}")).status == 400
    await place(shared, web, made["DATABASE"])
    assert (await shared.delete(f"/deploymentStage/{ids['default-databases']}")).status == 204
    copy = (await shared.post(f"/environment/{environment}/clone", {"name": shared.name("copy")}))["id"]

    def shape(listed: list[Any]) -> list[Any]:
        return [
            (stage["name"], sorted((one["service_type"], one["is_skipped"]) for one in stage["services"]))
            for stage in listed
        ]

    copied = shape(await stages(shared, copy))
    assert copied == shape(await stages(shared, environment))
    assert copied[0] == ("web", [("APPLICATION", True), ("DATABASE", False)])
    assert (await stage_of(shared, await shared.database(copy)))["name"] == "default-jobs"


async def test_a_copied_service_is_in_the_stage_of_the_original_if_there_is_one_of_that_name(shared: World):
    environment, other, third = [await shared.environment() for _ in range(3)]
    app = await shared.application(environment)
    await place(shared, await new_stage(shared, environment, "web"), app)
    await new_stage(shared, other, "Web")
    found = []
    for target in (environment, other, third):
        body = {"name": shared.name("copy"), "environment_id": target}
        copy = (await shared.post(f"/application/{app}/clone", body))["id"]
        found.append((await stage_of(shared, copy))["name"])
    assert found == ["web", "Web", "default-applications"]


async def test_the_number_of_stages_of_an_environment_is_limited(shared: World, monkeypatch):
    environment = await shared.environment()
    monkeypatch.setattr(deployment_stages, "MAX_STAGES", 4)
    await new_stage(shared, environment, "web")
    refused = await shared.post(f"/environment/{environment}/deploymentStage", {"name": "one more"})
    is_refused(refused, 409)
    assert "at most 4" in refused.message


async def test_a_token_for_one_service_sees_no_other_service_of_a_stage(shared: World):
    environment = await shared.environment()
    app, other = await shared.application(environment), await shared.application(environment)
    token = await shared.new_token("Write", limited_to=[app])
    answer = await shared.get(f"/service/{app}/deploymentStage", token=token)
    assert [one["service_id"] for one in answer["services"]] == [app]
    assert (await shared.get(f"/service/{other}/deploymentStage", token=token)).status == 404
    stage = (await stages(shared, environment))[0]["id"]
    assert (await shared.put(f"/deploymentStage/{stage}/service/{app}", token=token)).status in {403, 404}


async def test_changes_of_stages_are_in_the_audit_of_their_environment(shared: World):
    environment = await shared.environment()
    app = await shared.application(environment)
    web = await new_stage(shared, environment, "web")
    await place(shared, web, app)
    await shared.put(f"/deploymentStage/{web}/moveBefore/{(await stages(shared, environment))[0]['id']}")
    path = f"/organization/{shared.org}/events?targetId={environment}&subTargetType=DEPLOYMENT_STAGE"
    words = [event["event_type"] for event in (await shared.get(path))["events"]]
    assert words == ["UPDATE", "UPDATE", "CREATE"]


# The order, and the service that is never lost

CREATE, DELETE, BEFORE, AFTER, PLACE, ADD, REMOVE = range(7)
steps = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 9)), max_size=25)


@examples(10)
@given(steps=steps)
async def test_no_service_is_lost_and_the_order_is_total_after_any_changes(
    shared: World, steps: list[tuple[int, int, int]]
):
    environment = await shared.environment()
    order = [(stage["id"], list[str]()) for stage in await stages(shared, environment)]
    for step, number, other in steps:
        chosen, target = order[number % len(order)], order[other % len(order)]
        services = [service for _, inside in order for service in inside]
        if step == CREATE:
            order.append((await new_stage(shared, environment, shared.name("stage")), []))
        elif step == DELETE:
            refused = bool(chosen[1]) or len(order) == 1
            answer = await shared.delete(f"/deploymentStage/{chosen[0]}")
            assert answer.status == (400 if refused else 204)
            order = [stage for stage in order if refused or stage is not chosen]
        elif step in {BEFORE, AFTER}:
            word = "moveAfter" if step == AFTER else "moveBefore"
            assert (await shared.put(f"/deploymentStage/{chosen[0]}/{word}/{target[0]}")).status == 200
            order = moved(order, chosen, target, is_after=step == AFTER)
        elif step == PLACE and services:
            service = services[other % len(services)]
            assert (await place(shared, chosen[0], service)).status == 200
            for _, inside in order:
                inside[:] = [one for one in inside if one != service]
            chosen[1].append(service)
        elif step == ADD:
            service = await shared.database(environment)
            placed = (await stage_of(shared, service))["id"]
            next(inside for id, inside in order if id == placed).append(service)
        elif step == REMOVE and services:
            service = services[other % len(services)]
            assert (await shared.delete(f"/database/{service}")).status == 204
            for _, inside in order:
                inside[:] = [one for one in inside if one != service]
    listed = await stages(shared, environment)
    shown = [(stage["id"], sorted(one["service_id"] for one in stage["services"])) for stage in listed]
    assert shown == [(id, sorted(inside)) for id, inside in order]
    assert [stage["deployment_order"] for stage in listed] == [*range(1, len(order) + 1)]


@given(order=st.lists(st.integers(), unique=True, min_size=1), data=st.data())
def test_a_move_keeps_all_others_in_their_order(order: list[int], data: st.DataObject):
    subject, other = data.draw(st.sampled_from(order)), data.draw(st.sampled_from(order))
    after = data.draw(st.booleans())
    new = moved(order, subject, other, is_after=after)
    assert [item for item in new if item != subject] == [item for item in order if item != subject]
    assert sorted(new) == sorted(order)
    if subject != other:
        assert new.index(subject) - new.index(other) == (1 if after else -1)


@rows(
    ("stages", "precedence", "expected"),
    [
        ([("a", 0), ("b", 1), ("c", 2)], 1, "b"),
        ([("x", -1), ("c", 2), ("a", 0)], 1, "c"),
        ([("a", 0), ("b", 1), ("x", -1)], 2, "b"),
        ([("x", -1), ("y", -1)], 0, "y"),
    ],
)
def test_a_deleted_default_stage_is_replaced_by_the_next_one(
    stages: list[tuple[str, int]], precedence: int, expected: str
):
    assert stage_for(stages, precedence) == expected


def test_each_precedence_has_a_default_stage_in_its_order():
    assert [stage.name for stage in DEFAULT_STAGES.values()] == DEFAULTS
    assert [*DEFAULT_STAGES] == sorted(DEFAULT_STAGES)
