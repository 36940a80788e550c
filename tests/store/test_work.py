"""Background work: one worker at a time, taken up by another when the first is gone, never lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from tests.store.stores import Place, until
from tests.world import HandClock, World, make_world
from windlass.base.clock import MINUTE, SECOND
from windlass.base.encryption import new_key
from windlass.control.background.worker import LEASE, Worker
from windlass.control.deploying.reconcile import reconcile
from windlass.core.deploy.workload import Instance, Workload
from windlass.engines.fake import FakeEngine
from windlass.store import Claim, Queue, Store, Tx

KIND = "reconcile"


async def ask(store: Store, id: str = "a", due: int | None = None) -> None:
    await store.write(lambda tx: tx.work.ask(KIND, id, due))


async def claim(store: Store, most: int = 1) -> list[Claim]:
    return await store.write(lambda tx: tx.work.claim(LEASE, most))


async def one(store: Store) -> Claim:
    (claimed,) = await claim(store)
    return claimed


async def next_due(store: Store) -> int | None:
    return (await store.reads.work.due()).get(Queue.RECONCILE)


async def held(store: Store, claimed: Claim) -> bool:
    return await store.write(lambda tx: tx.work.held(claimed))


async def finish(store: Store, claimed: Claim) -> None:
    await store.write(lambda tx: tx.work.done(claimed))


# Lease


async def test_claimed_work_belongs_to_one_worker_until_the_lease_ends(store: Store, clock: HandClock):
    await ask(store)
    first = await one(store)
    clock.ms += LEASE - 1
    assert await claim(store) == []
    clock.ms += 1
    second = await one(store)
    assert (second.id, second.epoch, second.attempts) == (first.id, first.epoch + 1, 2)


async def test_a_lease_can_be_prolonged_by_who_holds_it(store: Store, clock: HandClock):
    await ask(store)
    first = await one(store)
    clock.ms += LEASE - 1
    assert await store.write(lambda tx: tx.work.hold(first, LEASE))
    clock.ms += LEASE - 1
    assert await claim(store) == []


async def test_work_that_is_not_due_is_not_claimed(store: Store, clock: HandClock):
    await ask(store, due=clock.ms + 1)
    assert await claim(store) == []
    assert await next_due(store) == clock.ms + 1
    clock.ms += 1
    assert len(await claim(store)) == 1


async def test_work_that_waits_longest_comes_first_ended_leases_included(store: Store, clock: HandClock):
    await ask(store, "interrupted")
    await one(store)
    clock.ms += LEASE
    for number in range(5):
        await ask(store, f"later-{number}", clock.ms + 1)
    clock.ms += 1
    assert (await one(store)).id == "interrupted"


async def test_the_next_work_is_the_next_due_or_the_next_end_of_a_lease(store: Store, clock: HandClock):
    assert await next_due(store) is None
    await ask(store, "a")
    assert await next_due(store) == clock.ms
    await one(store)
    assert await next_due(store) == clock.ms + LEASE
    await ask(store, "b", clock.ms + 5)
    assert await next_due(store) == clock.ms + 5


# Asking


async def test_asking_twice_is_asking_once(store: Store):
    await ask(store)
    await ask(store)
    await finish(store, await one(store))
    assert await claim(store) == []


async def test_asking_again_brings_it_forward_and_never_puts_it_off(store: Store, clock: HandClock):
    await ask(store, due=clock.ms + 100)
    await ask(store, due=clock.ms + 5)
    await ask(store, due=clock.ms + 100)
    assert await next_due(store) == clock.ms + 5


async def test_work_that_is_asked_for_while_it_runs_runs_once_more(store: Store, place: Place):
    await ask(store)
    first = await one(store)
    await ask(store)
    assert await claim(store) == []
    await finish(store, first)
    second = await one(store)
    assert second.attempts == 1
    await finish(store, second)
    assert await claim(store) == []
    assert await place.sql("SELECT * FROM work") == []


async def test_work_that_is_asked_for_while_it_runs_is_not_lost_with_its_worker(
    store: Store, clock: HandClock
):
    await ask(store)
    await one(store)
    await ask(store)
    clock.ms += LEASE
    await finish(store, await one(store))
    assert await claim(store) == []


# Fencing


async def everything_that_a_holder_may_do(store: Store, claimed: Claim) -> bool:
    """Whether any of it had an effect."""
    effects = [
        await held(store, claimed),
        await store.write(lambda tx: tx.work.hold(claimed, 100 * LEASE)),
    ]
    await store.write(lambda tx: tx.work.again(claimed, tx.now))
    await finish(store, claimed)
    return any(effects)


async def test_a_worker_that_was_paused_past_its_lease_can_do_nothing(
    store: Store, place: Place, clock: HandClock
):
    await ask(store)
    paused = await one(store)
    clock.ms += LEASE
    second = await one(store)
    before = await place.sql("SELECT * FROM work")
    assert not await everything_that_a_holder_may_do(store, paused)
    assert await place.sql("SELECT * FROM work") == before
    assert await held(store, second)


async def test_a_worker_that_holds_its_claim_can_do_all_of_that(store: Store, place: Place):
    await ask(store)
    assert await everything_that_a_holder_may_do(store, await one(store))
    assert await claim(store) != []


async def test_an_old_claim_stays_void_when_the_work_was_finished_and_asked_for_again(
    store: Store, place: Place, clock: HandClock
):
    """The row was deleted in between: its numbers must not begin again where they once began."""
    await ask(store)
    paused = await one(store)
    clock.ms += LEASE
    await finish(store, await one(store))
    await ask(store)
    await one(store)
    before = await place.sql("SELECT * FROM work")
    assert not await everything_that_a_holder_may_do(store, paused)
    assert await place.sql("SELECT * FROM work") == before


async def test_a_worker_that_let_go_holds_the_claim_no_more(store: Store, clock: HandClock):
    await ask(store)
    claimed = await one(store)
    await store.write(lambda tx: tx.work.again(claimed, tx.now + MINUTE))
    assert not await everything_that_a_holder_may_do(store, claimed)
    assert await next_due(store) == clock.ms + MINUTE


# After a restart


async def test_on_the_embedded_database_a_start_takes_up_at_once_what_was_interrupted(
    embedded: Place, clock: HandClock
):
    """One process owns the file: whoever held work is no more."""
    async with embedded.opened(clock) as store:
        await ask(store, "interrupted")
        await ask(store, "later", clock.ms + MINUTE)
        killed = await one(store)
    async with embedded.opened(clock) as store:
        assert not await held(store, killed)
        taken = await one(store)
        assert (taken.id, taken.epoch) == ("interrupted", killed.epoch + 1)
        assert await claim(store) == []


async def test_on_postgresql_the_start_of_a_replica_leaves_the_others_their_work(
    served: Place, clock: HandClock
):
    async with served.opened(clock) as store:
        await ask(store)
        claimed = await one(store)
        async with served.opened(clock) as other:
            assert await claim(other) == []
        assert await held(store, claimed)


# The worker, in a whole Windlass


class Watchful(FakeEngine):
    """An engine that sees when two do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()

    async def run(self, wanted: Workload, index: int) -> Instance:
        self.busy[wanted.service] += 1
        self.at_once[wanted.service] = max(self.at_once[wanted.service], self.busy[wanted.service])
        try:
            await asyncio.sleep(0.002)
            return await super().run(wanted, index)
        finally:
            self.busy[wanted.service] -= 1


