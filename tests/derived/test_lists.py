"""Lists: whatever was created and deleted, every page of every size is the slice one would cut by hand."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.derived.operations import adding_to, for_operations, operation_of, path_of
from tests.derived.stage import Stage
from tests.derived.things import Subject
from tests.marks import examples
from tests.world import Answer
from windlass.core.declare.registry import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Operation
from windlass.core.declare.resource import Verb
from windlass.core.declare.traits import has_variables
from windlass.families import registry
from windlass.families.any_variable import AnyVariable
from windlass.families.organization import ServiceInBrief
from windlass.families.summaries import OrganizationEnvironment, ServiceOfAnyKind
from windlass.store import Reads, Row, Tx
from windlass.store.sqlite import SqliteStore

a_few = examples(10, nightly=60)
many = examples(80)
every_paged_list = for_operations(lambda operation: operation.paged)
every_list_that_changes = for_operations(
    lambda operation: (
        operation.paged
        and operation.handler.endswith(".list")
        and operation.parent is not None
        and operation.family is not None
        and {Verb.CREATE, Verb.DELETE} <= operation.family.verbs
    )
)


# Over HTTP

CREATE, DELETE, TURN = "create", "delete", "turn"
steps = st.lists(
    st.just((CREATE, 0))
    | st.just((CREATE, 0))
    | st.tuples(st.sampled_from([DELETE, TURN]), st.integers(-5, 20)),
    max_size=30,
)


@a_few
@given(steps=steps)
async def test_every_page_of_every_size_is_the_corresponding_slice_of_the_list(
    stage: Stage, steps: list[tuple[str, int]]
):
    org, admin = await stage.world.organization()
    model = await after(stage, org, admin, steps)
    for size in range(1, len(model) + 2):
        for page in range(1, -(-len(model) // size) + 2):
            answer = await listed(stage, org, admin, f"page={page}&page_size={size}")
            assert ids(answer) == model[(page - 1) * size : page * size]
            assert answer["pagination"] == pagination(page, size, len(model))
    complete = await listed(stage, org, admin, "")
    assert ids(complete) == model
    assert in_order(complete["results"])


async def after(stage: Stage, org: str, admin: str, steps: Iterable[tuple[str, int]]) -> list[str]:
    """Does these steps; the projects that are left, in the order of their creation."""
    world, model = stage.world, list[str]()
    for what, number in steps:
        if what == CREATE:
            body = {"name": world.name("project")}
            model.append(await world.made(f"/organization/{org}/project", body, token=admin))
        elif what == DELETE and model:
            gone = model.pop(number % len(model))
            assert (await world.delete(f"/project/{gone}", token=admin)).status == 204
        elif what == TURN:
            world.clock.turn(number / 1000)  # backwards too: clocks do that when a replica takes over
    return model


@a_few
@given(chosen=st.sets(st.integers(0, 6)), size=st.integers(1, 8))
async def test_pages_for_a_limited_token_contain_exactly_the_resources_in_its_limits(
    stage: Stage, chosen: set[int], size: int
):
    org, admin = await stage.world.organization()
    made = await after(stage, org, admin, [(CREATE, 0)] * 7)
    given = [id for place, id in enumerate(made) if place in chosen]
    shuffled = random.Random(size).sample(given, len(given))
    token = await stage.token(org, admin, limited_to=shuffled) if given else None
    for page in range(1, len(given) // size + 2) if token else ():
        answer = await listed(stage, org, token, f"page={page}&page_size={size}")
        assert ids(answer) == given[(page - 1) * size : page * size]
        assert answer["pagination"] == pagination(page, size, len(given))


@every_paged_list
async def test_the_pages_of_every_list_make_up_the_whole(stage: Stage, operation: Operation):
    subject = await populated(stage, operation)
    whole = (await asked(stage, subject, f"page_size={MAX_PAGE_SIZE}"))["results"]
    assert whole
    for size in (1, 2, 3, len(whole)):
        pages = -(-len(whole) // size)
        answers = [await asked(stage, subject, f"page={n}&page_size={size}") for n in range(1, pages + 2)]
        assert [one for answer in answers for one in answer["results"]] == whole
        assert [answer["pagination"] for answer in answers] == [
            pagination(page, size, len(whole)) for page in range(1, pages + 2)
        ]
    if newest_first(operation):
        assert [one["created_at"] for one in whole] == sorted(
            (one["created_at"] for one in whole), reverse=True
        )
        numbers = [one["number"] for one in whole if "number" in one]
        assert numbers == sorted(set(numbers), reverse=True)
    elif "created_at" in whole[0] and operation.family and operation.family.parent is not has_variables:
        assert in_order(whole)


@every_list_that_changes
async def test_a_deleted_resource_is_not_listed(stage: Stage, operation: Operation):
    assert operation.family is not None
    thing = await stage.plot.fresh(operation.family, operation.parent)
    subject = await stage.plot.subject(operation)
    before = ids(await asked(stage, subject, f"page_size={MAX_PAGE_SIZE}"))
    deletion = operation_of("delete", operation.family, operation.parent)
    assert (await stage.call(deletion, thing.ids, None, subject.tenant.admin)).status == 204
    after = ids(await asked(stage, subject, f"page_size={MAX_PAGE_SIZE}"))
    assert thing.id in before
    assert after == [id for id in before if id != thing.id]


@every_paged_list
async def test_without_parameters_a_list_is_its_first_page_but_complete_under_compat(
    stage: Stage, operation: Operation
):
    subject = await populated(stage, operation)
    answer, complete = await asked(stage, subject, ""), await asked(stage, subject, "", base="/compat")
    whole = await asked(stage, subject, f"page_size={MAX_PAGE_SIZE}", base="/compat")
    # Under compat, lists of variables also have those that Windlass makes.
    shown_to_all = [one for one in whole["results"] if one.get("scope") != "BUILT_IN"]
    assert answer["pagination"] == pagination(1, DEFAULT_PAGE_SIZE, len(shown_to_all))
    assert complete["results"] == whole["results"]
    assert len((await asked(stage, subject, "page_size=1", base="/compat"))["results"]) == 1


async def test_a_list_of_more_than_a_page_is_complete_under_compat_only(stage: Stage):
    org, admin = await stage.world.organization()
    made = await after(stage, org, admin, [(CREATE, 0)] * (DEFAULT_PAGE_SIZE + 5))
    limited = await stage.token(org, admin, limited_to=made)
    for token in (admin, limited):
        assert ids(await listed(stage, org, token, "")) == made[:DEFAULT_PAGE_SIZE]
        assert ids(await listed(stage, org, token, "", base="/compat")) == made
        assert ids(await listed(stage, org, token, "page=2")) == made[DEFAULT_PAGE_SIZE:]
        assert ids(await listed(stage, org, token, "page=2", base="/compat")) == made[DEFAULT_PAGE_SIZE:]


# In the store: long lists with holes

PARENT, FAMILY = "a long list", "thing"
LONG = 4400  # more than 64², so that there are two blocks on the second level
VAST = 17_000_000  # more than 64⁴
NEAR_BLOCKS = [64**level * n + step for level in (1, 2, 3, 4) for n in (1, 2) for step in (-1, 0, 1)]


@pytest.fixture(scope="module")
async def unbroken(stage: Stage) -> list[int]:
    """A list from which nothing was deleted; as everywhere below, a row's body is its place."""
    store = stage.world.installation.ctx.store

    async def add(tx: Tx) -> list[int]:
        return [await added(tx, "unbroken") for _ in range(300)]

    return await store.write(add)


