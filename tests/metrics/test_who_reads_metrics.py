"""Metrics name the services of all organizations: only the operator and Prometheus read them."""

from __future__ import annotations

import pytest

from tests.world import World, make_world

TOKEN = "read-by-prometheus-and-nobody-else"
PATHS = ("/metrics", "/api/v1/metrics", "/compat/metrics")


async def statuses(world: World, token: str | None) -> set[int]:
    return {(await world.get(path, token=token)).status for path in PATHS}


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, metrics_token=TOKEN) as made:
        yield made


async def test_metrics_are_read_with_their_token_or_by_the_operator(world: World) -> None:
    _, admin_of_other = await world.organization()
    assert await statuses(world, f"Bearer {TOKEN}") == {200}
    assert await statuses(world, TOKEN) == {200}
    assert await statuses(world, world.token) == {200}
    assert await statuses(world, await world.new_token("Admin")) == {200}
    assert await statuses(world, admin_of_other) == {403}
    assert await statuses(world, await world.new_token("Read")) == {403}
    limited = await world.new_token("Admin", limited_to=[await world.project()])
    assert await statuses(world, limited) == {403}
    assert await statuses(world, f"Bearer {TOKEN[:-1]}") == {401}
    assert await statuses(world, None) == {401}


async def test_the_metrics_token_is_refused_for_other_paths(world: World) -> None:
    assert (await world.get("/organization", token=TOKEN)).status == 401


async def test_scrapes_with_the_metrics_token_are_not_rate_limited(database_url: str) -> None:
    async with make_world(database_url, metrics_token=TOKEN, rate_limit=3) as world:
        for _ in range(6):
            assert await statuses(world, TOKEN) == {200}


async def test_without_a_metrics_token_every_credential_is_refused(database_url: str) -> None:
    async with make_world(database_url) as world:
        for token in (None, "", "Bearer ", "Token  ", "Bearer"):
            assert await statuses(world, token) == {401}, token


async def test_metrics_need_no_token_with_the_setting_open_metrics(database_url: str) -> None:
    """The negative control."""
    async with make_world(database_url, open_metrics=True) as world:
        assert await statuses(world, None) == {200}
