"""Every field of every body and query, given every kind of wrong value: refused by name, and nothing done."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from tests.derived.bodies import Path, Wrong, placed, spelled, unwrapped, wrongs
from tests.derived.operations import OPERATIONS, for_operations, for_some_operations, path_of
from tests.derived.stage import LIMITS, Stage, keeps_the_promises_of_all_answers
from tests.derived.things import Subject
from tests.marks import examples
from tests.world import Answer
from windlass.core.declare.queries import ServiceTail, Tail
from windlass.core.declare.registry import Operation, Paging
from windlass.core.declare.resource import Spec
from windlass.families.deployment_history import HistoryQuery, StagesHistoryQuery
from windlass.families.deployment_log import DeploymentLogQuery

with_a_body = for_operations(lambda operation: operation.body is not None)
without_a_body = for_operations(
    lambda operation: operation.body is None and operation.method in {"POST", "PUT"}
)
with_a_field = for_operations(lambda operation: bool(operation.body and operation.body.__struct_fields__))
with_a_query = for_operations(lambda operation: operation.query is not None)


# Bodies


@with_a_body
async def test_every_wrong_field_is_refused_by_its_name_and_nothing_is_done(
    stage: Stage, operation: Operation
):
    subject = await stage.plot.untouched(operation)
    assert operation.body is not None
    before = await state(stage)
    for wrong in wrongs(operation.body):
        answer = await sent(stage, subject, placed(operation.body, subject.body, wrong.path, wrong.value))
        assert names(answer, wrong), f"{wrong} is answered {answer}"
    assert await state(stage) == before


@for_some_operations(lambda operation: operation.body is not None)
async def test_the_body_without_the_wrong_field_is_accepted(stage: Stage, operation: Operation):
    """So that a refusal is about that field and about nothing else."""
    subject = await stage.plot.subject(operation)
    assert (await stage.ask(subject, subject.tenant.admin)).status == subject.status


@with_a_body
async def test_a_body_that_is_not_an_object_is_refused(stage: Stage, operation: Operation):
    subject = await stage.plot.untouched(operation)
    before = await state(stage)
    whole = json.dumps(subject.body).encode()
    for raw in (
        b"[]", b'"text"', b"1", b"true", b"[" + whole + b"]", whole[:-1], whole + b"}", b"{", b"\xff", b"NaN",
        b'{"name": "\xed\xa0\x80"}', b'{"name": "\\ud800"}', b"{'name': 'x'}", b"[" * 100_000,
        b"\xef\xbb\xbf" + whole, whole.decode().encode("utf-16"),
    ):  # fmt: skip
        answer = await stage.ask(subject, subject.tenant.admin, raw=raw)
        assert answer.status == 400, (raw[:50], answer)
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
    ):
        answer = await stage.ask(subject, subject.tenant.admin, headers={"content-type": kind})
        assert answer.status == 400, (kind, answer)
        assert answer.message.startswith("Content-Type: ")
    assert await state(stage) == before


@without_a_body
async def test_an_operation_without_a_body_refuses_a_field_by_its_name(stage: Stage, operation: Operation):
    subject = await stage.plot.untouched(operation)
    before = await state(stage)
    answer = await sent(stage, subject, {"surprise": 1})
    assert answer.status == 400
    assert answer.message.startswith("surprise: ")
    assert await state(stage) == before


def test_the_generated_wrong_values_cover_every_kind_at_every_depth():
    """The foundation of the tests above: the list of wrong values is long enough."""
    application = next(one.body for one in OPERATIONS if one.id == "createApplication")
    assert application is not None
    tried = {(spelled(wrong.path), wrong.what) for wrong in wrongs(application)}
    for path, what in (
        ("name", "is missing"),
        ("name", "null"),
        ("name", "a fraction instead of StrType"),
        ("git_repository", "a list instead of StructType"),
        ("git_repository.url", "is missing"),
        ("git_repository.surprise", "an unknown field"),
        ("cpu", "0"),
        ("cpu", "1000001"),
        ("ports[0].internal_port", "65536"),
        ("ports[2]", "a text instead of StructType"),
        ("healthchecks.liveness_probe.type.http.port", "0"),
        ("healthchecks.readiness_probe.type.exec.command", "too few"),
        ("autoscaling.scalers[0].role", "is missing"),
        ("arguments", "too many"),
    ):
        assert (path, what) in tried


def test_a_refusal_must_name_the_wrong_field():
    wrong = Wrong(("git_repository", "url"), "null", None)
    assert names(refusal("git_repository.url: must be a string, not null"), wrong)
    assert not names(refusal("git_repository: must be an object"), wrong)
    assert not names(refusal("url: must be a string"), wrong)
    assert not names(Answer(201, {}, b'{"message": "git_repository.url: fine"}'), wrong)


def test_every_number_that_can_be_sent_fits_into_the_databases():
    """And so none is ever rounded or emitted as a float."""
    for operation in OPERATIONS:
        for spec in (operation.body, operation.query):
            for path, info in numbers((), inspect.type_info(spec)) if spec else ():
                assert info.ge is not None, path
                assert info.ge >= -(2**63), path
                assert info.le is not None, path
                assert info.le < 2**63, path


# Any JSON

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@examples(8, nightly=80)
@given(place=st.integers(0, 1000), value=JSON)
async def test_any_generated_field_value_is_accepted_or_refused_by_field_name(
    stage: Stage, place: int, value: Any
):
    """Never an error of the server, whatever a generator comes up with."""
    await sent_as_a_field(stage=stage, place=place, value=value)


@with_a_field
async def sent_as_a_field(stage: Stage, operation: Operation, place: int, value: Any) -> None:
    assert operation.body is not None
    subject = await stage.plot.untouched(operation)
    paths = sorted(places(operation.body), key=spelled)
    path = paths[place % len(paths)]
    body = placed(operation.body, subject.body, path, value)
    answer = await sent(stage, subject, body, never_there(subject))
    if answer.status == 400:
        assert answer.message.startswith(str(path[0])), (path, value, answer)


# Queries

NO_NUMBERS = (
    "",
    "abc",
    "1.5",
    "1e3",
    "1_0",
    " 1",
    "1 ",
    "+1",
    "0x1",
    "٣",
    "１",
    "null",
    "true",
    "[1]",
    "1,2",
    "--1",
)


NO_MOMENTS = (
    "abc",
    "-1",
    "1.5",
    "1e3",
    "٣",
    "null",
    "2026-01-31",
    "2026-13-01T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00.0000Z",
)
NO_TIMES = ("yesterday", "-1", "1.5", "1" * 20, "2026-13-01T00:00:00Z", "2026-01-31", "2026-01-31T09:05:00")
NOT_THESE = {
    "span": ["", "1", "2h", "1H", "24h "],
    "since": NO_MOMENTS,
    "at": NO_MOMENTS,
    "until": NO_MOMENTS,
    "search": ("x" * 1025,),
    "chartName": ("/a", "a b", "a:1", "x" * 256),
    "imageName": ("Acme", "a b", "a:1", "/a", "x" * 256),
    **dict.fromkeys(
        ("access", "follow", "skipReconcile", "toUpdate", "resources_only", "dry_run"),
        ("", "maybe", "2", "null"),
    ),
    "fromTimestamp": NO_TIMES,
    "toTimestamp": NO_TIMES,
    "continueToken": ("x", "-1", "1.0", "1" * 19),
    "stepBackToken": ("x", "-1", "1.0", "1" * 19),
    "triggeredBy": ("x" * 1025,),
    "family": ("", "MARS", "x" * 65),
    **dict.fromkeys(("startId", "version"), ("", "x", str(uuid.UUID(int=0)))),
    "forceEvent": ("", "PAUSE", "start"),
    "path": ("a/b", "x" * 2049),
    "below": ("x" * 65,),
    "key": ("", "1A", "a b", "x" * 1025),
    **dict.fromkeys(("name", "creatorName"), ("x" * 8193,)),
    "is_secret": ("", "maybe", "2"),
    "exportSecrets": ("", "maybe", "2", "true"),
    **dict.fromkeys(("scope", "service_type"), ("", "7", "project")),
    **dict.fromkeys(("parent_id", "service_id", "deployment_id", "deploymentRequestId"), ("", "7", "x" * 36)),
    "force_terraform_action": ("", "DESTROY", "skip_destroy"),
    **dict.fromkeys(
        ("project_id", "environment_id", "cluster_id", "gitTokenId", "executionId"), ("", "7", "x" * 36)
    ),
    **dict.fromkeys(
        ("eventType", "targetType", "subTargetType", "origin", "targetLevelToFetch"),
        ("", "MARS", "create", "null"),
    ),
    **dict.fromkeys(
        ("targetId", "serviceProjectId", "serviceEnvironmentId", "projectId", "environmentId"),
        ("", "7", "null", "x" * 36),
    ),
}


@with_a_query
async def test_every_wrong_parameter_is_refused_by_its_name(stage: Stage, operation: Operation):
    subject = await stage.plot.untouched(operation)
    assert operation.query is not None
    for name, text in wrong_parameters(operation.query):
        answer = await asked(stage, subject, text)
        assert answer.status == 400, (text, answer)
        assert answer.message.startswith(f"{name}: "), (text, answer)


@with_a_query
async def test_the_minimum_and_maximum_of_every_query_parameter_are_accepted(
    stage: Stage, operation: Operation
):
    subject = await stage.plot.untouched(operation)
    assert operation.query is not None
    for name, info in parameters(operation.query):
        for value in (info.ge, info.le):
            assert (await asked(stage, subject, f"{name}={value}")).status == operation.status
    if not operation.writes:
        assert (await asked(stage, subject, "color=red&color=blue&page_token=")).status in {
            operation.status,
            400,
        }


@pytest.mark.parametrize("shown", ["must match ^[a-z]+$", "must not be '^a$'", "is not [^/]", "ends at \\Z"])
def test_the_check_notices_a_refusal_that_shows_a_regular_expression(shown: str):
    """Every answer of these tests is looked at: see `keeps_the_promises_of_all_answers`."""
    keeps_the_promises_of_all_answers(refusal("name: must be a name"))
    with pytest.raises(AssertionError):
        keeps_the_promises_of_all_answers(refusal(f"name: {shown}"))


def test_every_list_operation_is_paginated_or_is_a_known_exception():
    for operation in OPERATIONS:
        if operation.paged or operation.pages_if_asked:
            assert operation.query is not None
            assert operation.query.__struct_fields__[:2] == Paging.__struct_fields__
        elif operation.listing:
            # Logs and histories have a length of their own, the contract has regions without pages, and the
            # answers to questions and to changes of an order are no lists of resources.
            histories = {HistoryQuery, StagesHistoryQuery}
            has_own_length = operation.query in {Tail, ServiceTail, DeploymentLogQuery, *histories}
            assert has_own_length or operation.path.endswith("/region") or operation.method != "GET", (
                operation.id
            )


# Helpers


async def sent(stage: Stage, subject: Subject, body: Any, ids: Iterable[str] | None = None) -> Answer:
    return await stage.call(
        subject.operation, ids or subject.ids, body, subject.tenant.admin, query=subject.query
    )


def never_there(subject: Subject) -> list[str]:
    """So that what is taken changes nothing that others need."""
    return [str(uuid.UUID(int=0)) for _ in subject.ids]


async def asked(stage: Stage, subject: Subject, query: str) -> Answer:
    if subject.operation.streams and "follow" not in query:
        query += "&follow=false"  # else it would not come to its end
    path = f"{path_of(subject.operation, subject.ids)}?{subject.query}&{query}"
    return await stage.world.call(
        subject.operation.method, path, subject.body or msgspec.UNSET, token=subject.tenant.admin
    )


async def state(stage: Stage) -> tuple[Any, ...]:
    """Differs whenever anything was made, changed or taken away."""
    events = "(SELECT value FROM counter WHERE name = 'event')"
    places = "(SELECT sum(next) FROM tally)"
    answers = "(SELECT count(*) FROM idempotency)"
    return tuple((await stage.beside(f"SELECT {events}, {places}, {answers}"))[0])


def names(answer: Answer, wrong: Wrong) -> bool:
    return answer.status == 400 and answer.message.startswith(f"{spelled(wrong.path)}: ")


def refusal(message: str) -> Answer:
    """As the server answers: with everything that all answers have."""
    said = {"status": 400, "error": "Bad Request", "message": message, "detail": message}
    return Answer(400, dict.fromkeys([*LIMITS, "x-request-id"], "1"), json.dumps(said).encode())


def places(spec: type[Spec]) -> set[Path]:
    return {wrong.path for wrong in wrongs(spec) if wrong.path[-1] != "surprise"}


def numbers(path: Path, annotation: inspect.Type) -> Iterator[tuple[Path, inspect.IntType]]:
    match unwrapped(annotation).info:
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from numbers((*path, field.encode_name), field.type)
        case inspect.ListType(item_type=item):
            yield from numbers((*path, 0), item)
        case inspect.IntType() as info:
            yield path, info


def parameters(query: type[Spec]) -> Iterator[tuple[str, inspect.IntType]]:
    for path, info in numbers((), inspect.type_info(query)):
        yield str(path[0]), info


def wrong_parameters(query: type[Spec]) -> Iterator[tuple[str, str]]:
    """Name and query string. What is no integer needs its own line above."""
    known = dict(parameters(query))
    others = {field.encode_name for field in msgspec.structs.fields(query)} - known.keys()
    for name in others:
        for text in NOT_THESE[name]:
            yield name, f"{name}={quote(text)}"
        yield name, f"{name}=&{name}="
    for name, info in known.items():
        assert info.ge is not None
        assert info.le is not None
        for wrong in (info.ge - 1, -1, info.le + 1, 10**30, -(10**30)):
            yield name, f"{name}={wrong}"
        for text in NO_NUMBERS:
            yield name, f"{name}={quote(text)}"
        yield name, name
        yield name, f"{name}=1&{name}=2"
        yield name, f"{name}=1&{name}=1"
        for other in known.keys() - {name}:
            yield name, f"{other}=1&{name}=0"
