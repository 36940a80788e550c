"""Writes that meet each other: twins make one thing, no update is lost, one name wins, nothing stays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.derived.answers import same_result
from tests.derived.operations import for_operations, for_some_operations, operation_of
from tests.derived.sorts import every_naming
from tests.derived.stage import Stage, together
from tests.derived.things import Subject
from tests.marks import either
from tests.world import Answer, World, make_world
from windlass.core.declare.registry import Operation
from windlass.families import registry

TWINS, WRITERS = either(2, 50), either(16, 32)
_keys = itertools.count(1)
ALIKE = {
    "autoDeployContainers",
    "checkContainerRegistry",
    "cleanFailedJob",
    "cleanFailedJobs",
    "deployJobsOfImage",
    "editClusterCloudProviderInfo",
    "previewContainers",
    "transferOrganizationOwnership",
    "tryHelmRepository",
}
"""A second request finds nothing to do, or looks again."""


every_post = for_operations(lambda operation: operation.is_repeatable)
some_posts = for_some_operations(lambda operation: operation.is_repeatable)
every_conditional = for_operations(lambda operation: operation.conditional)


# Idempotency-Key


@every_post
async def test_simultaneous_duplicate_requests_create_one_resource_and_get_one_answer(
    stage: Stage, operation: Operation
):
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


@some_posts
async def test_without_an_idempotency_key_two_requests_create_two_resources(
    stage: Stage, operation: Operation
):
    """The control: it is the key that makes one of them. Where nothing is answered, what is there tells."""
    alone = await made_by(stage, [await stage.plot.subject(operation)], keyed=False)
    subject = await stage.plot.subject(operation)
    both = await made_by(stage, [subject] * 2, keyed=False)
    one, other = both.answers
    assert subject.status in {one.status, other.status}
    is_alike = operation.id in ALIKE or subject.status >= 400
    assert one.body != other.body or both.difference != alone.difference or is_alike


@some_posts
async def test_an_idempotency_key_is_valid_for_one_request_only(stage: Stage, operation: Operation):
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
    assert same_result(await keyed(stage, first, key), answer)


@some_posts
async def test_the_same_idempotency_key_of_two_callers_is_independent(stage: Stage, operation: Operation):
    key, tenant = new_key(), stage.plot.tenant
    for token in (tenant.admin, await stage.token(tenant.org, tenant.admin)):
        subject = await stage.plot.subject(operation)
        answer = await keyed(stage, subject, key, token=token)
        assert answer.status == subject.status
        assert "idempotency-replayed" not in answer.headers


@some_posts
async def test_a_request_that_was_refused_does_not_use_up_its_key(stage: Stage, operation: Operation):
    subject, key = await stage.plot.subject(operation), new_key()
    assert (await keyed(stage, subject, key, {"surprise": 1})).status == 400
    assert (await keyed(stage, subject, key)).status == subject.status


@every_naming
async def test_a_request_that_failed_for_a_while_succeeds_under_its_key_later(
    stage: Stage, operation: Operation
):
    if operation.parent is None:  # the other member has an organization and keeps it
        return
    subject, key = await stage.plot.subject(operation), new_key()
    in_the_way = await stage.ask(subject, subject.tenant.admin)
    assert (await keyed(stage, subject, key)).status == 409
    assert (await deleted(stage, operation, subject, in_the_way)).status == 204
    assert (await keyed(stage, subject, key)).status == subject.status


async def test_an_idempotency_key_is_valid_for_24_hours(stage: Stage):
    subject, key = await stage.plot.subject(registry().operation("deployApplication")), new_key()
    first = await keyed(stage, subject, key)
    stage.world.clock.turn(24 * 3600 - 1)
    assert same_result(await keyed(stage, subject, key), first)
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
    assert same_result(again, first)
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert first["token"].encode() not in kept


async def test_duplicate_requests_at_two_replicas_create_one_resource(postgres_url: str, tmp_path: Path):
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


@for_some_operations(lambda operation: operation.tagged)
async def test_the_etag_of_a_write_equals_the_etag_of_the_next_read(stage: Stage, operation: Operation):
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


@pytest.mark.essential
async def test_many_writers_lose_no_update(stage: Stage):
    world, project = stage.world, await counter(stage)
    await together(*(add_one(world, project) for _ in range(WRITERS)))
    assert (await world.get(f"/project/{project}"))["description"] == str(WRITERS)


async def test_without_if_match_concurrent_updates_are_lost(stage: Stage):
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


# Helpers


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
        query=subject.query,
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
