"""A place of the engine `docker` belongs to the Docker engine: only servers that use it start services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.engines.dockers import BOX, docker_host, own_engine
from tests.fakes.router import FakeRouter
from tests.world import ADMIN, HandClock, World
from windlass.base.clock import SystemClock
from windlass.config import Settings
from windlass.install.installation import install
from windlass.install.parts import real_parts

pytestmark = pytest.mark.slow
IMAGE, _, TAG = BOX.partition(":")
SLEEPS = {"image_name": IMAGE, "tag": TAG, "arguments": ["sleep", "600"], "memory": 64}


@pytest.fixture
def postgres_url(postgres: Any) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url


@asynccontextmanager
async def server(url: str, folder: Path, host: str) -> AsyncIterator[World]:
    """A server with a Docker engine, and no loops in the background."""
    settings = Settings(
        data_dir=str(folder),
        database_url=url,
        key="ab" * 32,
        admin_token=ADMIN,
        engine="docker",
        settle_seconds=0,
        stop_seconds=1,
    )
    settings = replace(settings, docker_host=host)
    folder.mkdir()
    parts = await real_parts(settings, SystemClock(), "owners")
    installation = await install(settings, parts=replace(parts, router=FakeRouter()))
    try:
        await parts.engine.start(installation.note_change, installation.ctx.logs.take)
        world = World(installation, HandClock(), cast(Any, parts.engine), folder)
        world.org = (await world.get("/organization"))["id"]
        await installation.place_owner.renew()
        yield world
    finally:
        await installation.stop()


async def test_services_of_a_place_start_only_on_servers_with_its_docker_engine(postgres_url, tmp_path):
    host = docker_host()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(server(postgres_url, tmp_path / "first", host))
        with own_engine() as another:
            async with server(postgres_url, tmp_path / "other", another.host) as other:
                environment = await other.environment()
                body = {"name": "box", **SLEEPS}
                path = f"/container/{await other.made(f'/environment/{environment}/container', body)}"
                assert (await other.post(f"{path}/deploy")).status == 202
                await other.settle()
                assert await other.state(path) == "QUEUED"
                assert await other.engine.all() == []
        second = await stack.enter_async_context(server(postgres_url, tmp_path / "second", host))
        await second.settle()
        assert await first.state(path) == "RUNNING"
        assert (await second.delete(path)).status in {202, 204}
        await first.settle()
        assert await first.engine.all() == []
