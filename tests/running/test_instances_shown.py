"""Statuses and lists of services say how many instances are meant to run, run, and are ready."""

from __future__ import annotations

from typing import Any

from tests.running.deployments import deployed
from tests.world import World

COUNTS = ("instances", "running_instances", "ready_instances")


async def counts(world: World, app: str) -> list[tuple[int, ...]]:
    """The counts of a service, everywhere they are shown."""
    [org] = (await world.get("/organization"))["results"]
    listed = (await world.get(f"/organization/{org['id']}/services"))["results"]
    status: Any = (await world.get(f"/application/{app}/status")).json
    return [
        tuple(shown[name] for name in COUNTS)
        for shown in (status, *(row for row in listed if row["id"] == app))
    ]


async def test_a_service_shows_how_many_of_its_instances_run_and_are_ready(world: World):
    app = await deployed(world, min_running_instances=3, max_running_instances=3)
    assert await counts(world, app) == [(3, 3, 3)] * 2
    world.engine.loses(app, 1, unready="it does not answer on port 80")
    await world.installation.note_changes()
    await world.settle()
    assert await counts(world, app) == [(3, 3, 2)] * 2
    world.engine.ends(app, "exited with code 3")
    await world.installation.note_changes()
    await world.settle()
    assert await counts(world, app) == [(3, 0, 0)] * 2
    world.engine.recovers(app)
    await world.installation.note_changes()
    await world.settle()
    assert await counts(world, app) == [(3, 3, 3)] * 2


async def test_a_service_that_cannot_be_restarted_shows_its_remaining_instances(world: World):
    app = await deployed(world, min_running_instances=2, max_running_instances=2)
    world.engine.broken = "there is no room"
    world.engine.instances.popitem()
    world.installation.note_change(app)
    await world.installation.note_changes()
    await world.settle()
    assert await world.state(f"/application/{app}") == "ERROR"
    assert await counts(world, app) == [(2, 1, 1)] * 2


async def test_a_stopped_service_shows_no_instances(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/stop")
    await world.settle()
    assert await counts(world, app) == [(0, 0, 0)] * 2


async def changed_at(world: World, app: str) -> int:
    status = await world.installation.ctx.store.reads.statuses.get(app)
    assert status is not None
    return status.changed


async def test_counts_that_have_not_changed_are_not_written_again(world: World):
    app = await deployed(world)
    before = await changed_at(world, app)
    world.clock.turn(1)
    world.engine.recovers(app)
    await world.installation.note_changes()
    await world.settle()
    assert await changed_at(world, app) == before
