"""Servers that share a Docker engine: each has the logs of the deployments that it began, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.running.deployments import deploy
from tests.running.test_place_owner import KEY, look
from tests.world import HandClock, World, make_world

pytestmark = pytest.mark.slow


@pytest.fixture
async def replicas(postgres_url: str, tmp_path):
    clock, engine = HandClock(), FakeEngine()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    same: dict[str, Any] = {"clock": clock, "engine": engine, "owner": "docker:one", "key": KEY}
    url, at = postgres_url, "192.0.2.7"
    async with (
        make_world(url, folder=tmp_path / "one", gateway_host=at, **same) as first,
        make_world(url, folder=tmp_path / "two", **same) as second,
    ):
        await look(first, second)
        yield first, second


async def build_log(world: World, app: str, deployment: str, query: str = "") -> Any:
    return await world.get(f"/application/{app}/deployment/{deployment}/log{query}")


async def test_a_deployment_log_is_read_from_the_server_that_ran_it_and_others_name_that_server(replicas):
    first, second = replicas
    app = await first.application()
    deployment = await deploy(first, app)
    await first.settle()
    here = await build_log(first, app, deployment)
    assert here.status == 200
    assert here["results"]
    for query in ("", "?follow=true"):
        there = await build_log(second, app, deployment, query)
        assert (there.status, there.message) == (
            503,
            "Ask the other server that uses this engine, 192.0.2.7: it began this deployment, and the "
            "log is only there",
        )
    again = await deploy(second, app)
    await second.settle()
    assert (await build_log(second, app, again)).status == 200
