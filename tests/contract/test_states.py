"""Section 3: the states that a client of the contract sees, and when."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.contract import SlowEngine
from tests.contract.rows import row
from tests.world import World, make_world

KINDS = ["application", "database"]


async def made(world: World, kind: str) -> str:
    return f"/{kind}/" + await (world.application() if kind == "application" else world.database())


@row("3.STOPPED")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_that_was_never_deployed_is_stopped(world, kind: str) -> None:
    service = await made(world, kind)
    status = await world.get(f"{service}/status")
    assert status["state"] == "STOPPED"
    assert "last_deployment_date" not in status.json


@row("3.QUEUED")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_that_waits_for_its_deployment_is_queued(world, kind: str) -> None:
    service = await made(world, kind)
    deployment = await world.post(f"{service}/deploy")
    assert deployment["status"] == "QUEUED"
    assert await world.state(service) == "QUEUED"


@row("3.RUNNING", "3.UP_TO_DATE")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_deployed_service_is_running_and_up_to_date(world, kind: str) -> None:
    service = await made(world, kind)
    await world.post(f"{service}/deploy")
    await world.settle()
    status = await world.get(f"{service}/status")
    assert (status["state"], status["service_deployment_status"]) == ("RUNNING", "UP_TO_DATE")
    assert service.rsplit("/", 1)[1] in world.engine.running


@row("3.ERROR")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_that_could_not_be_deployed_is_in_error_and_says_why(world, kind: str) -> None:
    world.engine.broken = "the image has no command to run"
    service = await made(world, kind)
    await world.post(f"{service}/deploy")
    await world.settle()
    status, name = await world.get(f"{service}/status"), (await world.get(service))["name"]
    reason = f"the image has no command to run. No version of {name} serves now"
    assert (status["state"], status["message"]) == ("ERROR", reason)


async def test_a_service_in_error_runs_when_its_next_deployment_succeeds(world) -> None:
    world.engine.broken = "no room"
    service = await made(world, "application")
    await world.post(f"{service}/deploy")
    await world.settle()
    world.engine.broken = ""
    await world.post(f"{service}/deploy")
    assert await world.state(service) == "QUEUED"
    await world.settle()
    status = await world.get(f"{service}/status")
    assert (status["state"], status["message"]) == ("RUNNING", "")


async def test_a_service_that_is_being_deployed_is_neither_queued_nor_running(database_url) -> None:
    engine = SlowEngine()
    async with make_world(database_url, engine=engine) as world:
        service = await made(world, "application")
        await world.post(f"{service}/deploy")
        settling = asyncio.create_task(world.settle())
        await engine.began.wait()
        assert await world.state(service) == "DEPLOYING"
        engine.may_go_on.set()
        await settling
        assert await world.state(service) == "RUNNING"


async def test_a_status_shows_the_full_interfaces_state_in_deployment_state(embedded) -> None:
    service, seen = await made(embedded, "application"), []
    seen.append(await embedded.get(f"{service}/status"))
    await embedded.post(f"{service}/deploy")
    seen.append(await embedded.get(f"{service}/status"))
    await embedded.settle()
    seen.append(await embedded.get(f"{service}/status"))
    embedded.engine.broken = "no room"
    await embedded.post(f"{service}/deploy")
    await embedded.settle()
    seen.append(await embedded.get(f"{service}/status"))
    assert [(status["state"], status["deployment_state"]) for status in seen] == [
        ("STOPPED", "READY"),
        ("QUEUED", "QUEUED"),
        ("RUNNING", "DEPLOYED"),
        ("ERROR", "DEPLOYMENT_ERROR"),
    ]
