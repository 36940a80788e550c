"""Reading lists and statuses costs the same with many variables as with few."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.variables.town import Town, row_of
from windlass.control.context.variable_digests import VariableDigests
from windlass.control.variables.inputs import is_current
from windlass.store import Tx
from windlass.store.tables.resources import ResourceTable
from windlass.store.tables.tree import ResourceTree

LEVELS = ("application", "environment", "project")


@pytest.mark.parametrize("base", ["", "/compat"])
async def test_pages_of_variables_continue_across_levels(town: Town, base: str):
    for level in LEVELS:
        ids = [await town.says(level, f"{level.upper()}_{number}") for number in range(3)]
        await town.world.delete(f"{town.levels[level]}/environmentVariable/{ids[1]}")
    path = f"{base}{town.levels['application']}/environmentVariable"
    whole = (await town.world.get(f"{path}?page_size=100"))["results"]
    assert [one["key"] for one in whole][:6] == [
        f"{level.upper()}_{number}" for level in LEVELS for number in (0, 2)
    ]
    for size in (1, 2, 4, 5):
        pages = [
            await town.world.get(f"{path}?page={number}&page_size={size}")
            for number in range(1, -(-len(whole) // size) + 2)
        ]
        assert [one for page in pages for one in page["results"]] == whole
        assert {page["pagination"]["total_count"] for page in pages} == {len(whole)}


async def test_listing_a_page_of_variables_decodes_only_those_of_the_page(
    town: Town, monkeypatch: pytest.MonkeyPatch
):
    for number in range(3):
        await town.says("project", f"A_{number}")

    async def refused(self: ResourceTable, parent: str, family: str) -> Any:
        raise AssertionError(family)

    monkeypatch.setattr(ResourceTable, "of_parent", refused)
    page = await town.world.get(f"{town.levels['application']}/environmentVariable?page_size=2")
    assert [one["key"] for one in page["results"]] == ["A_0", "A_1"]


async def test_statuses_read_the_variables_of_a_level_again_only_after_a_change(
    town: Town, monkeypatch: pytest.MonkeyPatch
):
    for level in LEVELS:
        await town.says(level, "A")
    ctx, service = town.world.installation.ctx, await row_of(town.world, town.app)
    looks: list[str] = []
    read = ResourceTree.tags

    async def counted(self: ResourceTree, parent: str, families: tuple[str, str]) -> Any:
        looks.append(parent)
        return await read(self, parent, families)

    monkeypatch.setattr(ResourceTree, "tags", counted)
    for _ in range(3):
        await is_current(ctx, ctx.store.reads, service, "2-unknown..")
    assert looks == [town.app, town.env, town.project]
    await town.says("environment", "B", kind="secret")
    await is_current(ctx, ctx.store.reads, service, "2-unknown..")
    assert looks[3:] == [town.env]


async def test_a_rolled_back_change_leaves_no_cached_digest(town: Town):
    variable = await town.says("project", "A")
    reads = town.world.installation.ctx.store.reads
    digests = VariableDigests(reads)

    async def change(tx: Tx, *, undone: bool) -> None:
        row = await tx.resources.get(variable)
        assert row is not None
        await tx.resources.change(replace(row, tag="undone" if undone else "kept"))
        await digests.of(tx, town.app)
        if undone:
            raise RuntimeError("undone")

    store = town.world.installation.ctx.store
    with pytest.raises(RuntimeError, match="undone"):
        await store.write(lambda tx: change(tx, undone=True))
    await store.write(lambda tx: change(tx, undone=False))
    assert await digests.of(reads, town.app) == await VariableDigests(reads).of(reads, town.app)
