"""Services that others can reach are read once for each version of their list, and never out of date."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World
from windlass.control.context.neighbours import Neighbours
from windlass.store.tables.lists import ListTable
from windlass.store.tables.resources import ResourceTable

PORT = {"internal_port": 8000}


async def found(world: World, environment: str) -> list[tuple[str, int]]:
    ctx = world.installation.ctx
    main_port = ctx.kinds["application"].main_port
    neighbours = await ctx.neighbours.of(ctx.store.reads, environment, "application", main_port)
    return [(one.name, one.port.internal) for one in neighbours]


async def test_every_change_of_a_services_name_or_port_is_visible_to_other_services(world: World):
    environment = await world.environment()
    app = await world.application(environment, name="one", ports=[PORT])
    assert await found(world, environment) == [("one", 8000)]
    await world.call("PATCH", f"/application/{app}", {"name": "two"})
    assert await found(world, environment) == [("two", 8000)]
    await world.call("PATCH", f"/application/{app}", {"ports": [{"internal_port": 9000}]})
    assert await found(world, environment) == [("two", 9000)]
    await world.application(environment, name="three", ports=[PORT])
    assert await found(world, environment) == [("two", 9000), ("three", 8000)]
    await world.delete(f"/application/{app}")
    await world.settle()
    assert await found(world, environment) == [("three", 8000)]


async def test_the_cached_list_of_services_is_read_again_only_after_a_change(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    environment = await world.environment()
    await world.application(environment, ports=[PORT])
    reads: list[str] = []
    read = ResourceTable.of_parent

    async def counted(self: ResourceTable, parent: str, family: str) -> Any:
        reads.append(family)
        return await read(self, parent, family)

    monkeypatch.setattr(ResourceTable, "of_parent", counted)
    for _ in range(3):
        await found(world, environment)
    assert reads == ["application"]
    await world.application(environment, ports=[PORT])
    await found(world, environment)
    assert reads.count("application") == 2


async def test_the_test_notices_a_cached_list_that_is_never_refreshed(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    environment = await world.environment()
    app = await world.application(environment, name="one", ports=[PORT])
    await found(world, environment)
    kept = next(iter(world.installation.ctx.neighbours._known.values()))

    async def same(*_: Any) -> Any:
        return kept.version

    monkeypatch.setattr(ListTable, "version", same)
    await world.delete(f"/application/{app}")
    assert await found(world, environment) == [("one", 8000)]
    assert isinstance(world.installation.ctx.neighbours, Neighbours)
