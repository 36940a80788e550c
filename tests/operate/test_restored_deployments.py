"""After a restore of an older backup, services run the version that is in it, and nothing else runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engines.dockers import docker_host, give_python
from tests.engines.test_whole import Shop
from tests.fakes.engine import FakeEngine
from tests.marks import nightly
from tests.operate.installations import settings_of
from tests.repositories import Repository
from tests.whole import Place, Windlass, page, place, until
from tests.world import HandClock, World, make_world
from windlass.control.records.deployments import RECONCILE
from windlass.docker.client import Docker
from windlass.operate.backup import backup, restore


async def deploy(world: World, app: str) -> None:
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def look_at(world: World, app: str) -> None:
    """As a start does."""
    await world.installation.ctx.store.write(lambda tx: tx.work.schedule(RECONCILE, app))
    await world.settle()


@pytest.mark.parametrize("since", [1, 3])
async def test_a_restore_ends_deployments_made_since_the_backup_and_does_not_reuse_their_numbers(
    tmp_path, since
):
    engine, clock, data, file = FakeEngine(), HandClock(), tmp_path / "data", tmp_path / "all.zip"
    data.mkdir()
    async with make_world(folder=data, clock=clock, engine=engine) as world:
        app = await world.application()
        await deploy(world, app)
        await backup(settings_of(world), file)
        for _ in range(since):
            await deploy(world, app)
        assert [*engine.instances] == [(app, 1 + since, 0)]
        settings = settings_of(world)
    await restore(settings, file, force=True)
    async with make_world(folder=data, clock=clock, engine=engine) as world:
        await look_at(world, app)
        assert [*engine.instances] == [(app, 1, 0)]
        await deploy(world, app)
        assert [*engine.instances] == [(app, 2 + since, 0)]


async def test_a_service_not_running_in_the_backup_is_stopped_after_the_restore(tmp_path):
    engine, clock, data, file = FakeEngine(), HandClock(), tmp_path / "data", tmp_path / "all.zip"
    data.mkdir()
    async with make_world(folder=data, clock=clock, engine=engine) as world:
        app = await world.application()
        await backup(settings_of(world), file)
        await deploy(world, app)
        settings = settings_of(world)
    await restore(settings, file, force=True)
    async with make_world(folder=data, clock=clock, engine=engine) as world:
        await look_at(world, app)
        assert not engine.instances
        await deploy(world, app)
        assert [*engine.instances] == [(app, 2, 0)]


@pytest.fixture(params=["process", *nightly("docker")])
async def there(request) -> AsyncIterator[Place]:
    host = docker_host() if request.param == "docker" else ""
    if host:
        docker = Docker(host)
        await give_python(docker)
        await docker.close()
    async with place(request.param, host, git_allow_local=True) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("since", ["deployed", *nightly("stopped")])
async def test_after_a_restore_the_backed_up_version_runs_and_the_next_deployment_runs_its_new_program(
    there: Place, tmp_path: Path, since: str
):
    repository, file = Repository(there.beside / "repository"), tmp_path / "all.zip"
    async with there.windlass() as windlass:
        shop = Shop(windlass, repository)
        shop.push("one")
        await shop.make()
        await shop.do("deploy")
        await backup(there.settings, file)
        if since == "deployed":
            shop.push("two")
            await shop.do("deploy")
        else:
            await shop.do("stop", "STOPPED")
    await restore(there.settings, file, force=True)
    async with there.windlass() as windlass:
        shop.windlass = windlass
        await until(lambda: _shows(shop, "one"))
        await until(lambda: _runs_once(windlass))
        shop.push("three")
        await shop.do("deploy")
        await until(lambda: _shows(shop, "three"))
        await until(lambda: _runs_once(windlass))


async def _shows(shop: Shop, release: str) -> bool:
    return (await page(await shop.url())).text.startswith(release)


async def _runs_once(windlass: Windlass) -> bool:
    return len(await windlass.installation.ctx.places.local.engine.all()) == 1
