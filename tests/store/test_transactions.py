"""A change happens whole or not at all, alone, in one order for everybody; what was acknowledged is kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.postgres import TENDER
from tests.store.stores import ORG, Place, add, names, until
from tests.world import HandClock, make_world
from windlass.base.errors import Unavailable
from windlass.store import DeploymentRow, IdempotentAnswer, NameTaken, Row, Store, Tx, Write
from windlass.store.sqlite import SqliteStore

MEGABYTE = b"x" * 1_000_000


class Mishap(Exception):
    """What a change raises that fails."""


async def fails_late(tx: Tx) -> None:
    await add(tx, "never seen")
    raise Mishap


def adds(name: str, **options: Any) -> Callable[[Tx], Awaitable[Row]]:
    return lambda tx: add(tx, name, **options)


async def together(*changes: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*changes, return_exceptions=True)


# Groups


async def test_changes_that_come_at_once_are_committed_as_one_group(store: Store):
    await together(*(store.write(adds(f"n{number}")) for number in range(20)))
    assert (store.groups, store.writes) == (1, 20)
    assert len(await names(store)) == 20


async def test_members_of_a_group_fail_alone(store: Store, place: Place):
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
async def test_a_group_runs_again_only_if_a_member_fails_after_it_has_written(
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


async def test_a_name_that_is_taken_is_refused_to_the_second_of_a_group_only(store: Store):
    first, second, other = await together(*(store.write(adds(name)) for name in ("a", "a", "b")))
    assert isinstance(second, NameTaken)
    assert (first.name, other.name) == ("a", "b")
    assert await names(store) == ["a", "b"]


async def test_a_change_that_makes_light_of_a_taken_name_fails_whole_and_alone(store: Store):
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


async def test_a_change_sees_what_came_before_it_in_its_own_group(store: Store):
    async def doubled(tx: Tx) -> bytes:
        value = await tx.facts.get("value") or b"1"
        await tx.facts.set("value", value + value)
        return value + value

    answers = await together(*(store.write(doubled) for _ in range(4)))
    assert store.groups == 1
    assert answers == [b"1" * 2**power for power in range(1, 5)]
    assert await store.reads.facts.get("value") == b"1" * 16


@pytest.mark.parametrize("fails", [False, True], ids=["alone", "beside one that fails late"])
async def test_a_change_finds_a_resource_as_the_one_before_it_left_it(store: Store, fails: bool):
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


async def test_a_change_may_not_wait_for_anything_else_on_the_embedded_database(embedded: Place):
    """It would hold up everybody. It fails, alone, and leaves nothing."""

    async def dawdles(tx: Tx) -> None:
        await add(tx, "dawdler")
        await asyncio.sleep(0)

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
    assert await tx.names.take("all", row.id)
    await tx.work.ask("reconcile", row.id)
    await tx.tokens.add("digest", row.id)
    await tx.identities.add("issuer", "subject", ORG, row.id)
    await tx.idempotency.set("caller", "key", IdempotentAnswer("request", tx.now, b"answer", None))
    await tx.budgets.set("caller", tx.now, 10)
    await tx.facts.set("fact", b"value")
    tx.nudge("heard")
    return row


async def test_a_change_that_fails_leaves_nothing_in_any_table_and_sends_no_nudge(store: Store, place: Place):
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


async def test_the_same_change_without_a_failure_leaves_something_in_every_table(store: Store, place: Place):
    heard: list[str] = []
    store.listen(heard.append)
    before = await place.everything()
    await store.write(everything_there_is)
    after = await place.everything()
    assert [table for table in after if after[table] == before[table]] == []
    assert {"work", "heard"} <= set(heard)


async def test_what_is_removed_takes_all_below_it_and_all_about_it_with_it(store: Store, place: Place):
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


async def test_what_a_change_has_read_stays_true_until_it_is_stored(replicas: list[Store]):
    async def one_more(tx: Tx) -> int:
        seen = int(await tx.facts.get("count") or b"0")
        await tx.facts.set("count", b"%d" % (seen + 1))
        return seen

    writes = [replicas[number % len(replicas)].write(one_more) for number in range(60)]
    assert sorted(await asyncio.gather(*writes)) == [*range(60)]
    assert await replicas[0].reads.facts.get("count") == b"60"


async def test_creation_times_rise_from_one_to_the_next_although_the_clock_stands_still(
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


async def test_a_caller_that_is_cancelled_during_the_commit_disturbs_no_other(store: Store):
    tasks: list[asyncio.Task[Any]] = []

    async def change(tx: Tx) -> None:
        await add(tx, "stored")
        tasks[0].cancel()

    tasks += [asyncio.create_task(store.write(change)), asyncio.create_task(store.write(adds("other")))]
    outcomes = await together(*tasks)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1].name == "other"
    assert await names(store) == ["stored", "other"]


async def test_a_store_that_is_closing_finishes_what_waits_and_takes_nothing_more(place: Place):
    async with place.opened() as store:
        waiting = [asyncio.create_task(store.write(adds(f"n{number}"))) for number in range(300)]
        await asyncio.sleep(0)
        await store.close()
        assert len(await asyncio.gather(*waiting)) == 300
        with pytest.raises(Unavailable, match="stopping"):
            await store.write(adds("late"))
    async with place.opened() as store:
        assert len(await names(store)) == 300


# A full disk


def bounded(store: Store, more: int) -> None:
    """Lets the file grow by so many pages only."""
    assert isinstance(store, SqliteStore)
    pages = store._writer.pragma("page_count") + more
    store._writer.pragma("max_page_count", pages)


def unbounded(store: Store) -> None:
    assert isinstance(store, SqliteStore)
    store._writer.pragma("max_page_count", 2**30)


async def test_on_a_full_disk_writes_are_refused_and_whatever_was_acknowledged_stays(embedded: Place):
    async with embedded.opened() as store:
        bounded(store, 100)
        writes = [store.write(adds(f"n{number}", body=b"x" * 50_000)) for number in range(5)]
        kept = [row.name for row in await asyncio.gather(*writes)]
        for number in range(10):
            before = await names(store)
            group = [adds(f"m{number}.{member}", body=b"x" * 50_000) for member in range(3)]
            outcomes = await together(*(store.write(change) for change in group))
            refused = [isinstance(outcome, Unavailable) for outcome in outcomes]
            assert set(refused) in ({True}, {False})
            if not refused[0]:
                kept += [row.name for row in outcomes]
                continue
            assert "nothing was changed. Is the disk full?" in outcomes[0].message
            assert await names(store) == before
        rows = await store.reads.resources.of_parent(ORG, "project")
        assert [row.name for row in rows] == kept
        assert 5 <= len(rows) < 35
        assert len(await store.reads.events.after(ORG)) == len(rows)
        unbounded(store)
        await store.write(adds("after", body=MEGABYTE))
    async with embedded.opened() as store:
        rows = await store.reads.resources.of_parent(ORG, "project")
        assert [row.name for row in rows] == [*kept, "after"]


@pytest.mark.parametrize("others", [(), (fails_late,)], ids=["alone", "with a failure"])
@pytest.mark.parametrize(
    "big", [adds("big", body=MEGABYTE), lambda tx: tx.facts.set("big", MEGABYTE)], ids=["late", "at once"]
)
async def test_a_disk_that_is_full_in_the_middle_of_a_group_stores_none_of_it(
    embedded: Place, big: Write[Any], others: tuple[Write[Any], ...]
):
    """SQLite then ends the transaction by itself: what follows must not be stored one by one."""
    async with embedded.opened() as store:
        before = await embedded.everything()
        bounded(store, 60)
        group = [adds("small"), big, adds("small too"), *others]
        outcomes = await together(*(store.write(change) for change in group))
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        assert await embedded.everything() == before


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """The system lets no file of this process grow beyond it, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_commit_that_the_disk_refuses_stores_nothing_and_the_next_one_works(embedded: Place):
    async with embedded.opened() as store:
        await store.write(adds("first"))
        before = await embedded.everything()
        log = embedded.file.with_name(embedded.file.name + "-wal")
        with files_up_to(log.stat().st_size + 20_000):
            outcomes = await together(*(store.write(adds(f"n{n}", body=b"x" * 9_000)) for n in range(10)))
            assert [type(outcome) for outcome in outcomes] == [Unavailable] * 10
            assert await names(store) == ["first"]
        assert await embedded.everything() == before
        await store.write(adds("second"))
    async with embedded.opened() as store:
        assert await names(store) == ["first", "second"]


