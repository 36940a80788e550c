"""Any history of changes leaves what a dictionary would: names, places, pages and counts."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples, nightly
from tests.store.stores import ORG, Place, add
from windlass.store import NameTaken, Row, Store, Tx

FAMILY = "project"


class Mishap(Exception):
    """Raised by a change that fails."""


class Add(NamedTuple):
    name: str
    fails: bool


class Rename(NamedTuple):
    which: int
    name: str
    fails: bool


class Remove(NamedTuple):
    which: int
    fails: bool


Step = Add | Rename | Remove
NAMES = st.sampled_from("abcdefg")
FATE = st.integers(0, 4).map(lambda roll: roll == 0)
STEPS = st.one_of(
    st.builds(Add, NAMES, FATE),
    st.builds(Rename, st.integers(0, 6), NAMES, FATE),
    st.builds(Remove, st.integers(0, 6), FATE),
)
GROUPS = st.lists(st.lists(STEPS, min_size=1, max_size=6), min_size=1, max_size=6)


class Model:
    """A list as it should be: name by id, in the order of creation."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def play(self, step: Step, outcome: str | type[Exception]) -> None:
        assert outcome == self.expected(step, outcome)
        if isinstance(outcome, type):
            return
        match step:
            case Add(name):
                self.names[outcome] = name
            case Rename(_, name):
                if outcome:
                    self.names[outcome] = name
            case Remove():
                self.names.pop(outcome, None)

    def expected(self, step: Step, outcome: str | type[Exception]) -> str | type[Exception]:
        taken = set(self.names.values())
        match step:
            case Add(name) if name in taken:
                return NameTaken
            case Rename(_, name) if (old := self.nth(step.which)) and name in taken - {self.names[old]}:
                return NameTaken
            case _ if step.fails:
                return Mishap
            case Add():
                return outcome
            case _:
                return self.nth(step.which)

    def nth(self, which: int) -> str:
        """The one that a step means; none if the list is empty."""
        return list(self.names)[which % len(self.names)] if self.names else ""


async def change(tx: Tx, parent: str, step: Step) -> str:
    rows = await tx.resources.of_parent(parent, FAMILY)
    row = None if isinstance(step, Add) or not rows else rows[step.which % len(rows)]
    match step:
        case Add(name):
            row = await add(tx, name, parent)
            await add(tx, "child", row.id, "environment")
        case Rename(_, name) if row:
            await tx.resources.change(msgspec.structs.replace(row, name=name, body=name.encode()))
        case Remove() if row:
            assert len(await tx.resources.of_parent(row.id, "environment")) == 1
            await tx.remove(row)
            assert await tx.resources.of_parent(row.id, "environment") == []
    if step.fails:
        raise Mishap
    return row.id if row else ""


async def play(store: Store, parent: str, groups: Sequence[Sequence[Step]]) -> None:
    model = Model()
    for group in groups:
        outcomes = await asyncio.gather(
            *(store.write(lambda tx, step=step: change(tx, parent, step)) for step in group),  # type: ignore[misc]
            return_exceptions=True,
        )
        for step, outcome in zip(group, outcomes, strict=True):
            model.play(step, type(outcome) if isinstance(outcome, Exception) else str(outcome))
        await agree(store, parent, model)


async def agree(store: Store, parent: str, model: Model) -> None:
    rows = await store.reads.resources.of_parent(parent, FAMILY)
    assert {row.id: row.name for row in rows} == model.names
    assert [row.id for row in rows] == list(model.names)
    expected = [name.encode() for name in model.names.values()]
    for skip, most in ((0, 100), (1, 2), (len(rows), 1), (max(0, len(rows) - 1), 5)):
        assert await store.reads.lists.page(parent, FAMILY, skip, most) == (
            expected[skip : skip + most],
            len(rows),
        )
    for name in "abcdefg":
        found = await store.reads.resources.named(parent, FAMILY, name)
        assert (found is not None) is (name in model.names.values())
    for id in model.names:
        assert len(await store.reads.resources.of_parent(id, "environment")) == 1


def test_any_sequence_of_changes_has_the_same_result_as_on_a_dictionary(place: Place):
    parents = (f"parent-{number}" for number in itertools.count())
    with asyncio.Runner() as runner:
        opened = place.opened()
        store = runner.run(opened.__aenter__())

        @examples(50)
        @given(GROUPS)
        def holds(groups: list[list[Step]]) -> None:
            runner.run(play(store, next(parents), groups))

        try:
            holds()
            assert runner.run(_events_are_consecutive(store))
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def _events_are_consecutive(store: Store) -> bool:
    events = await store.reads.events.after(ORG, limit=100_000)
    return [event.seq for event in events] == [*range(1, len(events) + 1)] and len(events) > 100


@pytest.mark.parametrize(
    "pattern",
    ["scattered", "everything", *nightly("one in a hundred", "the first half", "all but the ends", "none")],
)
async def test_every_page_of_a_list_with_deletions_is_the_correct_slice(
    store: Store, place: Place, pattern: str
):
    """More than 4096 places are more than two levels of blocks; PostgreSQL is asked for fewer, for time."""
    size = 700 if place.url else 4_500
    chance = random.Random(3)

    async def fill(tx: Tx) -> list[Row]:
        return [await add(tx, str(number)) for number in range(size)]

    rows = await store.write(fill)
    gone = {
        "scattered": set(chance.sample(range(size), size // 2)),
        "one in a hundred": set(chance.sample(range(size), size // 100)),
        "the first half": set(range(size // 2)),
        "all but the ends": set(range(1, size - 1)),
        "none": set(),
        "everything": set(range(size)),
    }[pattern]

    async def clear(tx: Tx) -> None:
        for number in sorted(gone, key=lambda _: chance.random()):
            await tx.remove(rows[number])

    await store.write(clear)
    left = [row.body for number, row in enumerate(rows) if number not in gone]
    skips = {0, 1, 255, 256, 257, len(left) // 2, len(left) - 1, len(left), len(left) + 1, len(left) + 5000}
    skips |= {chance.randrange(max(1, len(left))) for _ in range(40)}
    for skip in sorted(skip for skip in skips if skip >= 0):
        for most in (1, 100, 2**31 - 1):
            assert await store.reads.lists.page(ORG, FAMILY, skip, most) == (
                left[skip : skip + most],
                len(left),
            )
