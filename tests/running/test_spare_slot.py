"""Deployments wait for few others: one without a build for no builds, an organization or an environment with
nothing under way for none of another, and an environment for nothing that waits in another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar

import pytest

from tests.running.deployments import PORT, deploy, deployed, deployments
from tests.world import REPOSITORY, World, make_world
from windlass.control.background.worker import WorkQueue
from windlass.control.deploying import reconcile, release
from windlass.engines.rollout import engine as rollout
from windlass.store.tables import work

SLOTS = 2
MORE = 3


async def application_of(world: World, org: str, token: str) -> str:
    project = await world.made(f"/organization/{org}/project", {"name": "shop"}, token=token)
    environment = await world.made(f"/project/{project}/environment", {"name": "production"}, token=token)
    body = {"name": "web", "git_repository": {"url": REPOSITORY, "branch": "main"}}
    return await world.made(f"/environment/{environment}/application", body, token=token)


async def another_deploys(world: World) -> None:
    org, token = await world.organization()
    app = await application_of(world, org, token)
    assert (await world.post(f"/application/{app}/deploy", token=token)).status == 202


async def another_environment_deploys(world: World) -> None:
    app = await world.application()
    assert (await world.post(f"/application/{app}/deploy")).status == 202


async def has_begun(world: World, count: int) -> None:
    await reaches(lambda: world.engine.begun, count)


async def reaches(begun: Callable[[], int], count: int) -> None:
    """Waits until so many have begun, and looks that no more do after a while."""
    async with asyncio.timeout(20):
        while begun() < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert begun() == count


@asynccontextmanager
async def busy(database_url: str) -> AsyncIterator[World]:
    """A world in which the engine starts nothing until it is let go, and one organization has deployed more
    applications than there are slots."""
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        world.engine.gate = asyncio.Event()
        environment = await world.environment()
        for app in [await world.application(environment) for _ in range(SLOTS + MORE)]:
            assert (await world.post(f"/application/{app}/deploy")).status == 202
        working = asyncio.create_task(world.installation.worker.run())
        await has_begun(world, SLOTS)
        yield world
        world.engine.gate.set()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await world.settle()


async def test_an_organization_without_running_deployments_gets_a_slot_although_another_uses_all(
    database_url: str,
):
    async with busy(database_url) as world:
        await another_deploys(world)
        await has_begun(world, SLOTS + 1)
    assert world.engine.begun == SLOTS + MORE + 1


async def test_one_spare_slot_is_reserved_for_an_organization_and_one_for_an_environment(database_url: str):
    async with busy(database_url) as world:
        for _ in range(2):
            await another_deploys(world)
        await has_begun(world, SLOTS + 1)
        for _ in range(2):
            await another_environment_deploys(world)
        await has_begun(world, SLOTS + 2)
    assert world.engine.begun == SLOTS + MORE + 4


async def test_an_environment_without_running_deployments_gets_a_slot_although_another_uses_all(
    database_url: str,
):
    async with busy(database_url) as world:
        await another_environment_deploys(world)
        await has_begun(world, SLOTS + 1)


async def test_without_turns_between_environments_one_environment_delays_the_others(monkeypatch):
    monkeypatch.setattr(work, "turn_key", lambda org, environment: org)
    async with busy("") as world:
        await another_environment_deploys(world)
        await has_begun(world, SLOTS)


async def deed_beside_builds(world: World, app: str, *deeds: str) -> list[str]:
    """Does something with a service while builds of its environment hold all slots and more wait. Returns how
    far each has come after a while."""
    gate = world.builder.gate = asyncio.Event()
    environment = str((await world.get(f"/application/{app}"))["environment"]["id"])
    for other in [await world.application(environment) for _ in range(SLOTS + MORE)]:
        assert (await world.post(f"/application/{other}/deploy")).status == 202
    before = len(world.builder.built)
    working = asyncio.create_task(world.installation.worker.run())
    await reaches(lambda: len(world.builder.built) - before, SLOTS)
    found = []
    for deed in deeds:
        assert (await world.post(f"/application/{app}/{deed}")).status == 202
        for _ in range(200):
            await asyncio.sleep(0.001)
            status = str((await deployments(world, app))[0]["status"])
            if status == "SUCCEEDED":
                break
        found.append(status)
    gate.set()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await world.settle()
    return found


async def test_deployments_without_a_build_do_not_wait_for_builds_of_their_environment(database_url: str):
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        app = await deployed(world)
        world.git.push("second")
        await deploy(world, app)
        await world.settle()
        deeds = "rollback", "restart-service", "stop", "uninstall"
        assert await deed_beside_builds(world, app, *deeds) == ["SUCCEEDED"] * len(deeds)


async def test_without_a_separate_build_queue_a_stop_waits_for_builds(monkeypatch):
    monkeypatch.setattr(reconcile, "is_for_builds", lambda queue: True)
    monkeypatch.setattr(work, "builds_beside", abs)
    async with make_world(parallel_deployments=SLOTS) as world:
        assert await deed_beside_builds(world, await deployed(world), "stop") == ["QUEUED"]


@pytest.mark.parametrize("waits", [True, False])
async def test_builds_waiting_for_the_builder_do_not_delay_other_organizations(
    database_url: str, waits: bool
):
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        builder = world.builder
        held = asyncio.Event()
        builder.turn, builder.gate = (held, None) if waits else (None, held)
        environment = await world.environment()
        for app in [await world.application(environment) for _ in range(SLOTS + MORE)]:
            assert (await world.post(f"/application/{app}/deploy")).status == 202
        working = asyncio.create_task(world.installation.worker.run())
        await reaches(lambda: len(builder.built), SLOTS)
        for _ in range(3):
            await another_deploys(world)
        await reaches(lambda: len(builder.built), SLOTS + (3 if waits else 1))
        held.set()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await world.settle()
    assert len(builder.built) >= SLOTS + MORE + 3


@asynccontextmanager
async def never_ready(world: World, begun: int = SLOTS + 2) -> AsyncIterator[None]:
    """More applications than there are slots restart in one environment, and one in each of two others, and
    none becomes ready: the first environment has as many under way as there are slots."""
    environments = [await world.environment() for _ in range(3)]
    homes = [*environments[:1] * (SLOTS + MORE), *environments[1:]]
    apps = [await deployed(world, environment=environment) for environment in homes]
    world.engine.probes.problem = "it does not answer on port 8080"
    for app in apps:
        assert (await world.post(f"/application/{app}/restart-service")).status == 202
    before = world.engine.begun
    working = asyncio.create_task(world.installation.worker.run())
    await reaches(lambda: world.engine.begun - before, begun)
    yield
    world.engine.probes.problem = ""
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await world.settle()


async def ends(world: World, app: str, deed: str, token: str | None = None) -> str:
    """Does something with a service. Returns how far it has come after a while."""
    options = {"token": token} if token else {}
    assert (await world.post(f"/application/{app}/{deed}", **options)).status == 202
    for _ in range(60):
        await asyncio.sleep(0.001)
        status = str((await world.get(f"/application/{app}/deployment", **options))["results"][0]["status"])
        if status == "SUCCEEDED":
            break
    return status


async def test_releases_waiting_for_readiness_do_not_delay_other_environments(database_url: str):
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        others = [await deployed(world) for _ in range(3)]
        org, token = await world.organization()
        of_another = await application_of(world, org, token)
        await world.post(f"/application/{of_another}/deploy", token=token)
        await world.settle()
        async with never_ready(world):
            assert [await ends(world, app, "stop") for app in others] == ["SUCCEEDED"] * 3
            assert await ends(world, of_another, "stop", token) == "SUCCEEDED"


async def stop_beside_a_slow_neighbour(world: World, begun: int = SLOTS + 2) -> str:
    """Stops a service while another one of its environment, and more in others than there are slots, wait
    until they are ready. Returns how far it comes."""
    home = await world.environment()
    slow, other = [await deployed(world, environment=home) for _ in range(2)]
    async with never_ready(world, begun):
        assert (await world.post(f"/application/{slow}/restart-service")).status == 202
        async with asyncio.timeout(20):
            while (await deployments(world, slow))[0]["status"] == "QUEUED":  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        return await ends(world, other, "stop")


async def test_a_slow_release_does_not_delay_other_environments(database_url: str):
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        assert await stop_beside_a_slow_neighbour(world) == "SUCCEEDED"


async def test_if_waiting_releases_kept_their_slot_another_environment_would_wait(monkeypatch):
    monkeypatch.setattr(WorkQueue, "room", property(lambda queue: queue.slots - len(queue.running)))
    async with make_world(parallel_deployments=SLOTS) as world:
        assert await stop_beside_a_slow_neighbour(world, begun=SLOTS + 1) == "QUEUED"


async def test_if_never_ready_releases_kept_their_slot_a_stop_would_wait(monkeypatch):
    async with make_world(parallel_deployments=SLOTS) as world:
        other = await deployed(world)
        monkeypatch.setattr(release, "waiting", ContextVar("deaf", default=nullcontext))
        async with never_ready(world, begun=SLOTS + 1):
            assert await ends(world, other, "stop") == "QUEUED"


async def stop_beside_programs_that_do_not_end(world: World, *, by_command: bool = False) -> str:
    """Stops a service while more organizations than there are slots wait until their programs end. Returns
    how far it comes."""
    apps = []
    for _ in range(SLOTS + 3):
        org, token = await world.organization()
        apps.append((await application_of(world, org, token), token))
        assert (await world.post(f"/application/{apps[-1][0]}/deploy", token=token)).status == 202
    await world.settle()
    (own, token), *stubborn = apps
    held = asyncio.Event()
    if by_command:
        for app, of_another in stubborn:
            command = {"deployment.lifecycle.pre_stop_exec_command": ["sleep", "1000"]}
            await world.put(f"/application/{app}/advancedSettings", command, token=of_another)

        async def execute(*_: object) -> tuple[int, str]:
            await held.wait()
            return 0, ""

        world.engine.execute = execute  # type: ignore[assignment, method-assign]
    else:
        world.engine.leaving = {app: held for app, _ in stubborn}
    working = asyncio.create_task(world.installation.worker.run())
    for app, of_another in stubborn:
        assert await ends(world, app, "stop", of_another) != "SUCCEEDED"
    found = await ends(world, own, "stop", token)
    held.set()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await world.settle()
    return found


@pytest.mark.parametrize("by_command", [True, False])
async def test_programs_that_do_not_end_do_not_delay_other_organizations(database_url: str, by_command: bool):
    """The owner of a service chooses how long its programs, and its command before the stop, may take."""
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        assert await stop_beside_programs_that_do_not_end(world, by_command=by_command) == "SUCCEEDED"


async def test_if_ending_programs_kept_their_slot_another_organization_would_wait(monkeypatch):
    for module in (rollout, release):
        monkeypatch.setattr(module, "waiting", ContextVar("deaf", default=nullcontext))
    async with make_world(parallel_deployments=SLOTS) as world:
        assert await stop_beside_programs_that_do_not_end(world) == "QUEUED"


async def test_first_deployments_that_never_become_ready_do_not_delay_builds_of_others(database_url: str):
    async with make_world(database_url, parallel_deployments=SLOTS) as world:
        world.engine.probes.problem = "it does not answer on port 8080"
        environment = await world.environment()
        for app in [await world.application(environment, ports=[PORT]) for _ in range(SLOTS + MORE)]:
            assert (await world.post(f"/application/{app}/deploy")).status == 202
        working = asyncio.create_task(world.installation.worker.run())
        await has_begun(world, SLOTS)
        for _ in range(3):
            await another_environment_deploys(world)
            await another_deploys(world)
        await has_begun(world, SLOTS + 6)
        world.engine.probes.problem = ""
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await world.settle()


async def test_a_build_order_contains_the_environment_for_its_turn(world: World):
    environment = await world.environment()
    app = await world.application(environment)
    await deploy(world, app)
    await world.settle()
    assert [order.environment for order in world.builder.built] == [environment]