@pytest.fixture(scope="module")
async def broken(stage: Stage) -> list[int]:
    """A long list from which many were deleted: alone, in runs, whole blocks, at both ends."""
    store, chance = stage.world.installation.ctx.store, random.Random(1)

    async def add(tx: Tx) -> list[int]:
        return [await added(tx, PARENT) for _ in range(LONG)]

    places = await store.write(add)
    gone = {*places[:3], *places[-3:], *places[63:195], *places[1000:1070], *chance.sample(places, 400)}
    rows = {row.pos: row for row in await store.reads.resources.of_parent(PARENT, FAMILY)}

    async def remove(tx: Tx) -> None:
        for place in sorted(gone, key=lambda _: chance.random()):
            assert await tx.remove(rows[place]) == []  # none of them could be deployed

    await store.write(remove)
    return [place for place in places if place not in gone]


async def added(tx: Tx, parent: str) -> int:
    place, created = await tx.lists.place(parent, FAMILY)
    await tx.resources.add(row(parent, place, created))
    return place


def row(parent: str, place: int, created: int) -> Row:
    return Row(f"{parent} {place}", FAMILY, "org", parent, place, None, created, "tag", b"%d" % place)


@many
@given(skip=st.integers(0, 310), most=st.integers(1, 310))
async def test_a_slice_of_a_list_without_deletions_is_correct(
    stage: Stage, unbroken: list[int], skip: int, most: int
):
    assert await cut(stage, "unbroken", skip, most) == (unbroken[skip : skip + most], len(unbroken))


