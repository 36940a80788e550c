"""A deployment that waits for an engine or builder that is unavailable says so, until it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest

from tests.commands.line import Line
from tests.running.clusters import application_on, cluster, deploy, engine_of
from tests.schemathesis.serving import served
from tests.world import World, make_world
from windlass.builders.builder import BuilderUnavailable
from windlass.control.deploying import ledger, retry_later
from windlass.core.words.events import Event
from windlass.engines.rollout import readiness
from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.start_remedies import LOG_HINT


@asynccontextmanager
async def working(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.installation.worker.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def application(world: World) -> tuple[str, Any]:
    """An application that runs on a cluster, and the engine there."""
    east = await cluster(world)
    app = await application_on(world, east, name="web")
    await deploy(world, app)
    return f"/application/{app}", engine_of(world, east)


async def says(world: World, path: str, name: str, value: str) -> Any:
    """Reads until a field has this value."""
    async with asyncio.timeout(30):
        while str((found := await world.get(path))[name]) != value:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return found


async def said(world: World, path: str, name: str, beginning: str) -> Any:
    """Reads until a field begins so."""
    async with asyncio.timeout(30):
        while not str((found := await world.get(path))[name]).startswith(beginning):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return found


async def waiting(world: World, path: str, action: str) -> str:
    """Starts something that has to wait; returns the path of the deployment."""
    begun = await world.post(f"{path}/{action}")
    assert begun.status == 202, begun
    return f"{path}/deployment/{begun['id']}"


@pytest.mark.parametrize("action", ["redeploy", "stop", "uninstall", "restart-service"])
async def test_status_and_deployment_show_why_they_wait_until_the_wait_ends(action):
    async with make_world() as world:
        path, engine = await application(world)
        engine.away = True
        reason = await reason_of(engine)
        async with working(world):
            deployment = await waiting(world, path, action)
            shown = await says(world, deployment, "message", reason)
            assert shown["status"] == "DEPLOYING"
            assert (await world.get(f"{path}/status"))["message"] == reason
            engine.away = False
            world.clock.turn(retry_later.RETRY_PAUSE_MS / 1000)
            await world.installation.ctx.store.write(lambda tx: _nudge(tx))
            shown = await says(world, deployment, "status", "SUCCEEDED")
        assert shown["message"] == ""
        assert (await world.get(f"{path}/status"))["message"] == ""


async def test_a_build_says_that_its_builder_is_away():
    async with make_world() as world:
        app = await world.application()
        build, is_unavailable = world.builder.build, True

        async def away(*words: Any, **given: Any) -> Any:
            if is_unavailable:
                raise BuilderUnavailable("Ask the operator to start Docker")
            return await build(*words, **given)

        world.builder.build = away
        path = f"/application/{app}"
        async with working(world):
            deployment = await waiting(world, path, "deploy")
            shown = await says(world, deployment, "message", "Ask the operator to start Docker")
            assert shown["status"] == "BUILDING"
            assert (await world.get(f"{path}/status"))["message"] == "Ask the operator to start Docker"
            is_unavailable = False
            shown = await says(world, deployment, "status", "SUCCEEDED")
        assert shown["message"] == ""


@pytest.mark.parametrize(("action", "ends"), [("deploy", "RUNNING"), ("stop", "STOPPED")])
async def test_a_newer_deployment_supersedes_one_whose_program_listens_on_another_port(
    monkeypatch, action, ends
):
    for name in ("CHECK_INTERVAL", "SURE_AFTER"):
        monkeypatch.setattr(readiness, name, 0.0)
    async with make_world() as world:
        path = f"/application/{await world.application(ports=[{'internal_port': 3000}])}"
        world.engine.probes.problem = "it does not answer on port 3000"
        world.engine.probes.listeners = [ListeningPort(8000, "127.0.0.1")]
        async with working(world):
            older = await waiting(world, path, "deploy")
            shown = await said(world, older, "message", "Set ports[0].internal_port to 8000: ")
            log = (await world.get(f"{older}/log"))["results"]
            assert [line["message"] for line in log].count(shown["message"]) == 1
            world.engine.probes.problem = ""
            newer = await waiting(world, path, action)
            await says(world, older, "status", "CANCELED")
            await says(world, newer, "status", "SUCCEEDED")
        assert (await world.get(older))["message"].startswith("Look at v2 of ")
        assert await world.state(path) == ends
        assert len(await world.events(Event.DEPLOYMENT_CANCELLED)) == 1
        assert {instance.generation for instance in world.engine.instances.values()} <= {2}


@pytest.mark.parametrize(("is_walled", "ends"), [(True, "CANCELED"), (False, "DEPLOYING")])
async def test_a_release_that_is_known_to_wait_yields_to_a_newer_deployment(monkeypatch, is_walled, ends):
    """The newer deployment was asked for before."""
    for name in ("CHECK_INTERVAL", "NOTED_AFTER"):
        monkeypatch.setattr(readiness, name, 0.3)
    if not is_walled:
        monkeypatch.setattr(ledger, "yield_to_newer", AsyncMock())
    async with make_world() as world:
        path = f"/application/{await world.application(ports=[{'internal_port': 3000}])}"
        world.engine.probes.problem = "it does not answer on port 3000"
        async with working(world):
            older = await waiting(world, path, "deploy")
            await says(world, older, "status", "DEPLOYING")
            await waiting(world, path, "stop")
            await said(world, older, "message", "Look at " if is_walled else LOG_HINT)
            await says(world, older, "status", ends)
            world.engine.probes.problem = ""


async def test_a_newer_deployment_waits_for_a_running_one_that_is_not_stuck():
    async with make_world() as world:
        path = f"/application/{await world.application()}"
        world.engine.gate = asyncio.Event()
        async with working(world):
            older = await waiting(world, path, "deploy")
            await says(world, older, "status", "DEPLOYING")
            newer = await waiting(world, path, "deploy")
            world.engine.gate.set()
            await says(world, newer, "status", "SUCCEEDED")
        assert (await world.get(older))["status"] == "SUCCEEDED"


async def test_deployment_list_shows_the_state_first_and_the_reason_of_a_wait():
    async with make_world() as world, served(world) as url:
        path, engine = await application(world)
        engine.away = True
        reason = await reason_of(engine)
        windlass = Line(world, url)
        async with working(world):
            await says(world, await waiting(world, path, "redeploy"), "message", reason)
            said = await windlass("deployment", "list", "--application", "web", "--text", width=160)
            status = await windlass("application", "status", "web", "--text")
            engine.away = False
        heading, newest, _ = said.out.splitlines()
        assert heading.split()[0] == "STATUS"
        assert newest.split()[0] == "DEPLOYING"
        assert reason in newest
        assert reason in status.out


async def reason_of(engine: Any) -> str:
    try:
        await engine.all()
    except Exception as error:  # noqa: BLE001 (its words are all that is asked for)
        return str(error)
    raise AssertionError("it is not away")


async def _nudge(tx: Any) -> None:
    tx.nudge("work")
