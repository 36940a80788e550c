"""Writes that meet each other: twins make one thing, no update is lost, one name wins, nothing stays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.derived.stage import (
    OPERATIONS,
    Plot,
    Stage,
    Subject,
    Thing,
    for_families,
    for_operations,
    operation_of,
    together,
)
from tests.world import Answer, World, make_world
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Family, Verb
from windlass.families import registry

TWINS, WRITERS, RIVALS = 50, 32, 20
_keys = itertools.count(1)


def does(operation: Operation, verb: Verb) -> bool:
    return operation.handler.endswith(f".{verb}")


def named(operation: Operation) -> bool:
    return operation.family is not None and operation.family.names is not None


every_post = for_operations(lambda operation: operation.method == "POST")
every_naming = for_operations(lambda operation: does(operation, Verb.CREATE) and named(operation))
every_renaming = for_operations(
    lambda operation: (does(operation, Verb.UPDATE) or does(operation, Verb.PATCH)) and named(operation)
)
every_conditional = for_operations(lambda operation: operation.conditional)


# Idempotency-Key


@every_post
async def test_fifty_twins_make_one_thing_and_get_one_answer(stage: Stage, operation: Operation):
    alone = await made_by(stage, [await stage.plot.subject(operation)], keyed=False)
    subject = await stage.plot.subject(operation)
    together_ = await made_by(stage, [subject] * TWINS, keyed=True)
    assert (
        len({(answer.status, answer.body, answer.headers.get("etag")) for answer in together_.answers}) == 1
    )
    assert together_.answers[0].status == subject.status
    assert together_.difference == alone.difference
    replays = [answer for answer in together_.answers if "idempotency-replayed" in answer.headers]
    assert len(replays) == (TWINS - 1 if subject.status < 400 else 0)


@every_post
async def test_without_a_key_twins_are_two(stage: Stage, operation: Operation):
    """The control: it is the key that makes one of them. Where nothing is answered, what is there tells."""
    alone = await made_by(stage, [await stage.plot.subject(operation)], keyed=False)
    subject = await stage.plot.subject(operation)
    both = await made_by(stage, [subject] * 2, keyed=False)
    one, other = both.answers
    assert subject.status in {one.status, other.status}
    assert one.body != other.body or both.difference != alone.difference or subject.status >= 400


@every_post
async def test_a_key_is_for_one_request_only(stage: Stage, operation: Operation):
    first, second = await stage.plot.subject(operation), await stage.plot.subject(operation)
    key = new_key()
    answer = await keyed(stage, first, key)
    if answer.status >= 400:
        return
    before = await amounts(stage)
    if operation.body is not None:
        assert (await keyed(stage, first, key, {**first.body, "name": "x"})).status in {400, 409}
    if (first.ids, first.body) != (second.ids, second.body):
        other = await keyed(stage, second, key)
        assert other.status == 409
        assert "Idempotency-Key" in other.message
    assert await amounts(stage) == before
    assert same(await keyed(stage, first, key), answer)


@every_post
async def test_the_same_key_of_another_caller_is_another_key(stage: Stage, operation: Operation):
    key, tenant = new_key(), stage.plot.tenant
    for token in (tenant.admin, await stage.token(tenant.org, tenant.admin)):
        subject = await stage.plot.subject(operation)
        answer = await keyed(stage, subject, key, token=token)
        assert answer.status == subject.status
        assert "idempotency-replayed" not in answer.headers


@every_post
async def test_a_request_that_was_refused_does_not_use_up_its_key(stage: Stage, operation: Operation):
    subject, key = await stage.plot.subject(operation), new_key()
    assert (await keyed(stage, subject, key, {"surprise": 1})).status == 400
    assert (await keyed(stage, subject, key)).status == subject.status


@every_naming
async def test_a_request_that_failed_for_a_while_succeeds_under_its_key_later(
    stage: Stage, operation: Operation
):
    if operation.parent is None:  # whoever is in the way has an organization and keeps it
        return
    subject, key = await stage.plot.subject(operation), new_key()
    in_the_way = await stage.ask(subject, subject.tenant.admin)
    assert (await keyed(stage, subject, key)).status == 409
    assert (await deleted(stage, operation, subject, in_the_way)).status == 204
    assert (await keyed(stage, subject, key)).status == subject.status


async def test_a_key_is_kept_for_a_day(stage: Stage):
    subject, key = await stage.plot.subject(registry().operation("deployApplication")), new_key()
    first = await keyed(stage, subject, key)
    stage.world.clock.turn(24 * 3600 - 1)
    assert same(await keyed(stage, subject, key), first)
    stage.world.clock.turn(1)
    assert (await keyed(stage, subject, key))["id"] != first["id"]


@pytest.mark.parametrize("key", ["", "x" * 256, "ü"])
async def test_a_key_that_cannot_be_kept_is_refused(stage: Stage, key: str):
    subject = await stage.plot.subject(registry().operation("createProject"))
    before = await amounts(stage)
    answer = await keyed(stage, subject, key)
    assert answer.status == 400
    assert answer.message.startswith("Idempotency-Key: ")
    assert await amounts(stage) == before


async def test_an_answer_is_kept_over_a_restart_and_cannot_be_read_in_the_database(
    database_url: str, tmp_path: Path
):
    body, headers = {"name": "robot", "scopes": ["Admin"]}, {"idempotency-key": "once"}
    async with make_world(database_url, folder=tmp_path) as world:
        first = await world.post(f"/organization/{world.org}/apiToken", body, headers=headers)
    async with make_world(database_url, folder=tmp_path) as world:
        again = await world.post(f"/organization/{world.org}/apiToken", body, headers=headers)
    assert same(again, first)
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert first["token"].encode() not in kept


async def test_twins_at_two_replicas_make_one_thing(postgres_url: str, tmp_path: Path):
    async with (
        make_world(postgres_url, folder=tmp_path) as one,
        make_world(postgres_url, folder=tmp_path) as two,
    ):
        path, headers = f"/organization/{one.org}/project", {"idempotency-key": "once"}
        replicas = (one, two) * (TWINS // 2)
        answers = await together(*(world.post(path, {"name": "shop"}, headers=headers) for world in replicas))
        assert len({(answer.status, answer.body) for answer in answers}) == 1
        assert (await one.get(path))["pagination"]["total_count"] == 1


# If-Match


@every_conditional
async def test_a_write_with_an_outdated_etag_is_refused(stage: Stage, operation: Operation):
    subject = await stage.plot.subject(operation)
    tag = await tag_of(stage, operation, subject)
    before = await amounts(stage)
    for stale in ('"0000000000000000"', f"W/{tag}", tag.strip('"'), f'"{tag}"', "", '"a", "b"'):
        answer = await stage.ask(subject, subject.tenant.admin, headers={"if-match": stale})
        assert answer.status == 412, stale
    assert await amounts(stage) == before
    assert await tag_of(stage, operation, subject) == tag


@every_conditional
@pytest.mark.parametrize("form", ["{}", '"a", {}', "*"])
async def test_a_write_with_the_current_etag_succeeds(stage: Stage, operation: Operation, form: str):
    subject = await stage.plot.subject(operation)
    tag = await tag_of(stage, operation, subject)
    answer = await stage.ask(subject, subject.tenant.admin, headers={"if-match": form.format(tag)})
    assert answer.status == subject.status


@for_operations(lambda operation: operation.tagged)
async def test_the_tag_of_an_answer_is_the_tag_of_what_it_shows(stage: Stage, operation: Operation):
    subject = await stage.plot.subject(operation)
    answer = await stage.ask(subject, subject.tenant.admin)
    if answer.status >= 400:
        return
    assert operation.family is not None
    ids = subject.ids
    if operation.method == "POST":
        ids = (*subject.ids[:1], answer["id"]) if operation.family.nested else (answer["id"],)
    read = operation_of("read", operation.family, operation.parent)
    token = answer.json.get("admin_token", subject.tenant.admin)
    assert (await stage.call(read, ids, None, token)).headers["etag"] == answer.headers["etag"]


async def test_many_writers_lose_no_update(stage: Stage):
    world, project = stage.world, await counter(stage)
    await together(*(add_one(world, project) for _ in range(WRITERS)))
    assert (await world.get(f"/project/{project}"))["description"] == str(WRITERS)


async def test_without_if_match_updates_would_be_lost(stage: Stage):
    """The control: the writers above do meet."""
    world, project = stage.world, await counter(stage)
    await together(*(add_one(world, project, conditional=False) for _ in range(WRITERS)))
    assert int((await world.get(f"/project/{project}"))["description"]) < WRITERS


async def counter(stage: Stage) -> str:
    return await stage.world.project(description="0")


async def add_one(world: World, project: str, *, conditional: bool = True) -> None:
    while True:
        read = await world.get(f"/project/{project}")
        headers = {"if-match": read.headers["etag"]} if conditional else {}
        body = {"description": str(int(read["description"]) + 1)}
        answer = await world.put(f"/project/{project}", body, headers=headers)
        if answer.status == 200:
            return
        assert answer.status == 412


# Names


@every_naming
async def test_concurrent_creations_of_one_name_succeed_once(stage: Stage, operation: Operation):
    subject = await stage.plot.subject(operation)
    family = operation.family
    assert family is not None
    assert family.names is not None
    name = subject.body[family.names]
    wanted = [name if family.exact_names else in_other_letters(name, number) for number in range(RIVALS)]
    assert len(set(wanted)) == (1 if family.exact_names else RIVALS)
    bodies = [{**subject.body, family.names: name} for name in wanted]
    answers = await together(
        *(stage.call(operation, subject.ids, body, subject.tenant.admin) for body in bodies)
    )
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [operation.status] + [409] * (RIVALS - 1)
    assert all(answer.message.startswith(f"{family.names}: ") for answer in answers if answer.status == 409)


@every_naming
async def test_one_name_may_be_used_in_two_places(stage: Stage, operation: Operation):
    if operation.parent is None:
        return
    subject = await stage.plot.subject(operation)
    elsewhere = await stage.foreign.subject(operation)
    for place in (subject, elsewhere):
        assert operation.family is not None
        field = str(operation.family.names)
        body = {**place.body, field: subject.body[field]}
        assert (await stage.call(operation, place.ids, body, place.tenant.admin)).status == operation.status


@every_renaming
async def test_a_name_that_is_taken_cannot_be_taken_by_renaming(stage: Stage, operation: Operation):
    family = operation.family
    assert family is not None
    if family.parent is None:
        return
    field, plot = str(family.names), stage.plot
    one, other = await plot.fresh(family, operation.parent), await plot.fresh(family, operation.parent)
    read = operation_of("read", family, operation.parent)
    taken = (await stage.call(read, one.ids, None, plot.tenant.admin))[field]
    variant = taken if family.exact_names else taken.swapcase()
    before = await stage.call(read, other.ids, None, plot.tenant.admin)
    refused = await stage.call(operation, other.ids, {field: variant}, plot.tenant.admin)
    assert refused.status == 409
    assert refused.message.startswith(f"{field}: ")
    assert same(await stage.call(read, other.ids, None, plot.tenant.admin), before)
    assert (await stage.call(operation, one.ids, {field: variant}, plot.tenant.admin)).status == 200


@pytest.mark.parametrize(("one", "other"), [("Straße", "STRASSE"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("É", "é")])
async def test_letters_of_all_alphabets_are_compared_without_case(stage: Stage, one: str, other: str):
    await stage.world.project(name=one)
    answer = await stage.world.post(f"/organization/{stage.world.org}/project", {"name": other})
    assert answer.status == 409


def in_other_letters(name: str, number: int) -> str:
    """The same name, with the letters in upper case that the bits of the number say."""
    letters = [place for place, letter in enumerate(name) if letter.isalpha()]
    upper = {place for bit, place in enumerate(letters) if number >> bit & 1}
    return "".join(letter.upper() if place in upper else letter.lower() for place, letter in enumerate(name))


# What is above and below


@for_families(lambda family: Verb.DELETE in family.verbs and registry().children(family))
async def test_a_deletion_removes_all_descendants(stage: Stage, family: Family):
    plot = await stage.new_plot()
    top = await plot.standing(family)
    things = [top, *await everything_below(plot, family)]
    for service in {thing.family.name: thing.family for thing in things}.values():
        await stage.postpone_work(service)
    await deploy_all(stage, plot, things)
    await stage.world.settle()
    await deploy_all(stage, plot, things)  # and this work is still to be done
    assert await traces(stage, things)
    deletion = operation_of("delete", family, top.parent.family if top.parent else None)
    assert (await stage.call(deletion, top.ids, None, plot.tenant.admin)).status == 204
    await stage.world.settle()  # services that were deployed take their time
    stage.world.clock.turn(1.001)  # by then, every replica knows which tokens went with it
    for thing in things:
        for operation in OPERATIONS:
            if about(operation, thing) and operation.method == "GET":
                answer = await stage.call(operation, thing.ids, None, plot.tenant.admin)
                assert answer.status == (401 if family.parent is None else 404), operation.id
    assert await traces(stage, things) == []


async def deploy_all(stage: Stage, plot: Plot, things: list[Thing]) -> None:
    for thing in things:
        for operation in OPERATIONS:
            if about(operation, thing) and operation.handler.endswith(".deploy"):
                assert (await stage.call(operation, thing.ids, {}, plot.tenant.admin)).status == 202


def about(operation: Operation, thing: Thing) -> bool:
    """Whether it can be done with this very thing."""
    above = thing.parent.family if thing.parent else None
    same_place = operation.family is thing.family and operation.parent is above
    return same_place and operation.params[-1:] == [thing.family.param]


async def everything_below(plot: Plot, family: Family) -> list[Thing]:
    found = []
    for child in registry().children(family):
        found.append(await plot.standing(child, family))
        found += await everything_below(plot, child)
    return found


async def traces(stage: Stage, things: list[Thing]) -> list[str]:
    """Where in the database any of them is still known. Events remember, and are meant to."""
    columns = (
        ("resource", "id"), ("resource", "parent"), ("tally", "parent"), ("hole", "parent"),
        ("link", "source"), ("link", "target"), ("status", "id"), ("deployment", "service"), ("work", "id"),
        ("token", "id"), ("identity", "member"),
    )  # fmt: skip
    wanted = ", ".join(f"'{thing.id}'" for thing in things)
    return [
        f"{table}.{column}"
        for table, column in columns
        if await stage.beside(f"SELECT 1 FROM {table} WHERE {column} IN ({wanted})")
    ]


def counter_of(family: Family) -> str:
    """The field of its parent that says how many there are."""
    parents = [parent for parent in registry().parents(family) if parent]
    return next((parent.counts[family.name] for parent in parents if family.name in parent.counts), "")


@for_families(counter_of)
async def test_a_parent_knows_how_many_it_has_after_many_came_and_went_at_once(stage: Stage, family: Family):
    plot = stage.another_plot()
    old = [await plot.fresh(family) for _ in range(10)]
    parent = old[0].parent
    assert parent is not None
    read = operation_of("read", parent.family, parent.parent.family if parent.parent else None)
    creation = operation_of("create", family, parent.family)
    deletion = operation_of("delete", family, parent.family)
    before = await stage.call(read, parent.ids, None, plot.tenant.admin)
    assert before[counter_of(family)] == 10
    coming = [
        stage.call(creation, (parent.id,), await plot.body(creation), plot.tenant.admin) for _ in range(15)
    ]
    going = [stage.call(deletion, thing.ids, None, plot.tenant.admin) for thing in old[:7]]
    twice = [stage.call(deletion, thing.ids, None, plot.tenant.admin) for thing in old[:7]]
    answers = await together(*coming, *going, *twice)
    assert sorted(answer.status for answer in answers) == [201] * 15 + [204] * 7 + [404] * 7
    after = await stage.call(read, parent.ids, None, plot.tenant.admin)
    assert after[counter_of(family)] == 10 + 15 - 7
    assert after.headers["etag"] == before.headers["etag"]


# What the sentences above are made of


class Outcome:
    def __init__(self, answers: list[Answer], before: tuple[int, ...], after: tuple[int, ...]) -> None:
        self.answers = answers
        self.difference = tuple(now - then for now, then in zip(after, before, strict=True))


async def made_by(stage: Stage, subjects: list[Subject], *, keyed: bool) -> Outcome:
    headers = {"idempotency-key": new_key()} if keyed else {}
    before = await amounts(stage)
    answers = await together(*(stage.ask(one, one.tenant.admin, headers=headers) for one in subjects))
    return Outcome(answers, before, await amounts(stage))


async def amounts(stage: Stage) -> tuple[int, ...]:
    tables = ("event", "resource", "deployment", "token", "link", "status", "identity")
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    return tuple((await stage.beside(f"SELECT {counts}"))[0])


async def keyed(
    stage: Stage, subject: Subject, key: str, body: Any = None, token: str | None = None
) -> Answer:
    return await stage.call(
        subject.operation,
        subject.ids,
        subject.body if body is None else body,
        token or subject.tenant.admin,
        headers={"idempotency-key": key},
    )


async def deleted(stage: Stage, operation: Operation, subject: Subject, answer: Answer) -> Answer:
    assert operation.family is not None
    deletion = operation_of("delete", operation.family, operation.parent)
    ids = (*subject.ids, answer["id"]) if operation.family.nested else (answer["id"],)
    return await stage.call(deletion, ids, None, subject.tenant.admin)


async def tag_of(stage: Stage, operation: Operation, subject: Subject) -> str:
    assert operation.family is not None
    read = operation_of("read", operation.family, operation.parent)
    return (await stage.call(read, subject.ids, None, subject.tenant.admin)).headers["etag"]


def new_key() -> str:
    return f"key-{next(_keys)}"


def same(one: Answer, other: Answer) -> bool:
    return (one.status, one.body) == (other.status, other.body)