@many
@given(skip=st.integers(0, LONG + 10), most=st.integers(1, MAX_PAGE_SIZE))
@example(skip=0, most=1)
@example(skip=256, most=1)
@example(skip=257, most=1)
@example(skip=2000, most=2**31 - 1)
@example(skip=2**31 * MAX_PAGE_SIZE, most=1)
async def test_a_slice_of_a_list_with_deletions_is_correct(
    stage: Stage, broken: list[int], skip: int, most: int
):
    assert await cut(stage, PARENT, skip, most) == (broken[skip : skip + most], len(broken))


async def test_every_offset_in_a_list_with_deletions_is_found(stage: Stage, broken: list[int]):
    for skip in range(0, len(broken), 7):
        assert await cut(stage, PARENT, skip, 2) == (broken[skip : skip + 2], len(broken))


async def test_the_stored_counts_of_deleted_rows_match_the_list(stage: Stage, broken: list[int]):
    """So that the next list, which is too long to be made by deleting, is one that could have been."""
    found = await stage.beside(f"SELECT level, block, n FROM hole WHERE parent = '{PARENT}'")
    assert {(level, block): n for level, block, n in found} == holes(broken, LONG)


@pytest.fixture(scope="module")
async def vast(stage: Stage) -> list[int]:
    """A list of seventeen million resources, of which all but some hundreds were deleted."""
    chance = random.Random(2)
    places = {place for place in NEAR_BLOCKS if place <= VAST} | {1, VAST}
    places |= set(range(300_000, 300_200)) | set(range(16_777_100, 16_777_300))
    left = sorted(places | {chance.randint(1, VAST) for _ in range(900)})
    await write_beside(stage, "a vast list", left, VAST)
    return left


@many
@given(skip=st.integers(0, 1400), most=st.integers(1, 30))
async def test_every_offset_in_a_long_and_nearly_empty_list_is_found(
    stage: Stage, vast: list[int], skip: int, most: int
):
    assert await cut(stage, "a vast list", skip, most) == (vast[skip : skip + most], len(vast))


async def test_a_wrong_stored_count_of_deletions_yields_a_wrong_slice(stage: Stage):
    """The control: pages follow the count, so a wrong count must show."""
    left = [place for place in range(1, 2000) if place % 2]
    await write_beside(stage, "a wrong list", left, 1999, forget=(1, 12))
    assert await cut(stage, "a wrong list", 500, 10) != (left[500:510], len(left))


async def cut(stage: Stage, parent: str, skip: int, most: int) -> tuple[list[int], int]:
    reads: Reads = stage.world.installation.ctx.store.reads
    bodies, total = await reads.lists.page(parent, FAMILY, skip, most)
    return [int(body) for body in bodies], total