async def deployed(world: World, app: str) -> str:
    answer = await world.post(f"/application/{app}/deploy")
    assert answer.status == 202
    return str(answer["id"])


async def begun(world: World) -> str:
    """An application whose deployment is in the engine's hands, and stays there."""
    world.engine.gate = asyncio.Event()
    app = await world.application()
    await deployed(world, app)
    await world.installation.worker.start_due()
    await until(lambda: world.engine.applied)
    return app


async def kinds(world: World) -> Counter[str]:
    return Counter(event.kind for event in await world.events() if event.kind.startswith("DEPLOYMENT_"))


async def test_a_worker_that_was_paused_past_its_lease_changes_nothing(world: World, place: Place):
    app = await begun(world)
    world.clock.ms += LEASE
    second = await one(world.installation.ctx.store)
    before = await place.everything()
    assert world.engine.gate
    world.engine.gate.set()
    await until(lambda: not world.installation.worker.running)
    after = await place.everything()
    # It asks for another look, for whoever holds the work now may not know of what it did last; that is all.
    assert {table for table in after if after[table] != before[table]} == {"work"}
    assert await held(world.installation.ctx.store, second)
    assert await claim(world.installation.ctx.store) == []
    assert await world.state(f"/application/{app}") == "DEPLOYING"
    await reconcile(world.installation.ctx, second)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert (await kinds(world))["DEPLOYMENT_SUCCEEDED"] == 1


