"""Work is taken in the same order as if all of it had been counted and sorted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples
from tests.store.stores import Place
from tests.store.test_statements import placeholders
from tests.world import NOON, HandClock
from windlass.store import NEVER, Claim, Queue, Store, Tx, postgres
from windlass.store.claim_order import ClaimOrder, turn_key
from windlass.store.tables import deployments, work

LEASE, LANE = 15_000, Queue.RECONCILE
# What is promised, in one statement that looks at everything: its cost grows with the square of what is due.
COUNTED = """
WITH due_now AS (
    SELECT id, org, substr(org, 1, 7) AS owner, CASE WHEN lease > 0 THEN lease ELSE due END AS since FROM work
    WHERE ((lease = 0 AND due <= $1) OR (lease > 0 AND lease <= $1)) AND lane = $2
), in_environment AS (
    SELECT id, owner, since, row_number() OVER (PARTITION BY org ORDER BY since, id)
        + (SELECT count(*) FROM work AS held WHERE held.org = due_now.org AND held.lease > $1) AS turn
    FROM due_now
)
SELECT id FROM (
    SELECT id, since, row_number() OVER (PARTITION BY owner ORDER BY turn, since, id)
        + (SELECT count(*) FROM work AS held WHERE substr(held.org, 1, 7) = owner AND held.lease > $1) AS turn
    FROM in_environment
) AS waiting
ORDER BY turn, since, id LIMIT $3"""
ADD = """
INSERT INTO work (id, kind, due, lease, epoch, attempts, org, lane) VALUES ($1, 'x', $2, $3, 1, 0, $4, $5)"""
CLEAR = "DELETE FROM work"


class Piece(NamedTuple):
    org: int
    since: int
    """Before or after now."""
    held: bool
    lane: int
    environment: int = 0


PIECES = st.lists(
    st.builds(
        Piece,
        st.integers(0, 5),
        st.integers(-12, 4),
        st.integers(0, 5).map(lambda roll: roll == 0),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    max_size=60,
)


def key_of(piece: Piece) -> str:
    return turn_key(f"org-{piece.org:03}", str(piece.environment or ""))


async def fill(store: Store, pieces: Sequence[Piece]) -> None:
    async def change(tx: Tx) -> None:
        await tx.session.all(CLEAR)
        for number, piece in enumerate(pieces):
            moment = NOON + piece.since
            times = (NEVER, moment) if piece.held else (moment, 0)
            await tx.session.all(ADD, f"piece-{number:05d}", *times, key_of(piece), piece.lane)

    await store.write(change)


async def counted(store: Store, most: int) -> list[str]:
    async def change(tx: Tx) -> list[str]:
        return [row[0] for row in await tx.session.all(COUNTED, tx.now, LANE, most)]

    return await store.write(change)


async def claim(store: Store, most: int) -> list[Claim]:
    return await store.write(lambda tx: tx.work.claim(LEASE, most, LANE))


async def agree(store: Store, pieces: Sequence[Piece], most: int) -> None:
    """Claims until nothing is left, each time what the statement says."""
    await fill(store, pieces)
    while True:
        expected = await counted(store, most)
        claimed = await claim(store, most)
        assert [claim.id for claim in claimed] == expected
        if not expected:
            return


@pytest.fixture
def small_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few pieces are more than are looked at first."""
    monkeypatch.setattr(work, "_MAX_FRONT_PIECES", 4)


@pytest.mark.parametrize("front", [1, 3, 64])
def test_any_work_is_claimed_in_the_order_of_the_reference_implementation(
    embedded: Place, monkeypatch: pytest.MonkeyPatch, front: int
):
    monkeypatch.setattr(work, "_MAX_FRONT_PIECES", front)

    async def run(pieces: list[Piece], most: int) -> None:
        async with embedded.opened(HandClock()) as store:
            await agree(store, pieces, most)

    @given(PIECES, st.integers(1, 20))
    @examples(30)
    def check(pieces: list[Piece], most: int) -> None:
        asyncio.run(run(pieces, most))

    check()