def holes(left: Sequence[int], last: int) -> dict[tuple[int, int], int]:
    """Returns the number of empty positions in each block of 64, 64², 64³ and 64⁴ that has any."""
    found = {}
    for level in (1, 2, 3, 4):
        size = 64**level
        live = Counter((place - 1) // size for place in left)
        for block in range(-(-last // size)):
            empty = min(size, last - block * size) - live[block]
            if empty:
                found[level, block] = empty
    return found


async def write_beside(
    stage: Stage, parent: str, left: Sequence[int], last: int, forget: tuple[int, int] | None = None
) -> None:
    """Puts a list into the tables as deleting would have left it."""
    counted = holes(left, last)
    if forget:
        del counted[forget]
    tables: dict[str, list[tuple[Any, ...]]] = {
        "resource": [tuple(getattr(one, name) for name in Row.__struct_fields__) for one in
                     (row(parent, place, place) for place in left)],
        "tally": [(parent, FAMILY, last, len(left), last, 0)],
        "hole": [(parent, FAMILY, level, block, n) for (level, block), n in counted.items()],
    }  # fmt: skip
    installation = stage.world.installation
    store = installation.ctx.store
    if isinstance(store, SqliteStore):
        with contextlib.closing(store.snapshot()) as snapshot, snapshot:
            for table, rows in tables.items():
                marks = ", ".join("?" for _ in rows[0])
                snapshot.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        return
    connection = await asyncpg.connect(installation.ctx.settings.database_url)
    try:
        for table, rows in tables.items():
            await connection.copy_records_to_table(table, records=rows)
    finally:
        await connection.close()


# Helpers


async def populated(stage: Stage, operation: Operation) -> Subject:
    """A list with a few things in it, as far as they can be made."""
    family, plot = operation.family, stage.plot
    for _ in range(4):
        if newest_first(operation):
            action = adding_to(operation)
            holder = action.family if action else family
            assert holder is not None
            thing = await plot.standing(holder)
            await (plot.added(action, thing) if action else plot.deployed(thing))
            stage.world.clock.turn(0.001)
        elif operation.answer is AnyVariable:
            await plot.fresh(registry()["secret"], registry()["application"])
        elif operation.answer is OrganizationEnvironment:
            await plot.fresh(registry()["environment"])
        elif operation.answer in {ServiceInBrief, ServiceOfAnyKind}:
            await plot.fresh(registry()["application"])
        elif family is not None and family.parent is not None:
            await plot.fresh(family, operation.parent)
    return await plot.subject(operation)


def newest_first(operation: Operation) -> bool:
    """So it is with what was done, and with nothing else."""
    return bool(adding_to(operation)) or operation.handler.endswith(".deploymentHistory")


async def asked(stage: Stage, subject: Subject, query: str, base: str = "") -> Answer:
    path = f"{base}{path_of(subject.operation, subject.ids)}?{subject.query}&{query}"
    answer = await stage.world.get(path, token=subject.tenant.admin)
    assert answer.status == 200, answer
    return answer


async def listed(stage: Stage, org: str, token: str | None, query: str, base: str = "") -> Answer:
    answer = await stage.world.get(f"{base}/organization/{org}/project?{query}", token=token)
    assert answer.status == 200, answer
    return answer


def ids(answer: Answer) -> list[str]:
    return [one["id"] for one in answer["results"]]


def in_order(results: Sequence[dict[str, Any]]) -> bool:
    return list(results) == sorted(results, key=lambda one: (one["created_at"], one["id"]))


def pagination(page: int, size: int, total: int) -> dict[str, int]:
    return {"page": page, "page_size": size, "total_count": total, "total_pages": -(-total // size)}


def test_the_order_check_notices_an_unordered_list():
    early, late = ({"created_at": f"2026-01-0{day}", "id": "x"} for day in (1, 2))
    assert in_order([early, late])
    assert not in_order([late, early])
