"""Background work: one worker at a time, taken up by another when the first is gone, never lost."""

from __future__ import annotations

from tests.store.claims import ask, claim, finish, held, next_due, one
from tests.store.stores import Place
from tests.world import HandClock
from windlass.base.clock import MINUTE
from windlass.control.background.worker import LEASE_TIME
from windlass.store import Claim, Store

# Lease


async def test_claimed_work_belongs_to_one_worker_until_the_lease_ends(store: Store, clock: HandClock):
    await ask(store)
    first = await one(store)
    clock.ms += LEASE_TIME - 1
    assert await claim(store) == []
    clock.ms += 1
    second = await one(store)
    assert (second.id, second.epoch, second.attempts) == (first.id, first.epoch + 1, 2)


async def test_scheduling_many_pieces_of_work_equals_scheduling_each(store: Store, clock: HandClock):
    await ask(store)
    first = await one(store)
    await store.write(lambda tx: tx.work.schedule_all("reconcile", [(first.id, "o"), ("other", "o")]))
    assert [piece.id for piece in await claim(store)] == ["other"]
    await store.write(lambda tx: tx.work.done(first))  # it was asked for once more meanwhile
    assert [piece.id for piece in await claim(store)] == [first.id]


async def test_a_lease_can_be_prolonged_by_its_holder(store: Store, clock: HandClock):
    await ask(store)
    first = await one(store)
    clock.ms += LEASE_TIME - 1
    assert await store.write(lambda tx: tx.work.renew_lease(first, LEASE_TIME))
    clock.ms += LEASE_TIME - 1
    assert await claim(store) == []


async def test_work_is_not_claimed_before_it_is_due(store: Store, clock: HandClock):
    await ask(store, due=clock.ms + 1)
    assert await claim(store) == []
    assert await next_due(store) == clock.ms + 1
    clock.ms += 1
    assert len(await claim(store)) == 1


async def test_the_longest_waiting_work_is_claimed_first_including_expired_leases(
    store: Store, clock: HandClock
):
    await ask(store, "interrupted")
    await one(store)
    clock.ms += LEASE_TIME
    for number in range(5):
        await ask(store, f"later-{number}", clock.ms + 1)
    clock.ms += 1
    taken = await one(store)
    assert (taken.id, taken.is_taken_over) == ("interrupted", True)
    assert not (await one(store)).is_taken_over


async def test_the_next_due_time_is_the_earliest_due_work_or_lease_expiry(store: Store, clock: HandClock):
    assert await next_due(store) is None
    await ask(store, "a")
    assert await next_due(store) == clock.ms
    await one(store)
    assert await next_due(store) == clock.ms + LEASE_TIME
    await ask(store, "b", clock.ms + 5)
    assert await next_due(store) == clock.ms + 5


# Asking


async def test_scheduling_the_same_work_twice_runs_it_once(store: Store):
    await ask(store)
    await ask(store)
    await finish(store, await one(store))
    assert await claim(store) == []


async def test_a_repeated_request_for_work_never_delays_it(store: Store, clock: HandClock):
    await ask(store, due=clock.ms + 100)
    await ask(store, due=clock.ms + 5)
    await ask(store, due=clock.ms + 100)
    assert await next_due(store) == clock.ms + 5


async def test_work_scheduled_while_it_runs_is_run_once_more(store: Store, place: Place):
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


async def test_work_scheduled_again_while_it_runs_survives_the_loss_of_its_worker(
    store: Store, clock: HandClock
):
    await ask(store)
    await one(store)
    await ask(store)
    clock.ms += LEASE_TIME
    await finish(store, await one(store))
    assert await claim(store) == []


# Fencing


async def everything_that_a_holder_may_do(store: Store, claimed: Claim) -> bool:
    """True if any of it had an effect."""
    effects = [
        await held(store, claimed),
        await store.write(lambda tx: tx.work.renew_lease(claimed, 100 * LEASE_TIME)),
    ]
    await store.write(lambda tx: tx.work.reschedule(claimed, tx.now))
    await finish(store, claimed)
    return any(effects)


async def test_a_worker_whose_lease_expired_cannot_change_its_work(
    store: Store, place: Place, clock: HandClock
):
    await ask(store)
    paused = await one(store)
    clock.ms += LEASE_TIME
    second = await one(store)
    before = await place.sql("SELECT * FROM work")
    assert not await everything_that_a_holder_may_do(store, paused)
    assert await place.sql("SELECT * FROM work") == before
    assert await held(store, second)


async def test_a_worker_with_a_valid_claim_can_make_all_of_these_changes(store: Store, place: Place):
    await ask(store)
    assert await everything_that_a_holder_may_do(store, await one(store))
    assert await claim(store) != []


async def test_an_expired_claim_stays_invalid_after_the_work_was_finished_and_scheduled_again(
    store: Store, place: Place, clock: HandClock
):
    """The row was deleted in between: its numbers must not begin again where they once began."""
    await ask(store)
    paused = await one(store)
    clock.ms += LEASE_TIME
    await finish(store, await one(store))
    await ask(store)
    await one(store)
    before = await place.sql("SELECT * FROM work")
    assert not await everything_that_a_holder_may_do(store, paused)
    assert await place.sql("SELECT * FROM work") == before


async def test_a_worker_that_rescheduled_its_work_no_longer_holds_the_claim(store: Store, clock: HandClock):
    await ask(store)
    claimed = await one(store)
    await store.write(lambda tx: tx.work.reschedule(claimed, tx.now + MINUTE))
    assert not await everything_that_a_holder_may_do(store, claimed)
    assert await next_due(store) == clock.ms + MINUTE


# After a restart


async def test_on_sqlite_a_start_takes_over_interrupted_work_at_once(embedded: Place, clock: HandClock):
    """One process owns the file, so a former holder of work no longer exists."""
    async with embedded.opened(clock) as store:
        await ask(store, "interrupted")
        await ask(store, "later", clock.ms + MINUTE)
        killed = await one(store)
    async with embedded.opened(clock) as store:
        assert not await held(store, killed)
        taken = await one(store)
        assert (taken.id, taken.epoch) == ("interrupted", killed.epoch + 1)
        assert await claim(store) == []


async def test_on_postgresql_a_start_leaves_claimed_work_to_other_replicas(served: Place, clock: HandClock):
    async with served.opened(clock) as store:
        await ask(store)
        claimed = await one(store)
        async with served.opened(clock) as other:
            assert await claim(other) == []
        assert await held(store, claimed)
