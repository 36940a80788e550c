"""A Windlass with a chart repository, and Helm services in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.builder import FILES_OF_EXAMPLES
from tests.fakes.charts import FakeCharts
from tests.world import REPOSITORY, World, make_world

SOURCE = {"git_repository": {"url": REPOSITORY, "branch": "main"}}


@pytest.fixture
def charts() -> FakeCharts:
    return FakeCharts()


@pytest.fixture
async def world(charts: FakeCharts) -> AsyncIterator[World]:
    async with make_world(out=charts) as made_world:
        made_world.git.files = FILES_OF_EXAMPLES
        yield made_world


async def repository_of(world: World, **fields: Any) -> str:
    body = {"name": world.name("charts"), "kind": "HTTPS", "url": "https://charts.example.com", "config": {}}
    return await world.made(f"/organization/{world.org}/helmRepository", body | fields)


async def release_of(world: World, environment: str | None = None, **fields: Any) -> str:
    environment = environment or await world.environment()
    body = {"name": world.name("release"), "source": SOURCE}
    return await world.made(f"/environment/{environment}/helm", body | fields)


async def stored_chart(world: World, version: str = "1.2.3", **fields: Any) -> dict[str, Any]:
    """The source of a service whose chart is in a repository."""
    repository = await repository_of(world, **fields)
    return {"helm_repository": {"repository": repository, "chart_name": "shop", "chart_version": version}}


async def deployed(world: World, service: str, query: str = "", **body: Any) -> tuple[str, str]:
    """The status and the message of a deployment that has ended."""
    answer = await world.post(f"/helm/{service}/deploy{query}", body)
    assert answer.status == 202, answer
    await world.settle()
    ended = await world.get(f"/helm/{service}/deployment/{answer['id']}")
    return str(ended["status"]), str(ended["message"])
