"""The message of a run that failed says what to do about the lock on the state."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.terraform_services.test_moved_states import ran, service_of
from tests.world import World, make_world
from windlass.engines.workload import Workload
from windlass.store.tables.terraform import StateLock


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made_world:
        yield made_world


async def test_a_failed_run_that_left_its_lock_says_how_to_force_the_unlock(world: World):
    async def lock_and_fail(workload: Workload) -> int:
        lock = StateLock(workload.service, "id", workload.deployment, "apply", "Ada", 0, b"")
        await world.installation.ctx.store.write(lambda tx: tx.terraform.take_lock(lock))
        return 1

    service = await service_of(world)
    world.engine.work = lock_and_fail
    status, message = await ran(world, service)
    assert status == "FAILED"
    assert message.startswith("Deploy with the action FORCE_UNLOCK: the state has been locked for ")
    assert "by v1 of Ada (apply), which has ended" in message


async def test_a_failed_run_without_a_lock_does_not_mention_locks(world: World):
    async def fail(workload: Workload) -> int:
        return 1

    service = await service_of(world)
    world.engine.work = fail
    assert "lock" not in (await ran(world, service))[1]