async def test_a_worker_that_is_not_paused_finishes(world: World):
    app = await begun(world)
    assert world.engine.gate
    world.engine.gate.set()
    await until(lambda: not world.installation.worker.running)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_a_worker_that_lost_a_claim_to_itself_does_not_do_the_work_twice_at_once(place: Place):
    """A machine that slept: the lease ended, and the same process takes the work again."""
    engine = Watchful()
    async with make_world(place.url, engine=engine) as world:
        app = await begun(world)
        world.clock.ms += LEASE
        await world.installation.worker.start_due()
        await until(lambda: engine.begun == 2)
        assert engine.gate
        engine.gate.set()
        await world.settle()
        assert engine.at_once[app] == 1
        assert await world.state(f"/application/{app}") == "RUNNING"
        assert (await kinds(world))["DEPLOYMENT_SUCCEEDED"] == 1


async def test_work_that_another_worker_does_now_is_ended(world: World):
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
        world.clock.ms += LEASE
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


async def test_a_lost_nudge_costs_time_and_nothing_else(world: World, place: Place):
    app = await world.application()
    await deployed(world, app)
    await world.settle()
    silent = asyncio.create_task(world.installation.worker.run())
    await until(lambda: _waits(world))

    async def unheard(tx: Tx) -> None:
        await tx.work.ask(KIND, app, tx.now)
        tx.session.nudges.clear()

    await world.installation.ctx.store.write(unheard)
    await asyncio.sleep(0.05)
    assert await place.sql("SELECT id FROM work WHERE lease > 0") == []
    silent.cancel()
    await asyncio.gather(silent, return_exceptions=True)
    assert await world.installation.worker.start_due() == 1  # what it does when its minute is over
    await world.settle()


async def _waits(world: World) -> bool:
    await asyncio.sleep(0.02)
    return not world.installation.worker.running


async def test_a_nudge_wakes_it_at_once(world: World):
    await world.installation.start()
    app = await world.application()
    await deployed(world, app)
    await until(lambda: app in world.engine.running)


