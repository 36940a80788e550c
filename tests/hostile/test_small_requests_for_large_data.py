"""An organization above its share of the disk does not add much data by small requests."""

from __future__ import annotations

import pytest

from tests.world import World
from windlass.control.records import deployments
from windlass.control.records.disk_shares import DiskRecord, note_disk

KIB = 1024


async def exceed_share(world: World) -> None:
    record = DiskRecord(1 << 30, {world.org: 2 << 30}, {world.org: 2 << 30})
    ctx = world.installation.ctx
    await ctx.store.write(lambda tx: note_disk(tx, ctx.ownership.place, record))


async def test_small_changes_of_a_large_document_are_refused_above_the_share(world: World):
    app = await world.application(arguments=["x" * 60 * KIB], description="first")
    small = await world.application(description="first")
    await exceed_share(world)
    refused = await world.patch(f"/application/{app}", {"description": "second"})
    assert refused.status == 409
    assert "share" in refused.message
    assert (await world.patch(f"/application/{small}", {"description": "second"})).status == 200
    assert (await world.patch(f"/application/{app}", {"arguments": []})).status == 200
    assert (await world.patch(f"/application/{app}", {"description": "second"})).status == 200
    assert (await world.delete(f"/application/{app}")).status == 204


@pytest.mark.parametrize("is_large", [True, False])
async def test_a_service_with_a_large_workload_is_not_restarted_above_the_share(
    monkeypatch, world: World, is_large: bool
):
    monkeypatch.setattr(deployments, "LARGE_WORKLOAD_BYTES", 16 * KIB)
    app = await world.application()
    value = "x" * (20 if is_large else 2) * KIB
    await world.made(f"/application/{app}/environmentVariable", {"key": "LARGE", "value": value})
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    await exceed_share(world)
    answer = await world.post(f"/application/{app}/restart-service")
    assert answer.status == (409 if is_large else 202), answer
    assert (await world.post(f"/application/{app}/stop")).status == 202
