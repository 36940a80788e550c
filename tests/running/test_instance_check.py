"""Each place compares the instances that should run with those that are there, and nothing stays away
unnoticed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.running.clusters import application_on, cluster, engine_of
from tests.running.clusters import deploy as deploy_on
from tests.running.deployments import deployed, generations
from tests.tables import rows
from tests.tasks import with_tasks
from tests.whole import until
from tests.world import World, make_world
from windlass.control.background.instance_check import compare
from windlass.control.deploying.steps import maintain
from windlass.core.words.events import Event
from windlass.engines.engine import EngineUnavailable
from windlass.engines.workload import Presence
from windlass.store import StatusRow

TWO = {"min_running_instances": 2, "max_running_instances": 2}


async def status(world: World, app: str) -> Any:
    return (await world.get(f"/application/{app}/status")).json


async def test_all_services_are_restarted_after_their_engine_returns_without_instances(world: World):
    apps = [await deployed(world), await deployed(world, **TWO)]
    world.engine.instances.clear()  # without a word, nothing is noticed
    await world.run(60)
    assert [await world.state(f"/application/{app}") for app in apps] == ["RUNNING"] * 2
    assert world.engine.instances == {}
    world.engine.comes_back()
    await world.installation.instance_check.compare_scheduled()
    for app in apps:
        seen = await status(world, app)
        assert (seen["state"], seen["running_instances"]) == ("ERROR", 0)
        assert seen["message"].startswith("Wait until app-")
    await world.compare_instances()
    for app in apps:
        seen = await status(world, app)
        assert (seen["state"], seen["message"]) == ("RUNNING", "")
        assert seen["running_instances"] == seen["instances"]
    assert len(world.engine.instances) == 3
    assert len(await world.events(Event.BROKE)) == len(await world.events(Event.RECOVERED)) == 2


@pytest.mark.parametrize("gone", [1, 2])
async def test_a_slow_start_hides_no_instance_that_runs_and_none_that_does_not(
    world: World, monkeypatch, gone: int
):
    """The control: before the service is checked, the routes and the status are those of two instances."""
    monkeypatch.setattr(maintain, "SLOW_START", 0.01)
    app = await deployed(world, **TWO)
    world.engine.gate = asyncio.Event()
    for key in [*world.engine.instances][:gone]:
        del world.engine.instances[key]

    def endpoints() -> list[int]:
        return [len(route.endpoints) for route in world.router.routes[app] if route.kind == "http"]

    assert endpoints() == [2]
    world.engine.loses(app, 9, "")  # only a notice: there is no such instance
    await world.installation.note_changes()
    checking = asyncio.create_task(world.settle())

    async def is_shown() -> bool:
        seen = await status(world, app)
        expected = (2 - gone, "RUNNING" if gone == 1 else "ERROR")
        return endpoints() == [2 - gone] and (seen["running_instances"], seen["state"]) == expected

    await until(is_shown)
    world.engine.gate.set()
    await checking
    seen = await status(world, app)
    assert (endpoints(), seen["running_instances"], seen["state"], seen["message"]) == ([2], 2, "RUNNING", "")


async def test_a_volume_lost_with_its_engine_is_not_replaced_by_an_empty_one(world: World):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    world.engine.forgets_everything()
    await world.compare_instances()
    seen = await status(world, app)
    assert seen["state"] == "ERROR"
    assert seen["message"].startswith("Bring back the volume")
    assert world.engine.instances == {}


async def test_a_service_that_cannot_be_restarted_shows_the_reason_and_is_retried(world: World):
    app = await deployed(world)
    world.engine.broken = "Pull the image again: it is gone"
    world.engine.forgets_everything()
    await world.compare_instances()
    assert (await status(world, app))["message"] == "Pull the image again: it is gone"
    world.engine.broken = ""
    await world.run(31)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_the_engine_of_a_cluster_that_comes_back_empty_starts_its_services_again(world: World):
    east = await cluster(world)
    app, here = await application_on(world, east), await deployed(world)
    await deploy_on(world, app)
    world.engine.instances.clear()  # that of this machine was not away
    engine_of(world, east).forgets_everything()
    await world.compare_instances()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert len(engine_of(world, east).instances) == 1
    assert generations(world, here) == []


async def test_the_instance_check_restarts_missing_instances_and_ends_surplus_ones(world: World):
    app = await deployed(world, **TWO)
    stopped = await deployed(world)
    left = [one for one in world.engine.instances.values() if one.service == stopped]
    await world.post(f"/application/{stopped}/stop")
    await world.settle()
    world.engine.instances[stopped, 1, 0] = left[0]
    del world.engine.instances[app, 1, 1]
    world.engine.comes_back()
    await world.compare_instances()
    assert generations(world, app) == [1, 1]
    assert generations(world, stopped) == []
    assert await world.state(f"/application/{stopped}") == "STOPPED"


async def test_the_instance_check_calls_the_engine_once_and_writes_nothing_if_all_match(
    world: World, monkeypatch
):
    for _ in range(5):
        await deployed(world)
    calls: list[str] = []

    def counted(verb: str) -> None:
        known = getattr(world.engine, verb)

        def call(*given: Any) -> Any:
            calls.append(verb)
            return known(*given)

        monkeypatch.setattr(world.engine, verb, call)

    for verb in ("present", "observe", "copies"):
        counted(verb)
    writes = world.installation.ctx.store.writes
    world.engine.comes_back()
    await world.installation.instance_check.compare_scheduled()
    assert calls == ["present"]
    assert world.installation.ctx.store.writes == writes
    assert not world.installation._changed


async def test_the_instance_check_runs_when_the_engine_is_back_and_repeats_if_it_was_unavailable(
    world: World,
):
    app = await deployed(world)
    world.engine.instances.clear()
    await world.compare_instances()
    assert generations(world, app) == []
    world.engine.comes_back()
    world.engine.away = True
    await world.compare_instances()
    world.engine.away = False
    await world.compare_instances()
    assert generations(world, app) == [1]


async def test_an_engine_that_fails_the_instance_check_does_not_stop_that_of_others(
    world: World, monkeypatch
):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy_on(world, app)

    async def fails() -> list[Presence]:
        raise EngineUnavailable("it went again")

    monkeypatch.setattr(world.engine, "present", fails)
    world.engine.comes_back()
    engine_of(world, east).forgets_everything()
    await world.compare_instances()
    assert len(engine_of(world, east).instances) == 1


async def test_the_instance_check_ignores_a_service_with_a_waiting_deployment(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/redeploy")
    world.engine.forgets_everything()
    await world.installation.instance_check.compare_scheduled()
    assert not world.installation._changed
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_the_instance_check_ignores_a_run_in_progress(database_url: str):
    async with make_world(database_url, **with_tasks()) as world:
        environment = await world.environment()
        task = await world.made(f"/environment/{environment}/task", {"name": "task"})
        began: list[str] = []

        async def work(workload: Any) -> int:
            began.append(workload.service)
            world.engine.comes_back()
            await world.installation.instance_check.compare_scheduled()
            assert not world.installation._changed
            return 0

        world.engine.work = work
        await world.post(f"/task/{task}/deploy")
        await world.settle()
        assert began == [task]


KEPT = StatusRow(
    id="shop", org="org", state="DEPLOYED", message="", deployment="d", deployments=3, deployed_at=1,
    changed=1, serving="d", instances=2, running=2, ready=2,
)  # fmt: skip
RUNS, WAITS = Presence("shop", 3, True), Presence("shop", 3, False)


@rows(
    ("present", "is_absent", "differs"),
    [
        ([RUNS, RUNS], False, False),
        ([RUNS], False, True),
        ([RUNS, WAITS], False, True),
        ([RUNS, RUNS, RUNS], False, True),
        ([], True, True),
        ([RUNS, RUNS, Presence("shop", 2, True)], False, True),
        ([Presence("shop", 2, True)], True, True),
        ([RUNS, RUNS, Presence("other", 1, True)], False, False),
    ],
)
def test_the_instance_check_reports_a_service_unless_exactly_its_instances_exist(present, is_absent, differs):
    seen = compare([(3, KEPT)], present)
    assert seen.absent == ([KEPT] if is_absent else [])
    assert list(seen.services) == (["shop"] if differs else [])


def test_the_instance_check_does_not_report_an_already_recorded_crash():
    assert not compare([(3, replace(KEPT, running=1))], [RUNS, WAITS]).services


def test_the_instance_check_never_reports_a_static_site_as_absent():
    assert not compare([(3, replace(KEPT, instances=0, running=0, ready=0))], []).absent


async def test_a_service_that_waits_for_its_volume_is_logged_once(world: World, caplog):
    """The control is a service that gets lost meanwhile."""
    gone = "instances that should run are gone"
    await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    world.engine.forgets_everything()
    for _ in range(3):
        await world.compare_instances()
    assert caplog.text.count(gone) == 1
    await deployed(world)
    world.engine.forgets_everything()
    await world.compare_instances()
    assert caplog.text.count(gone) == 2