async def test_failed_work_comes_back_later_and_later(
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


async def test_after_a_success_it_begins_with_the_shortest_wait_again(world: World, place: Place):
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


async def test_one_piece_that_fails_holds_up_no_other(place: Place):
    engine = Picky()
    async with make_world(place.url, engine=engine) as world:
        apps = [await world.application() for _ in range(6)]
        engine.victim = apps[0]
        for app in apps:
            await deployed(world, app)
        await world.settle()
        states = [await world.state(f"/application/{app}") for app in apps]
        assert states == ["DEPLOYING"] + ["RUNNING"] * 5


# Stopping


@contextlib.asynccontextmanager
async def beside(world: World, place: Place, folder: str = "beside") -> AsyncIterator[World]:
    """Another replica on the same database, with the same clock and engine."""
    key = (world.folder / "key").read_text().strip()
    made = make_world(
        place.url, folder=place.folder / folder, clock=world.clock, engine=world.engine, key=key
    )
    async with made as other:
        yield other


async def test_a_stop_in_the_middle_leaves_work_that_the_next_process_does_at_once(
    place: Place, clock: HandClock
):
    engine = FakeEngine()
    async with make_world(place.url, folder=place.folder, clock=clock, engine=engine) as world:
        app = await begun(world)
    assert [row[3] for row in await place.sql("SELECT * FROM work WHERE id = $1", app)] == [0]
    engine.gate = None
    async with make_world(place.url, folder=place.folder, clock=clock, engine=engine) as world:
        await world.settle()
        assert await world.state(f"/application/{app}") == "RUNNING"
        assert (await kinds(world))["DEPLOYMENT_STARTED"] == 1
        assert engine.begun == 2


async def test_a_stop_that_comes_while_work_is_being_claimed_leaves_none_behind(world: World, place: Place):
    """At whatever moment: what was claimed is known, and let go of."""
    world.engine.gate = asyncio.Event()
    worker = world.installation.worker
    for _ in range(4):
        await deployed(world, await world.application())
    for turns in range(25):
        starting = asyncio.create_task(worker.start_due())
        for _ in range(turns):
            await asyncio.sleep(0 if turns < 10 else 0.0005)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await worker.stop()
        assert await place.sql("SELECT id FROM work WHERE lease > 0") == []
    assert len(await place.sql("SELECT id FROM work WHERE due <= $1", world.clock.ms)) == 4


async def test_a_replica_that_died_is_replaced_when_its_lease_has_ended(served: Place, clock: HandClock):
    """Not before: it may only be slow."""
    async with make_world(served.url, folder=served.folder, clock=clock) as world:
        app = await begun(world)
        async with beside(world, served) as other:
            clock.ms += LEASE - 1
            assert await claim(other.installation.ctx.store) == []
            clock.ms += 1
            await other.installation.worker.start_due()
            await until(lambda: other.engine.begun == 2)
            assert other.engine.gate
            other.engine.gate.set()
            await other.settle()
            assert await other.state(f"/application/{app}") == "RUNNING"
            await until(lambda: not world.installation.worker.running)
            assert (await kinds(other))["DEPLOYMENT_SUCCEEDED"] == 1


async def test_two_replicas_never_do_one_piece_at_once_and_share_the_work(served: Place):
    engine, key = Watchful(), new_key().hex()
    async with (
        make_world(served.url, folder=served.folder / "a", engine=engine, key=key) as one,
        make_world(served.url, folder=served.folder / "b", engine=engine, key=key) as other,
    ):
        by: Counter[int] = Counter()
        environment = await one.environment()
        apps = [await one.application(environment) for _ in range(12)]
        for world in (one, other):
            await world.installation.start()
        for number in range(36):
            world = (one, other)[number % 2]
            await deployed(world, apps[number % 12])
            by[number % 2] += world.installation.worker.running
        await until(lambda: _all_is_done(served))
        assert {app: engine.at_once[app] for app in apps} == dict.fromkeys(apps, 1)
        assert {await one.state(f"/application/{app}") for app in apps} == {"RUNNING"}
        started, ended = (await kinds(one))["DEPLOYMENT_STARTED"], (await kinds(one))["DEPLOYMENT_SUCCEEDED"]
        assert started == ended == engine.begun
        assert all(by[number] for number in range(2))


async def _all_is_done(place: Place) -> bool:
    return await place.sql("SELECT id FROM work WHERE kind = $1", KIND) == []


# Deleted services


async def test_a_service_that_is_deleted_while_it_waits_is_never_deployed(world: World, place: Place):
    app = await world.application()
    await deployed(world, app)
    await world.delete(f"/application/{app}")
    await world.settle()
    assert world.engine.applied == []
    assert await _traces(place, app) == []


async def test_a_service_that_is_deleted_while_it_is_deployed_leaves_nothing_and_its_deployment_is_cancelled(
    world: World, place: Place, caplog: pytest.LogCaptureFixture
):
    app = await begun(world)
    await world.delete(f"/application/{app}")
    assert world.engine.gate
    world.engine.gate.set()
    with caplog.at_level(logging.WARNING):
        await world.settle()
    assert await _traces(place, app) == []
    assert await kinds(world) == {"DEPLOYMENT_STARTED": 1, "DEPLOYMENT_CANCELLED": 1}
    assert "work failed" not in caplog.text


async def test_an_environment_takes_the_work_of_its_services_with_it(world: World, place: Place):
    environment = await world.environment()
    app = await world.application(environment)
    await deployed(world, app)
    await world.delete(f"/environment/{environment}")
    await world.settle()
    assert world.engine.applied == []
    assert await _traces(place, app) == []


async def test_work_for_a_service_that_is_not_there_is_done(world: World, place: Place):
    await ask(world.installation.ctx.store, "no-such-service")
    await world.settle()
    assert await _all_is_done(place)


async def _traces(place: Place, id: str) -> list[tuple[Any, ...]]:
    found = []
    for table, column in (("resource", "id"), ("status", "id"), ("deployment", "service"), ("work", "id")):
        found += await place.sql(f"SELECT * FROM {table} WHERE {column} = $1", id)
    return found
