"""The engine goes away during a build, a start and a stop, and comes back: everything is done then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engines.dockers import BOX, docker_host, own_engine
from tests.engines.proxies import proxied
from tests.faults.inside import Inside, Service, inside, until
from tests.faults.test_killed import FULL
from tests.whole import Containers
from tests.world import World
from windlass.docker.client import Docker

DOCKERFILE = f"FROM {BOX}\nRUN echo begun; sleep 2\nCMD trap exit TERM; while true; do sleep 0.1; done\n"
AWAY = 1.0
"""Seconds."""


class Fickle:
    """An engine that is away for a while after a server has reached a point."""

    def __init__(self, leave: Callable[[], Any], come_back: Callable[[], Any]) -> None:
        self._leave, self._come_back = leave, come_back
        self.at = ""
        self.left = 0

    async def point(self, name: str) -> None:
        if name == self.at:
            self.at = ""
            await self.leaves()

    async def leaves(self) -> None:
        self.left += 1
        await self._leave()
        self._returning = asyncio.create_task(self._returns())

    async def _returns(self) -> None:
        await asyncio.sleep(AWAY)
        await self._come_back()


@asynccontextmanager
async def vanishing(folder: Path) -> AsyncIterator[tuple[str, Fickle]]:
    """Its socket is gone, and it goes on."""
    place = Path(Docker(docker_host()).host.removeprefix("unix://"))
    async with proxied(place, folder) as proxy:
        yield proxy.host, Fickle(proxy.vanish, proxy.appear)


@asynccontextmanager
async def dying(folder: Path) -> AsyncIterator[tuple[str, Fickle]]:
    """The server is killed and started again."""
    with own_engine() as engine:

        async def kill() -> None:
            await asyncio.to_thread(engine.kill)

        async def start() -> None:
            await asyncio.to_thread(engine.start)

        yield engine.host, Fickle(kill, start)


@pytest.mark.slow
@pytest.mark.parametrize("away", [vanishing, *([dying] if FULL else [])], ids=lambda way: way.__name__)
async def test_an_engine_that_is_away_during_a_build_a_start_and_a_stop_only_delays_them(
    tmp_path: Path, away
):
    async with away(tmp_path) as (host, fickle):
        given = {"engine": "docker", "docker_host": host, "point": fickle.point}
        async with inside(tmp_path, **given) as there:
            there.code.put({"contained/Dockerfile": DOCKERFILE})
            shop = await there.application("contained")
            building = await shop.ask("deploy")
            await until(lambda: has_begun(there, shop, building))
            await fickle.leaves()
            assert (await shop.ended(building))["status"] == "SUCCEEDED"
            for deed, at in (("redeploy", "about to start"), ("redeploy", "about to retire")):
                fickle.at = at
                assert (await shop.do(deed))["status"] == "SUCCEEDED"
            await shop.runs(1)
            for deed, at in (("stop", "about to retire"), ("uninstall", "about to discard what it stored")):
                fickle.at = at
                assert (await shop.do(deed))["status"] == "SUCCEEDED"
            assert fickle.left == 5
            assert await shop.running() == []
            await there.call("DELETE", shop.path)
            await until(lambda: nothing_is_left(there, host))


async def has_begun(there: Inside, service: Service, deployment: str) -> bool:
    lines = there.ctx.logs.tail(service.id, 100, deployment=deployment)
    return any("begun" in json.loads(line)["message"] for line in lines)


async def nothing_is_left(there: Inside, host: str) -> bool:
    return not await Containers(host, Path(there.ctx.settings.data_dir)).traces()


@pytest.mark.parametrize("deed", ["redeploy", "restart-service", "stop", "uninstall"])
async def test_actions_requested_while_the_engine_is_away_are_done_when_it_is_back(world: World, deed: str):
    app = await world.application()
    path = f"/application/{app}"
    await world.post(f"{path}/deploy")
    await world.settle()
    world.engine.away = True
    asked = await world.post(f"{path}/{deed}")
    await world.installation.worker.start_due()

    async def is_deploying() -> bool:
        return bool((await world.get(f"{path}/deployment/{asked['id']}"))["status"] == "DEPLOYING")

    await until(is_deploying)
    world.engine.away = False
    await world.settle()
    assert (await world.get(f"{path}/deployment/{asked['id']}"))["status"] == "SUCCEEDED"
    assert await world.state(path) == ("RUNNING" if deed in ("redeploy", "restart-service") else "STOPPED")
