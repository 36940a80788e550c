"""A change happens whole or not at all, in one order for all readers; what was acknowledged is kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.store.changes import Mishap, adds, fails_late, together
from tests.store.stores import ORG, Place, add, names, until
from tests.world import HandClock
from windlass.base.errors import Unavailable
from windlass.base.turn_budget import TurnBudget
from windlass.store import DeploymentRow, IdempotentAnswer, NameTaken, Row, Store, Tx, Write
from windlass.store.groups import MAX_BACKGROUND_CHANGES

# Groups


async def test_concurrent_changes_are_committed_as_one_group(store: Store):
    await together(*(store.write(adds(f"n{number}")) for number in range(20)))
    assert (store.groups, store.writes) == (1, 20)
    assert len(await names(store)) == 20


async def test_changes_of_requests_run_before_changes_of_background_work(store: Store):
    order: list[str] = []

    def noting(name: str) -> Write[None]:
        async def change(tx: Tx) -> None:
            order.append(name)
            await adds(name)(tx)

        return change

    many = [f"background {number}" for number in range(5 * MAX_BACKGROUND_CHANGES)]
    behind = asyncio.gather(*(TurnBudget().run(store.write(noting(name))) for name in many))
    while not order:  # noqa: ASYNC110 (nothing tells that a group has begun)
        await asyncio.sleep(0)
    await store.write(noting("request"))
    await behind
    assert order.index("request") <= 2 * MAX_BACKGROUND_CHANGES
    assert [name for name in order if name != "request"] == many


async def test_readers_run_while_a_long_change_pauses_and_see_nothing_of_it(store: Store):
    seen: list[list[str]] = []

    async def long(tx: Tx) -> None:
        await adds("first")(tx)
        while not seen:  # noqa: ASYNC110 (as a fair share does)
            await asyncio.sleep(0)
        await adds("second")(tx)

    async def read() -> None:
        seen.append(await names(store))

    await asyncio.gather(store.write(long), store.write(adds("third")), read())
    assert seen == [[]]
    assert sorted(await names(store)) == ["first", "second", "third"]


async def test_a_failing_change_does_not_fail_its_commit_group(store: Store, place: Place):
    changes = [adds(f"n{number}") if number % 3 else fails_late for number in range(12)]
    outcomes = await together(*(store.write(change) for change in changes))
    assert store.groups == 1
    assert [isinstance(outcome, Mishap) for outcome in outcomes] == [number % 3 == 0 for number in range(12)]
    kept = [f"n{number}" for number in range(12) if number % 3]
    assert await names(store) == kept
    assert [event.body.decode() for event in await store.reads.events.after(ORG)] == kept
    assert [row[4] for row in await place.sql("SELECT * FROM resource ORDER BY pos")] == [*range(1, 9)]


@pytest.mark.parametrize(
    ("fate", "order"),
    [("succeeds", "abc"), ("fails at once", "abc"), ("fails after a look", "abc"), ("fails late", "ababc")],
)
async def test_a_commit_group_is_repeated_only_if_a_member_fails_after_writing(
    store: Store, fate: str, order: str
):
    ran: list[str] = []

    async def change(tx: Tx, name: str, fate: str) -> None:
        ran.append(name)
        if fate == "fails at once":
            raise Mishap
        if fate == "fails after a look" and await tx.resources.named(ORG, "project", name) is None:
            raise Mishap
        await add(tx, name)
        if fate == "fails late":
            raise Mishap

    fates = {"a": "succeeds", "b": fate, "c": "succeeds"}
    outcomes = await together(
        *(store.write(partial(change, name=name, fate=one)) for name, one in fates.items())
    )
    assert [isinstance(outcome, Mishap) for outcome in outcomes] == [False, fate != "succeeds", False]
    assert "".join(ran) == order
    assert await names(store) == [name for name, one in fates.items() if one == "succeeds"]


async def test_of_two_equal_names_in_a_commit_group_only_the_second_is_refused(store: Store):
    first, second, other = await together(*(store.write(adds(name)) for name in ("a", "a", "b")))
    assert isinstance(second, NameTaken)
    assert (first.name, other.name) == ("a", "b")
    assert await names(store) == ["a", "b"]


async def test_a_change_that_suppresses_a_conflict_is_rolled_back_alone(store: Store):
    async def stubborn(tx: Tx) -> None:
        with contextlib.suppress(NameTaken):
            await add(tx, "a")
        await add(tx, "c")

    changes = (adds("a"), stubborn, adds("b"))
    one, refused, other = await together(*(store.write(change) for change in changes))
    assert (one.name, other.name) == ("a", "b")
    assert isinstance(refused, Exception)
    assert await names(store) == ["a", "b"]
    assert (await store.write(adds("d"))).pos == 3


async def test_a_change_sees_earlier_changes_of_its_commit_group(store: Store):
    async def doubled(tx: Tx) -> bytes:
        value = await tx.facts.get("value") or b"1"
        await tx.facts.set("value", value + value)
        return value + value

    answers = await together(*(store.write(doubled) for _ in range(4)))
    assert store.groups == 1
    assert answers == [b"1" * 2**power for power in range(1, 5)]
    assert await store.reads.facts.get("value") == b"1" * 16


@pytest.mark.parametrize("fails", [False, True], ids=["alone", "beside one that fails late"])
async def test_a_change_reads_a_resource_as_an_earlier_change_of_its_group_left_it(store: Store, fails: bool):
    row = await store.write(adds("a"))
    seen: list[Row | None] = []

    async def look(tx: Tx) -> None:
        seen.append(await tx.resources.find("project", row.id))
        assert await tx.resources.find("environment", row.id) is None

    async def renamed(tx: Tx) -> None:
        await tx.resources.change(msgspec.structs.replace(row, name="b", body=b"renamed"))

    async def rewritten(tx: Tx) -> None:
        await tx.resources.rewrite(row.id, b"rewritten")

    async def removed(tx: Tx) -> None:
        await tx.remove(row)

    async def fails_after_a_change(tx: Tx) -> None:
        await tx.resources.rewrite(row.id, b"never seen")
        await look(tx)
        raise Mishap

    changes = [look, renamed, look, rewritten, look, *([fails_after_a_change] * fails), look, removed, look]
    await together(*(store.write(change) for change in changes))
    assert store.groups == 2
    bodies = [one and one.body for one in seen]
    kept = [row.body, b"renamed", b"rewritten", b"rewritten", None]
    assert [body for body in bodies[-6:] if body != b"never seen"][-5:] == kept
    assert (b"never seen" in bodies) is fails


async def test_changes_that_come_during_a_commit_are_in_the_next_group(store: Store):
    later: list[asyncio.Task[Any]] = []

    async def first(tx: Tx) -> None:
        await add(tx, "first")
        later.extend(asyncio.create_task(store.write(second)) for _ in range(3))

    async def second(tx: Tx) -> bool:
        return await tx.resources.named(ORG, "project", "first") is not None

    await store.write(first)
    assert store.groups == 1
    assert await asyncio.gather(*later) == [True, True, True]
    assert (store.groups, store.writes) == (2, 4)


async def test_a_change_that_awaits_something_else_fails_on_sqlite(embedded: Place):
    """It would hold up everybody. It fails, alone, and leaves nothing."""

    async def dawdles(tx: Tx) -> None:
        await add(tx, "dawdler")
        await asyncio.sleep(0.001)

    async with embedded.opened() as store:
        outcomes = await together(*(store.write(change) for change in (adds("a"), dawdles, adds("b"))))
        assert isinstance(outcomes[1], RuntimeError)
        assert await names(store) == ["a", "b"]


# Whole or not at all


async def everything_there_is(tx: Tx) -> Row:
    """A change that touches every table."""
    row = await add(tx, "all")
    await add(tx, "below", parent=row.id, family="environment")
    gone = await add(tx, "gone")
    await tx.remove(gone)
    await tx.resources.change(msgspec.structs.replace(row, name="everything", body=b"everything"))
    await tx.resources.rewrite(row.id, b"rewritten")
    await tx.links.set(row.id, "field", ORG)
    await tx.statuses.add(row.id, ORG, "READY")
    await tx.deployments.add(DeploymentRow(row.id, ORG, row.id, 1, "QUEUED", tx.now, tx.now, b"{}"))
    assert await tx.names.reserve("all", row.id)
    await tx.work.schedule("reconcile", row.id)
    await tx.tokens.add("digest", row.id)
    await tx.identities.add("issuer", "subject", ORG, row.id)
    await tx.idempotency.set("caller", "key", IdempotentAnswer("request", tx.now, b"answer", None))
    await tx.budgets.set("caller", tx.now, 10)
    await tx.facts.set("fact", b"value")
    tx.nudge("heard")
    return row


async def test_a_failed_change_leaves_nothing_in_any_table_and_sends_no_notification(
    store: Store, place: Place
):
    async def fails(tx: Tx) -> None:
        await everything_there_is(tx)
        raise Mishap

    heard: list[str] = []
    store.listen(heard.append)
    before = await place.everything()
    outcomes = await together(store.write(fails), store.write(adds("other")), store.write(fails))
    assert [isinstance(outcome, Mishap) for outcome in outcomes] == [True, False, True]
    after = await place.everything()
    changed = {table for table in after if after[table] != before[table]}
    assert changed == {"resource", "tally", "event", "counter"}
    assert [len(after[table]) for table in ("resource", "tally", "event")] == [1, 1, 1]
    await store.write(everything_there_is)
    await until(lambda: "heard" in heard)
    assert heard.count("heard") <= 2  # here, and once more from the database


async def test_the_same_change_without_a_failure_writes_to_every_table(store: Store, place: Place):
    heard: list[str] = []
    store.listen(heard.append)
    before = await place.everything()
    await store.write(everything_there_is)
    after = await place.everything()
    assert [table for table in after if after[table] == before[table]] == []
    assert {"work", "heard"} <= set(heard)


async def test_removing_a_resource_removes_its_descendants_and_their_rows(store: Store, place: Place):
    before = await place.everything()
    row = await store.write(everything_there_is)
    assert await store.write(lambda tx: tx.remove(row)) == [row.id]  # the one that could be deployed
    after = await place.everything()
    kept = {"event", "counter", "tally", "hole", "idempotency", "budget", "fact"}
    assert {table for table in after if after[table] != before[table]} == kept
    assert await names(store) == []


# Events


@pytest.fixture
async def replicas(place: Place) -> AsyncIterator[list[Store]]:
    """As many as may be at once: one on the embedded database, more on PostgreSQL."""
    async with contextlib.AsyncExitStack() as stack:
        clock = HandClock()
        yield [await stack.enter_async_context(place.opened(clock)) for _ in range(3 if place.url else 1)]


async def test_events_are_numbered_without_a_gap_in_the_order_of_commit(replicas: list[Store]):
    chance = random.Random(1)

    async def change(tx: Tx, fate: float) -> int:
        if fate < 0.1:
            raise Mishap
        pos = (await add(tx, str(fate))).pos
        tx.emit("UPDATE", ORG, str(pos), b"second")
        if fate < 0.3:
            raise Mishap
        return pos

    async def write(number: int) -> int:
        await asyncio.sleep(chance.random() / 50)
        fate = chance.random()
        return await replicas[number % len(replicas)].write(lambda tx: change(tx, fate))

    outcomes = await together(*(write(number) for number in range(200)))
    good = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert all(isinstance(outcome, int | Mishap) for outcome in outcomes)
    assert 100 < len(good) < 180
    assert sorted(good) == [*range(1, len(good) + 1)]
    events = await replicas[0].reads.events.after(ORG)
    assert [event.seq for event in events] == [*range(1, 2 * len(good) + 1)]
    assert [event.kind for event in events] == ["CREATE", "UPDATE"] * len(good)
    assert [int(event.target) for event in events if event.kind == "UPDATE"] == sorted(good)
    assert sum(store.groups for store in replicas) < 200


async def test_rows_read_in_a_transaction_do_not_change_until_its_commit(replicas: list[Store]):
    async def one_more(tx: Tx) -> int:
        seen = int(await tx.facts.get("count") or b"0")
        await tx.facts.set("count", b"%d" % (seen + 1))
        return seen

    writes = [replicas[number % len(replicas)].write(one_more) for number in range(60)]
    assert sorted(await asyncio.gather(*writes)) == [*range(60)]
    assert await replicas[0].reads.facts.get("count") == b"60"


async def test_creation_times_are_strictly_increasing_even_if_the_clock_stands_still(
    replicas: list[Store],
):
    writes = [replicas[number % len(replicas)].write(adds(f"n{number}")) for number in range(30)]
    rows = sorted(await asyncio.gather(*writes), key=lambda row: row.pos)
    assert [row.pos for row in rows] == [*range(1, 31)]
    assert all(one.created < other.created for one, other in itertools.pairwise(rows))


# Callers who go away


async def test_a_caller_who_goes_away_while_waiting_changes_nothing(store: Store):
    async def first(tx: Tx) -> asyncio.Task[Row]:
        waiting = asyncio.create_task(store.write(adds("never")))
        asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(waiting.cancel))
        await add(tx, "first")
        return waiting

    waiting = await store.write(first)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.write(adds("last"))
    assert await names(store) == ["first", "last"]


async def test_cancelling_a_caller_during_the_commit_affects_no_other_change(store: Store):
    tasks: list[asyncio.Task[Any]] = []

    async def change(tx: Tx) -> None:
        await add(tx, "stored")
        tasks[0].cancel()

    tasks += [asyncio.create_task(store.write(change)), asyncio.create_task(store.write(adds("other")))]
    outcomes = await together(*tasks)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1].name == "other"
    assert await names(store) == ["stored", "other"]


async def test_a_closing_store_completes_waiting_changes_and_refuses_new_ones(place: Place):
    async with place.opened() as store:
        waiting = [asyncio.create_task(store.write(adds(f"n{number}"))) for number in range(300)]
        await asyncio.sleep(0)
        await store.close()
        assert len(await asyncio.gather(*waiting)) == 300
        with pytest.raises(Unavailable, match="stopping"):
            await store.write(adds("late"))
    async with place.opened() as store:
        assert len(await names(store)) == 300
