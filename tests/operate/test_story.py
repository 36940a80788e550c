"""The story of an operator: two machines under load, and everything that happens to them in some years."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.engines.dockers import docker_host
from tests.engines.proxies import Proxy, proxied
from tests.faults.grounds import Containers, Ground, Processes
from tests.faults.programs import Code
from tests.operate.story.databases import postgres_pair
from tests.operate.story.machines import next_wheels
from tests.operate.story.proxies import needs_nginx
from tests.operate.story.scene import Scene, scene
from tests.whole import until
from windlass.docker.client import Docker

pytestmark = [pytest.mark.nightly, needs_nginx, pytest.mark.timeout(900)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Every user of the machine may enter it: services and PostgreSQL have users of their own."""
    with tempfile.TemporaryDirectory(prefix="windlass-story-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def servers_restart(story: Scene, number: signal.Signals) -> None:
    """One after the other, while a deployment of it is under way."""
    for index, machine in enumerate(story.machines):
        name = [*story.applications][index]
        deployment = await story.asks_for_deployment(name)
        await machine.end(number)
        await story.api.get_on()
        await machine.start()
        await story.ends(name, deployment)
        await story.all_is_well()


async def servers_are_upgraded(story: Scene, folder: Path) -> None:
    """One after the other. The former version changes nothing after the first has brought the database
    forward."""
    packages = await asyncio.to_thread(next_wheels, folder / "next")
    one, two = story.machines
    gateways = [*one.gateways, *two.gateways]
    await one.end()
    await asyncio.to_thread(one.install, packages)
    await one.start()
    await until(two.is_outdated)
    await story.api.meet_refusal("older than the database")
    await two.end()
    await asyncio.to_thread(two.install, packages)
    await two.start()
    await story.all_is_well()

    async def are_replaced() -> bool:
        return not set(gateways) & {*one.gateways, *two.gateways}

    await until(are_replaced)


async def the_database_fails_over(story: Scene) -> None:
    await story.pair.fail_over()
    for name in story.applications:
        await story.ends(name, await story.asks_for_deployment(name))
    await story.all_is_well()


async def a_machine_with_a_place_is_lost(story: Scene) -> None:
    """A deployment there waits until the machine is back."""
    _, lost = story.machines
    async with story.visitors.excusing("two"):
        await lost.lose_power()
        await story.state_is("two", "UNAVAILABLE", 0)
        await story.state_is("one", "RUNNING", 0)
        deployment = await story.asks_for_deployment("two")
        await story.visitors.see("one")
        await story.api.get_on()
        assert story.visitors.excused_failures, "the control: failures are seen"
        await lost.start()
        await story.ends("two", deployment)
    await story.all_is_well()


async def a_machine_of_several_is_lost(story: Scene) -> None:
    """The other machine has the same place, so all goes on."""
    _, lost = story.machines
    async with story.visitors.excusing_cut_answers():
        await lost.lose_power()
    for name in story.applications:
        await story.ends(name, await story.asks_for_deployment(name))
        await story.state_is(name, "RUNNING", 0)
        await story.visitors.see(name)
    await story.api.get_on()
    await lost.start()
    await story.all_is_well()


async def the_engine_is_away(story: Scene, engine: Proxy) -> None:
    """Its containers go on. A deployment waits until it is back."""
    await engine.vanish()
    deployment = await story.asks_for_deployment("one")
    await story.state_is("two", "UNAVAILABLE")
    for name in story.applications:
        await story.visitors.see(name)
    await story.api.get_on()
    await engine.appear()
    await story.ends("one", deployment)
    await story.all_is_well()


async def nothing_was_lost(story: Scene) -> None:
    await story.api.stop()
    assert story.visitors.failures == []
    assert story.api.failures == []
    names = [name for name in await story.names_of_projects() if name.startswith("project ")]
    assert sorted(names) == sorted(story.api.created), "each request was done once"
    code, answer = await story.machines[0].run("audit", "verify")
    assert code == 0, answer


async def everything_runs_once(story: Scene, grounds: Sequence[Ground]) -> None:
    """Each application is on its ground; with one ground for all, all are there."""
    ids = [*story.applications.values()]
    wanted = [[id] for id in ids] if len(grounds) > 1 else [sorted(ids)]

    async def does() -> bool:
        return [sorted(service for service, *_ in await ground.living()) for ground in grounds] == wanted

    await until(does)


async def test_the_story_of_two_machines_with_processes(folder: Path):
    code = Code(folder / "code")
    async with postgres_pair(folder / "postgres") as pair, scene(folder, pair, code) as story:
        await story.all_is_well()
        await servers_restart(story, signal.SIGTERM)
        await servers_restart(story, signal.SIGKILL)
        await servers_are_upgraded(story, folder)
        await the_database_fails_over(story)
        await a_machine_with_a_place_is_lost(story)
        await nothing_was_lost(story)
        await everything_runs_once(story, [Processes(machine.data) for machine in story.machines])
    assert code.twins == []


async def test_the_story_of_two_machines_with_a_docker_engine(folder: Path):
    code = Code(folder / "code", contained=True)
    host = Docker(docker_host()).host
    ground = Containers(host, folder / "one/data")
    async with (
        ground.watched(),
        proxied(Path(host.removeprefix("unix://")), folder) as engine,
        postgres_pair(folder / "postgres") as pair,
        scene(folder, pair, code, docker=engine.host) as story,
    ):
        await story.all_is_well()
        await servers_restart(story, signal.SIGTERM)
        await servers_restart(story, signal.SIGKILL)
        await servers_are_upgraded(story, folder)
        await the_database_fails_over(story)
        await a_machine_of_several_is_lost(story)
        await the_engine_is_away(story, engine)
        await nothing_was_lost(story)
        await everything_runs_once(story, [ground])
    assert ground.twins == []
