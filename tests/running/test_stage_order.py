"""Services are deployed stage by stage: those of a stage wait for earlier stages of their request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.running.test_deployment_stages import forget_stages, new_stage, place, stages
from tests.tables import rows
from tests.world import World, make_world
from windlass.control.deploying.dependents import reason_to_wait
from windlass.store import Tx


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


async def deploy(world: World, environment: str) -> None:
    assert (await world.post(f"/environment/{environment}/deploy")).status == 202
    await world.settle()


def order(world: World, *services: str) -> list[str]:
    return [wanted.service for wanted in world.engine.applied if wanted.service in services]


async def reversed_stages(world: World) -> tuple[str, list[str]]:
    """An environment with three applications in stages of their own, the newest first, and a database in the
    last stage."""
    environment = await world.environment()
    services = [await world.application(environment) for _ in range(3)]
    first = (await stages(world, environment))[0]["id"]
    for service in services:
        stage = await new_stage(world, environment, world.name("stage"))
        await world.put(f"/deploymentStage/{stage}/moveBefore/{first}")
        await place(world, stage, service)
        first = stage
    services.reverse()
    services.append(await world.database(environment))
    return environment, services


@rows("verb", ["deploy", "service/deploy"])
async def test_services_are_deployed_in_the_order_of_their_stages(verb: str):
    async with make_world(engine=FakeEngine("image")) as world:
        environment, services = await reversed_stages(world)
        *apps, database = services
        chosen = {"applications": [{"application_id": app} for app in apps], "databases": [database]}
        body = chosen if verb == "service/deploy" else None
        assert (await world.post(f"/environment/{environment}/{verb}", body)).status == 202
        await world.settle()
        assert order(world, *services) == services


async def test_services_of_one_stage_do_not_wait_for_each_other(world: World):
    """The control of the test above."""
    environment, services = await reversed_stages(world)
    last = (await stages(world, environment))[-1]["id"]
    for service in services:
        await place(world, last, service)
    assert (await world.post(f"/environment/{environment}/deploy")).status == 202
    await world.installation.worker.start_due()
    for service in services[:-1]:
        (deployment,) = (await world.get(f"/application/{service}/deployment"))["results"]
        assert "Wait for" not in deployment["message"]
    await world.settle()
    assert sorted(order(world, *services)) == sorted(services)


async def test_a_failure_fails_the_services_of_later_stages_and_no_others(world: World):
    environment, services = await reversed_stages(world)
    await deploy(world, environment)
    name = (await world.get(f"/application/{services[1]}"))["name"]
    world.engine.broken = "there is no room"
    beside = await world.application(environment)
    await place(world, (await stages(world, environment))[0]["id"], beside)
    skipped = (await stages(world, environment))[0]["id"]
    await place(world, skipped, services[0], {"is_skipped": True})
    await place(world, skipped, beside, {"is_skipped": True})
    await deploy(world, environment)
    for service, kind in ((services[2], "application"), (services[3], "database")):
        status = await world.get(f"/{kind}/{service}/status")
        assert status["message"].startswith(f"Fix the application {name}, which comes first: it failed")
    assert await world.state(f"/application/{services[0]}") == "RUNNING"
    running = {one.service for one in world.engine.instances.values()}
    assert running >= {*services}, "the versions before still serve"


async def test_an_environment_of_an_earlier_version_is_deployed_in_the_order_of_the_default_stages(
    world: World,
):
    environment = await world.environment()
    app = await world.application(environment)
    database = await world.database(environment)
    await forget_stages(world, environment)
    await deploy(world, environment)
    assert order(world, app, database) == [database, app]


async def test_a_deployment_reads_all_others_with_one_statement(world: World):
    counts = []
    for number in (2, 12):
        environment = await world.environment()
        for _ in range(number):
            await world.database(environment)
        app = await world.application(environment)
        assert (await world.post(f"/environment/{environment}/deploy")).status == 202
        counts.append(await statements_to_plan(world, app))
        await world.settle()
    assert counts[0] == counts[1] < 6


async def statements_to_plan(world: World, service: str) -> int:
    count = 0

    async def plan(tx: Tx) -> str:
        nonlocal count
        all_rows, one_row = tx.session.all, tx.session.one

        def counting(execute: Any) -> Any:
            async def counted(statement: str, *values: Any) -> Any:
                nonlocal count
                count += 1
                return await execute(statement, *values)

            return counted

        row = await tx.resources.get(service)
        assert row is not None
        (head,) = await tx.deployments.open(service)
        tx.session.all, tx.session.one = counting(all_rows), counting(one_row)
        try:
            return await reason_to_wait(world.installation.ctx, tx, row, head)
        finally:
            tx.session.all, tx.session.one = all_rows, one_row

    assert (await world.installation.ctx.store.write(plan)).startswith("Wait for the database")
    return count