async def test_over_http_a_full_disk_is_said_and_reading_goes_on(tmp_path: Path):
    async with make_world(folder=tmp_path) as world:
        project = await world.project()
        bounded(world.installation.ctx.store, 5)
        path = f"/organization/{world.org}/project"
        answer = await world.post(path, {"name": "big", "description": "x" * 60_000})
        assert (answer.status, answer["error"]) == (503, "Service Unavailable")
        assert "Is the disk full?" in answer.message
        assert "x-ratelimit-remaining" in answer.headers
        assert (await world.get(f"/project/{project}")).status == 200
        unbounded(world.installation.ctx.store)
        assert (await world.post(path, {"name": "big", "description": "x" * 60_000})).status == 200


# A server that goes away

CUT_WRITERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN%'"""
CUT_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"""


async def cut_off(tx: Tx) -> None:
    """A change whose connection the server closes in the middle."""
    await add(tx, "cut off")
    await tx.session.all("SELECT pg_terminate_backend(pg_backend_pid())")
    await add(tx, "after")


async def test_when_the_server_cuts_the_connection_nothing_of_the_group_is_stored(served: Place):
    async with served.opened() as store:
        before = await served.everything()
        outcomes = await together(*(store.write(change) for change in (adds("a"), cut_off, adds("b"))))
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
        assert all("nothing was changed" in outcome.message for outcome in outcomes)
        assert await served.everything() == before
        await store.write(adds("again"))
        assert await names(store) == ["again"]


async def test_when_it_is_cut_during_the_commit_nobody_is_told_that_nothing_changed(
    empty_database: str, tmp_path: Path
):
    """Nobody can know: so that is what is said."""
    served = Place(empty_database, tmp_path)
    async with served.opened():
        pass
    await served.sql(
        "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
    )
    await served.sql(
        "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON event DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION cut()"
    )
    async with served.opened() as store:
        with pytest.raises(Unavailable, match="perhaps it was") as refusal:
            await store.write(adds("unsure"))
        assert "nothing was changed" not in refusal.value.message
        await served.sql("DROP TRIGGER cut ON event")
        await store.write(adds("again"))


async def test_connections_that_are_cut_at_any_moment_lose_nothing_that_was_acknowledged(served: Place):
    acknowledged: list[str] = []
    denied: list[str] = []
    over = asyncio.Event()
    chance = random.Random(2)

    async def writer(store: Store, number: int) -> None:
        for turn in range(200):
            name = f"n{number}.{turn}"
            try:
                await store.write(adds(name))
                acknowledged.append(name)
            except Unavailable as refusal:
                if "nothing was changed" in refusal.message:
                    denied.append(name)
            if over.is_set():
                return

    async def cutter() -> None:
        for _ in range(25):
            await asyncio.sleep(chance.random() / 25)
            await served.sql(CUT_WRITERS)
        over.set()

    async with served.opened() as store:
        await asyncio.gather(cutter(), *(writer(store, number) for number in range(8)))
        await store.write(adds("at the end"))
        await until(lambda: can_be_read(store))
        found = set(await names(store))
        assert set(acknowledged) <= found
        assert found.isdisjoint(denied)
        assert denied
        events = await store.reads.events.after(ORG, most=10_000)
        assert [event.seq for event in events] == [*range(1, len(found) + 1)]


async def test_reading_while_connections_are_cut_is_answered_or_unavailable(served: Place):
    async with served.opened() as store:
        await store.write(adds("here"))
        for _ in range(5):
            readings = [store.reads.resources.named(ORG, "project", "here") for _ in range(8)]
            answers = await together(*readings, served.sql(CUT_WRITERS))
            assert {type(answer) for answer in answers[:8]} <= {Row, Unavailable}
        await until(lambda: answers_again(store))


async def can_be_read(store: Store) -> bool:
    """The last cut may come while it is looked."""
    try:
        await names(store)
    except Unavailable:
        return False
    return True


async def answers_again(store: Store) -> bool:
    try:
        return await store.reads.resources.named(ORG, "project", "here") is not None
    except Unavailable:
        return False


async def test_a_replica_whose_listening_was_cut_listens_again(served: Place):
    async with served.opened() as one, served.opened() as other:
        heard: list[str] = []
        other.listen(heard.append)

        async def nudged() -> bool:
            await one.write(lambda tx: _nudge(tx, "hello"))
            await asyncio.sleep(0.02)
            return "hello" in heard

        await until(nudged)
        await served.sql(CUT_LISTENERS)
        heard.clear()
        await until(nudged)
        assert "work" in heard  # what was missed meanwhile is looked for


async def test_a_store_that_is_closed_again_at_once_leaves_no_connection_behind(served: Place):
    for turn in range(12):
        async with served.opened() as store:
            for _ in range(turn):
                await asyncio.sleep(0.001)  # at each step on its way to listening
            assert await store.reads.facts.get("nothing") is None
    await until(lambda: alone(served))


async def alone(served: Place) -> bool:
    connections = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
        f" AND application_name <> '{TENDER}'"
    )
    return len(await served.sql(connections)) == 1


async def _nudge(tx: Tx, word: str) -> None:
    tx.nudge(word)