@pytest.mark.parametrize("orgs", [1, 3, 40, 500])
async def test_500_pieces_of_work_are_claimed_in_the_same_order_on_both_databases(store: Store, orgs: int):
    draw = random.Random(orgs)
    pieces = [
        Piece(
            draw.randrange(orgs),
            -draw.randrange(1000),
            draw.random() < 0.05,
            draw.randrange(2),
            draw.randrange(4),
        )
        for _ in range(500)
    ]
    await fill(store, pieces)
    for most in (4, 20, 1, 16):
        expected = await counted(store, most)
        claimed = await claim(store, most)
        assert [claim.id for claim in claimed] == expected


async def test_much_work_of_one_organization_does_not_delay_that_of_another(store: Store, small_front: None):
    crowd = [Piece(0, -100 + number, held=False, lane=1) for number in range(50)]
    await agree(store, [*crowd, Piece(1, -1, held=False, lane=1)], 2)


async def test_much_work_of_one_environment_does_not_delay_that_of_another(store: Store, small_front: None):
    crowd = [Piece(0, -100 + number, held=number < 4, lane=1, environment=1) for number in range(50)]
    await agree(store, [*crowd, Piece(0, -1, held=False, lane=1, environment=2)], 2)


async def test_the_order_check_notices_a_wrong_order_of_work(store: Store, monkeypatch: pytest.MonkeyPatch):
    """Without organizations behind the front, the crowd has every turn."""
    monkeypatch.setattr(work, "_MAX_FRONT_PIECES", 4)
    monkeypatch.setattr(ClaimOrder, "idle", lambda self: 99)
    crowd = [Piece(0, -100 + number, held=False, lane=1) for number in range(50)]
    with pytest.raises(AssertionError):
        await agree(store, [*crowd, Piece(1, -1, held=False, lane=1)], 2)


# What it costs


async def looked_at(store: Store) -> int:
    """The rows that a claim of four reads."""
    seen = 0

    async def change(tx: Tx) -> None:
        nonlocal seen
        ask = tx.session.all

        async def noted(statement: str, *values: Any) -> Any:
            nonlocal seen
            found = await ask(statement, *values)
            seen += len(found)
            return found

        tx.session.all = noted
        await tx.work.claim(LEASE, 4)

    await store.write(change)
    return seen


@pytest.mark.parametrize("orgs", [1, 20])
async def test_a_claim_reads_equally_few_rows_of_100_and_of_5000(store: Store, orgs: int):
    found = []
    for count in (100, 5_000):
        await fill(store, [Piece(number % orgs, -number, held=False, lane=1) for number in range(count)])
        found.append(await looked_at(store))
    assert found[0] == found[1]


EXPLAINED = ("FRONT", "FIRST_OF_ENVIRONMENTS", "OF_ORG", "DUE_BY_QUEUE", "CLAIM", "RELEASE_ALL")


@pytest.mark.parametrize("name", EXPLAINED)
async def test_no_work_statement_scans_the_whole_table(embedded: Place, name: str):
    text = postgres.ALL_STATEMENTS[f"work.{name}"]
    async with embedded.opened(HandClock()):
        plan = await embedded.sql(f"EXPLAIN QUERY PLAN {text}", *[None] * len(placeholders(text)))
    assert not [row for row in plan if str(row[3]) == "SCAN work"], plan


async def test_the_scan_check_notices_a_full_table_scan(embedded: Place):
    async with embedded.opened(HandClock()):
        plan = await embedded.sql("EXPLAIN QUERY PLAN SELECT * FROM work WHERE attempts = 3")
    assert [row for row in plan if str(row[3]) == "SCAN work"]


async def test_open_deployments_are_found_by_their_index(embedded: Place):
    assert await uses_index(embedded, deployments.OPEN)


async def test_the_open_deployments_index_is_not_used_for_a_differently_written_condition(embedded: Place):
    other = deployments.OPEN.replace("'QUEUED', 'BUILDING'", "'BUILDING', 'QUEUED'")
    assert other != deployments.OPEN
    assert not await uses_index(embedded, other)


async def uses_index(place: Place, text: str) -> bool:
    async with place.opened(HandClock()):
        plan = await place.sql(f"EXPLAIN QUERY PLAN {text}", None)
    return any("deployment_open" in str(row[3]) for row in plan)
