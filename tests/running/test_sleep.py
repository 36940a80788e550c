"""A service without requests is stopped, and started again by the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.asgi_sockets import opened, opening
from tests.fakes.engine import FakeEngine
from tests.world import World
from windlass.core.words.events import Event
from windlass.gateway.messages import ServiceTraffic
from windlass.routers.router import Absence

PORTS: list[dict[str, Any]] = [{"internal_port": 8080, "publicly_accessible": True}]
MINUTE = 60


async def settings(world: World, service: str, **values: Any) -> None:
    """Replaces the settings for sleep, such as `after_minutes`."""
    body = {f"windlass.sleep.{name}": value for name, value in values.items()}
    answer = await world.put(f"/application/{service}/advancedSettings", body)
    assert answer.status == 201, answer
    await routed(world)


async def routed(world: World) -> None:
    """Sets the routes of all services, as a server does that is told of changes."""
    world.installation.routes.note(await world.installation.ctx.store.reads.statuses.services())
    await world.installation.routes.catch_up(1)


async def deployed(world: World, environment: str | None = None, **fields: Any) -> str:
    app = await world.application(environment, **{"ports": PORTS} | fields)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return app


@pytest.fixture
async def app(world: World) -> str:
    """An application that sleeps after a quarter of an hour."""
    app = await deployed(world)
    await settings(world, app, after_minutes=15)
    return app


def used(world: World, service: str, requests: int, *, idle: float = 0, active: int = 0) -> None:
    """Makes the gateway report that a service was used."""
    buckets = (0,) * 12
    world.router.told[service] = ServiceTraffic(
        service, requests, active, (0, 0, requests - active, 0, 0, 0), buckets, 0.0, idle
    )


async def look(world: World, minutes: float = 0) -> None:
    """Lets time pass, and looks at the requests."""
    world.clock.turn(minutes * MINUTE)
    await world.installation.sleepers.put_unused_to_sleep()
    await world.settle()
    await routed(world)


async def wake(world: World, *services: str) -> None:
    world.router.ask_wakes(services)
    await world.installation.sleepers.wake_asked()
    await world.settle()
    await routed(world)


async def seen(world: World, service: str) -> tuple[str, bool, int]:
    """The state of a service, whether it sleeps, and how many instances run."""
    status = await world.get(f"/application/{service}/status")
    running = [one for one in await world.engine.all() if one.service == service]
    return status["state"], status["sleeping"], len(running)


AWAKE, ASLEEP, STOPPED = ("RUNNING", False, 1), ("STOPPED", True, 0), ("STOPPED", False, 0)


async def test_a_service_without_requests_sleeps_until_the_next_one(world: World, app: str):
    used(world, app, 7)
    await look(world)
    await look(world, 14)
    assert await seen(world, app) == AWAKE
    await look(world, 1)
    assert await seen(world, app) == ASLEEP
    assert {route.absence for route in world.router.routes[app]} == {Absence.SLEEPING}
    await wake(world, app)
    assert await seen(world, app) == AWAKE
    assert all(route.endpoints for route in world.router.routes[app])


async def test_held_requests_go_on_only_once_an_instance_is_ready(world: World, app: str):
    await look(world)
    await look(world, 15)
    world.probes.problem = "it is still starting"
    waking = asyncio.create_task(wake(world, app))
    while not await world.engine.all():  # noqa: ASYNC110 (an engine of tests tells nobody)
        await asyncio.sleep(0.01)
    await routed(world)
    assert {(route.absence, route.endpoints) for route in world.router.routes[app]} == {
        (Absence.SLEEPING, ())
    }
    assert await seen(world, app) == ("STOPPED", True, 1)
    world.probes.problem = ""
    await waking
    assert await seen(world, app) == AWAKE
    assert all(route.endpoints for route in world.router.routes[app])


async def test_nothing_is_put_to_sleep_while_its_engine_is_away(world: World, app: str):
    await look(world)
    world.engine.away = True
    await look(world, 15)
    world.engine.away = False
    assert await seen(world, app) == AWAKE
    await look(world)
    assert await seen(world, app) == ASLEEP


async def test_it_is_stopped_and_sleeping_in_both_vocabularies(world: World, app: str):
    await look(world)
    await look(world, 15)
    for base in ("", "/compat"):
        status = await world.get(f"{base}/application/{app}/status")
        assert (status["state"], status["sleeping"]) == ("STOPPED", True)
        (listed,) = (await world.get(f"{base}/organization/{world.org}/services"))["results"]
        assert (listed["state"], listed["sleeping"]) == ("STOPPED", True)


async def test_requests_and_long_connections_keep_it_awake(world: World, app: str):
    used(world, app, 1)
    for requests in range(2, 6):
        await look(world, 10)
        used(world, app, requests)
    for _ in range(4):
        used(world, app, 5, active=1)
        await look(world, 10)
    assert await seen(world, app) == AWAKE
    used(world, app, 5)
    await look(world, 10)
    assert await seen(world, app) == AWAKE
    await look(world, 15)
    assert await seen(world, app) == ASLEEP


async def test_a_person_with_a_shell_in_it_keeps_it_awake(world: World, app: str):
    await look(world)
    async with opened(world, f"/application/{app}/exec"):
        await look(world, 30)
        assert await seen(world, app) == AWAKE
    await look(world, 14)
    assert await seen(world, app) == AWAKE
    await look(world, 15)
    assert await seen(world, app) == ASLEEP
    async with opening(world, f"/application/{app}/exec") as socket:
        refused = (await socket.answer()).message
        assert "`windlass application redeploy " in refused
        assert "it sleeps, because it had no requests" in refused


async def test_without_the_setting_no_service_sleeps(world: World):
    app = await deployed(world)
    await look(world)
    await look(world, 10_000)
    assert await seen(world, app) == AWAKE


async def test_a_sleeping_service_stays_asleep_while_its_instances_are_compared(world: World, app: str):
    await look(world)
    await look(world, 15)
    world.installation.instance_check.note("local")
    await world.compare_instances()
    await world.run(30)
    assert await seen(world, app) == ASLEEP
    assert not await world.events(Event.BROKE)


async def test_falling_asleep_and_waking_up_are_no_deployments_but_are_told(world: World, app: str):
    path = f"/application/{app}/deployment"
    before = (await world.get(path))["results"]
    await look(world)
    await look(world, 15)
    await wake(world, app)
    assert [one["id"] for one in (await world.get(path))["results"]] == [one["id"] for one in before]
    assert len(await world.events(Event.FELL_ASLEEP)) == len(await world.events(Event.WOKE_UP)) == 1
    lines = [line["message"] for line in (await world.get(f"/application/{app}/log"))["results"]]
    assert [line for line in lines if "sleep" in line or "oken" in line] == [
        "Put to sleep: no requests for 15 minutes. The next one wakes it",
        "Woken by a request",
    ]


async def test_many_requests_wake_it_once(world: World, app: str):
    await look(world)
    await look(world, 15)
    applied = len(world.engine.applied)
    for _ in range(100):
        world.router.ask_wakes([app])
    await world.installation.sleepers.wake_asked()
    for _ in range(5):
        await wake(world, app)
    assert await seen(world, app) == AWAKE
    assert len(await world.events(Event.WOKE_UP)) == 1
    assert len({one.generation for one in world.engine.applied[applied:]}) <= 1


async def test_a_request_does_not_start_what_a_person_has_stopped(world: World, app: str):
    await look(world)
    await look(world, 15)
    await world.post(f"/application/{app}/stop")
    await wake(world, app)
    assert await seen(world, app) == STOPPED
    await wake(world, app)
    assert await seen(world, app) == STOPPED


async def test_a_request_does_not_start_what_running_hours_have_stopped(world: World):
    """The control: before the stop, a request wakes it."""
    environment = await world.environment()
    app = await deployed(world, environment)
    await settings(world, app, after_minutes=15)
    rule = {
        "auto_stop": True,
        "timezone": "UTC",
        "start_time": "1970-01-01T08:00:00.000Z",
        "stop_time": "1970-01-01T19:00:00.000Z",  # it is 14:13
        "weekdays": ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY"],
    }
    await world.put(f"/environment/{environment}/deploymentRule/current", rule)
    await look(world)
    await look(world, 15)
    await wake(world, app)
    assert await seen(world, app) == AWAKE
    await look(world, 15)
    assert await seen(world, app) == ASLEEP
    await look(world, 5 * 60)
    assert await seen(world, app) == STOPPED
    await wake(world, app)
    assert await seen(world, app) == STOPPED
    await look(world, 13 * 60)
    assert await seen(world, app) == AWAKE


@pytest.mark.parametrize("action", ["deploy", "redeploy", "restart-service"])
async def test_a_person_wakes_it_by_a_deployment(world: World, app: str, action: str):
    await look(world)
    await look(world, 15)
    answer = await world.post(f"/application/{app}/{action}")
    assert answer.status == 202, answer
    await world.settle()
    assert await seen(world, app) == AWAKE


async def test_the_present_version_serves_while_the_next_one_is_built(world: World, app: str):
    await look(world)
    await look(world, 15)
    world.git.broken = "the build breaks"
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    status = await world.get(f"/application/{app}/status")
    assert (status["state"], status["sleeping"], status["running_instances"]) == ("ERROR", False, 1)
    await routed(world)
    assert all(route.endpoints for route in world.router.routes[app])


async def test_a_stop_that_is_cancelled_leaves_it_asleep(world: World, app: str):
    await look(world)
    await look(world, 15)
    stopped = await world.post(f"/application/{app}/stop")
    await world.post(f"/application/{app}/deployment/{stopped['id']}/cancel")
    assert (await world.get(f"/application/{app}/status"))["state"] == "STOPPED"
    await wake(world, app)
    assert await seen(world, app) == AWAKE


async def test_a_deleted_service_is_not_woken(world: World, app: str):
    await look(world)
    await look(world, 15)
    await world.delete(f"/application/{app}")
    await wake(world, app)
    assert (await world.get(f"/application/{app}")).status == 404
    assert not await world.engine.all()


async def test_a_service_that_does_not_start_says_why_and_is_tried_again(world: World, app: str):
    await look(world)
    await look(world, 15)
    world.engine.broken = "no room"
    await wake(world, app)
    status = await world.get(f"/application/{app}/status")
    assert (status["state"], status["sleeping"]) == ("ERROR", False)
    assert "no room" in status["message"]
    world.engine.broken = ""
    await world.run(40)
    assert await seen(world, app) == AWAKE


async def test_the_last_request_is_known_after_a_restart(make_world_with, tmp_path):
    async with make_world_with(folder=tmp_path) as world:
        app = await deployed(world)
        await settings(world, app, after_minutes=15)
        used(world, app, 3)
        await look(world)
        clock, engine, told = world.clock, world.engine, dict(world.router.told)
    clock.turn(10 * MINUTE)
    async with make_world_with(folder=tmp_path, clock=clock, engine=engine) as world:
        world.router.told[app] = replace(told[app], idle=10.0 * MINUTE)
        await routed(world)
        await look(world)
        assert await seen(world, app) == AWAKE
        await look(world, 4)
        assert await seen(world, app) == AWAKE
        await look(world, 1)
        assert await seen(world, app) == ASLEEP
        await wake(world, app)
        assert await seen(world, app) == AWAKE


async def test_a_new_gateway_lets_no_service_sleep_at_once(world: World, app: str):
    """A machine was off for a day. The control: had the gateway counted on, the service would sleep."""
    used(world, app, 3)
    await look(world)
    world.router.told.clear()
    world.router.age = 0
    world.clock.turn(24 * 60 * MINUTE)
    await look(world)
    assert await seen(world, app) == AWAKE
    world.router.age = 4 * MINUTE
    await look(world, 4)
    assert await seen(world, app) == AWAKE
    world.router.age = 5 * MINUTE
    await look(world, 1)
    assert await seen(world, app) == ASLEEP


async def log_of(world: World, service: str) -> str:
    lines = (await world.get(f"/application/{service}/log"))["results"]
    return "\n".join(line["message"] for line in lines)


@pytest.mark.parametrize(
    ("ports", "reason"),
    [
        ([{"internal_port": 5432, "publicly_accessible": True, "protocol": "TCP"}], "protocol TCP"),
        (
            [*PORTS, {"internal_port": 53, "publicly_accessible": True, "protocol": "UDP"}],
            "protocol UDP",
        ),
        ([{"internal_port": 8080, "publicly_accessible": False}], "only other services can call it"),
    ],
)
async def test_a_service_that_is_called_by_tcp_sleeps_only_if_its_owner_says_so(world: World, ports, reason):
    app = await deployed(world, ports=ports)
    await settings(world, app, after_minutes=15)
    await look(world)
    await look(world, 15)
    await look(world, 15)
    assert await seen(world, app) == AWAKE
    assert (await log_of(world, app)).count(reason) == 1
    await settings(world, app, after_minutes=15, although_called=True)
    await look(world)
    assert await seen(world, app) == ASLEEP


@pytest.mark.parametrize("variable", ["{{KEY}}", "http://api:8080", "tcp://guest@api/", "api:8080"])
async def test_a_service_that_variables_of_another_one_name_does_not_sleep(world: World, variable: str):
    environment = await world.environment()
    app = await deployed(world, environment, name="api")
    other = await world.application(environment, name="shop")
    key = f"WINDLASS_APPLICATION_Z{app[:8].upper()}_HOST_INTERNAL"
    body = {"key": "API", "value": variable.replace("KEY", key)}
    assert (await world.post(f"/application/{other}/environmentVariable", body)).status == 201
    await settings(world, app, after_minutes=15)
    await look(world)
    await look(world, 15)
    assert await seen(world, app) == AWAKE
    assert "variables of shop name it" in await log_of(world, app)


async def test_other_variables_keep_no_service_awake(world: World):
    environment = await world.environment()
    app = await deployed(world, environment, name="api")
    other = await world.application(environment, name="shop")
    for number, value in enumerate(("api", "http://api.example.com", "https://other/api/", "my-api:80")):
        body = {"key": f"API_{number}", "value": value}
        assert (await world.post(f"/application/{other}/environmentVariable", body)).status == 201
    await settings(world, app, after_minutes=15)
    await look(world)
    await look(world, 15)
    assert await seen(world, app) == ASLEEP


async def test_calls_that_do_not_pass_the_gateway_keep_it_awake(make_world_with):
    """The control: beside a database alone, it sleeps, because databases call no service."""
    async with make_world_with(engine=FakeEngine("image")) as world:
        environment = await world.environment()
        app = await deployed(world, environment, name="api")
        await world.database(environment)
        await settings(world, app, after_minutes=15)
        await look(world)
        await look(world, 15)
        assert await seen(world, app) == ASLEEP
        await wake(world, app)
        await world.application(environment, name="shop")
        await look(world, 15)
        assert await seen(world, app) == AWAKE
        assert "shop can call it without the gateway" in await log_of(world, app)


async def test_a_worker_without_a_port_never_sleeps_because_nothing_could_wake_it(world: World):
    app = await deployed(world, ports=[])
    await settings(world, app, after_minutes=15, although_called=True)
    await look(world)
    await look(world, 15)
    assert await seen(world, app) == AWAKE
    assert "no request could wake it" in await log_of(world, app)


@pytest.mark.parametrize("minutes", [-1, 10_081, "15", None, 1.5])
async def test_a_wrong_number_of_minutes_is_refused(world: World, app: str, minutes: Any):
    body: Mapping[str, Any] = {"windlass.sleep.after_minutes": minutes}
    answer = await world.put(f"/application/{app}/advancedSettings", body)
    assert answer.status == 400
    assert "windlass.sleep.after_minutes" in answer.message


async def test_the_setting_acts_at_once(world: World, app: str):
    used(world, app, 1)
    await look(world)
    await look(world, 10)
    await settings(world, app, after_minutes=5)
    await look(world)
    assert await seen(world, app) == ASLEEP
    await settings(world, app)
    await wake(world, app)
    await look(world, 10_000)
    assert await seen(world, app) == AWAKE
