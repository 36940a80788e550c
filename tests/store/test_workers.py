"""Workers claim work, prolong its lease, retry what fails, and lose what another holds."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.fakes.engine import FakeEngine
from tests.store.claims import KIND, claim, held, one
from tests.store.stores import Place, until
from tests.store.working import Watchful, begun, deployed, kinds
from tests.world import World, make_world
from windlass.base.clock import MINUTE, SECOND
from windlass.control.background.worker import LEASE_TIME, Worker
from windlass.control.deploying.reconcile import reconcile
from windlass.engines.workload import Instance, Workload
from windlass.store import Tx


async def test_a_worker_whose_lease_expired_stores_no_result(world: World, place: Place):
    app = await begun(world)
    world.clock.ms += LEASE_TIME
    second = await one(world.installation.ctx.store)
    before = await place.everything()
    assert world.engine.gate
    world.engine.gate.set()
    await until(lambda: not world.installation.worker.running)
    after = await place.everything()
    # It asks for another look, because the present holder may not know its last action.
    assert {table for table in after if after[table] != before[table]} == {"work"}
    assert await held(world.installation.ctx.store, second)
    assert await claim(world.installation.ctx.store) == []
    assert await world.state(f"/application/{app}") == "DEPLOYING"
    await reconcile(world.installation.ctx, second)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert (await kinds(world))["DEPLOYMENT_SUCCEEDED"] == 1


async def test_the_log_reports_work_that_is_taken_over(world: World, caplog: pytest.LogCaptureFixture):
    app = await begun(world)
    assert "taken over" not in caplog.text
    world.clock.ms += LEASE_TIME
    other = Worker(world.installation.ctx)
    await other.start_due()
    assert "work is taken over" in caplog.text
    assert world.engine.gate
    world.engine.gate.set()
    await until(lambda: not world.installation.worker.running)
    assert "work was taken over by another server" in caplog.text
    assert app in [record.__dict__.get("work") for record in caplog.records]
    await other.stop()


async def test_a_worker_that_is_not_paused_finishes(world: World):
    app = await begun(world)
    assert world.engine.gate
    world.engine.gate.set()
    await until(lambda: not world.installation.worker.running)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_a_worker_that_takes_over_its_own_expired_claim_does_not_run_the_work_twice_concurrently(
    place: Place,
):
    """A machine that slept: the lease ended, and the same process takes the work again."""
    engine = Watchful()
    async with make_world(place.url, engine=engine) as world:
        app = await begun(world)
        world.clock.ms += LEASE_TIME
        await world.installation.worker.start_due()
        await until(lambda: engine.begun == 2)
        assert engine.gate
        engine.gate.set()
        await world.settle()
        assert engine.at_once[app] == 1
        assert await world.state(f"/application/{app}") == "RUNNING"
        assert (await kinds(world))["DEPLOYMENT_SUCCEEDED"] == 1


async def test_a_worker_cancels_work_that_another_worker_has_taken_over(world: World):
    """Its keeper finds out, and does not wait until it wants to write."""
    ended = asyncio.Event()

    async def run(wanted: Workload, index: int) -> Instance:
        world.engine.applied.append(wanted)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    world.engine.run = run  # type: ignore[method-assign]
    await deployed(world, await world.application())
    worker = Worker(world.installation.ctx, lease=90)
    await worker.start_due()
    await until(lambda: world.engine.applied)

    async def taken_over() -> bool:
        """Claims the work after its lease, unless the worker prolonged that in the same moment."""
        world.clock.ms += LEASE_TIME
        return bool(await claim(world.installation.ctx.store))

    await until(taken_over)
    await ended.wait()
    await worker.stop()


async def test_a_worker_prolongs_its_lease_while_it_works(world: World, place: Place):
    world.engine.gate = asyncio.Event()
    await deployed(world, await world.application())
    worker = Worker(world.installation.ctx, lease=90)
    await worker.start_due()
    for _ in range(3):
        world.clock.ms += 60
        await until(partial(_lease_is, place, world.clock.ms + 90))
        assert await claim(world.installation.ctx.store) == []
    await worker.stop()


async def _lease_is(place: Place, ends: int) -> bool:
    return (ends,) in await place.sql("SELECT lease FROM work")


async def test_a_deploy_during_a_deploy_runs_after_it(world: World):
    app = await begun(world)
    second = await deployed(world, app)
    assert len(world.engine.applied) == 1
    assert world.engine.gate
    world.engine.gate.set()
    await world.settle()
    assert [workload.deployment for workload in world.engine.applied][1:] == [second]
    assert (await kinds(world))["DEPLOYMENT_SUCCEEDED"] == 2


async def test_a_lost_nudge_only_delays_work(world: World, place: Place):
    app = await world.application()
    await deployed(world, app)
    await world.settle()
    silent = asyncio.create_task(world.installation.worker.run())
    await until(lambda: _waits(world))

    async def unheard(tx: Tx) -> None:
        await tx.work.schedule(KIND, app, tx.now)
        tx.session.nudges.clear()

    await world.installation.ctx.store.write(unheard)
    await asyncio.sleep(0.05)
    assert await place.sql("SELECT id FROM work WHERE lease > 0") == []
    silent.cancel()
    await asyncio.gather(silent, return_exceptions=True)
    assert await world.installation.worker.start_due() == 1  # as after the end of its minute
    await world.settle()


async def _waits(world: World) -> bool:
    """True once the worker has looked for work and sleeps."""
    worker = world.installation.worker
    return not worker.running and bool(worker._wake._waiters)


async def test_a_nudge_wakes_a_worker_at_once(world: World):
    await world.installation.start()
    app = await world.application()
    await deployed(world, app)
    await until(lambda: app in world.engine.running)


async def test_failed_work_is_retried_with_growing_pauses(
    world: World, place: Place, caplog: pytest.LogCaptureFixture
):
    app = await world.application()
    world.engine.crash = RuntimeError("broken beyond words")
    await deployed(world, app)
    for wait in (1, 5, 30, 300, 300):
        await world.settle()
        assert await place.sql("SELECT due - $1, lease FROM work WHERE id = $2", world.clock.ms, app) == [
            (wait * SECOND, 0)
        ]
        world.clock.turn(wait)
    assert world.engine.begun == 5
    assert "broken beyond words" in caplog.text
    world.engine.crash = None
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_after_a_success_a_worker_retries_with_the_shortest_wait_again(world: World, place: Place):
    app = await world.application()
    waits = []
    for crash in (RuntimeError(), RuntimeError(), None, RuntimeError()):
        world.engine.crash = crash
        await deployed(world, app)
        await world.settle()
        waits += await place.sql("SELECT due - $1 FROM work WHERE id = $2", world.clock.ms, app)
        world.clock.turn(MINUTE)
    assert waits == [(1 * SECOND,), (5 * SECOND,), (1 * SECOND,)]


async def test_a_new_deploy_does_not_wait_for_the_retry(world: World):
    app = await world.application()
    world.engine.crash = RuntimeError()
    await deployed(world, app)
    await world.settle()
    world.engine.crash = None
    await deployed(world, app)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


class Picky(FakeEngine):
    """An engine with which one service crashes."""

    victim = ""

    async def run(self, wanted: Workload, index: int) -> Instance:
        if wanted.service == self.victim:
            raise RuntimeError
        return await super().run(wanted, index)


async def test_failing_work_does_not_delay_other_work(place: Place):
    engine = Picky()
    async with make_world(place.url, engine=engine) as world:
        apps = [await world.application() for _ in range(6)]
        engine.victim = apps[0]
        for app in apps:
            await deployed(world, app)
        await world.settle()
        states = [await world.state(f"/application/{app}") for app in apps]
        assert states == ["DEPLOYING"] + ["RUNNING"] * 5
