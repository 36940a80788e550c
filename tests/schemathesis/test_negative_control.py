"""The negative control: a server that breaks one promise is found out, by the check of that promise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.marks import either, nightly
from tests.schemathesis.serving import served
from tests.schemathesis.town import Town
from tests.schemathesis.trial import CHECKS, Report, Trial
from tests.world import ADMIN

pytestmark = pytest.mark.slow

Scope = MutableMapping[str, Any]


class Answer(Struct, frozen=True):
    scope: Scope
    status: int
    headers: Mapping[bytes, bytes]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def saying(self, body: Any) -> Answer:
        raw = json.dumps(body).encode()
        return replace(self, body=raw, headers={**self.headers, b"content-length": b"%d" % len(raw)})

    def without(self, header: bytes) -> Answer:
        return replace(self, headers={name: value for name, value in self.headers.items() if name != header})


class Lie(Struct, frozen=True):
    """A change of a request, and of its answer."""

    operations: tuple[str, ...]
    told: Callable[[Answer], Answer] = lambda answer: answer
    asked: Callable[[Scope], Scope] = lambda scope: scope
    phase: str = "coverage"


class Liar:
    """Stands before the app."""

    def __init__(self, app: Any, lie: Lie) -> None:
        self._app = app
        self._lie = lie

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["path"] == "/openapi.json":
            await self._app(scope, receive, send)
            return
        said: list[Any] = []

        async def hear(message: Any) -> None:
            said.append(message)

        await self._app(self._lie.asked(scope), receive, hear)
        start, body = said
        told = self._lie.told(Answer(scope, start["status"], dict(start["headers"]), body["body"]))
        await send({**start, "status": told.status, "headers": [*told.headers.items()]})
        await send({**body, "body": told.body})


def _fails(answer: Answer) -> Answer:
    return replace(_refuses(answer), status=500) if answer.status == 200 else answer


def _refuses(answer: Answer) -> Answer:
    if answer.status != 200:
        return answer
    refusal = {"status": 400, "error": "Bad Request", "message": "no", "detail": "no"}
    return replace(answer.saying(refusal), status=400)


def _answers_otherwise(answer: Answer) -> Answer:
    return replace(answer, status=203) if answer.status == 200 else answer


def _calls_it_text(answer: Answer) -> Answer:
    return replace(answer, headers={**answer.headers, b"content-type": b"text/plain"})


def _forgets_a_header(answer: Answer) -> Answer:
    return answer.without(b"x-ratelimit-remaining")


def _forgets_a_field(answer: Answer) -> Answer:
    if answer.status != 200:
        return answer
    return answer.saying({"results": [{**one, "city": None} for one in answer.json["results"]]})


def _does_not_say_what_is_allowed(answer: Answer) -> Answer:
    return answer.without(b"allow")


def _allows_more(answer: Answer) -> Answer:
    if answer.scope["method"] != "OPTIONS":
        return answer
    return replace(answer, headers={**answer.headers, b"allow": b"GET, HEAD, OPTIONS, PATCH"})


def _finds_nothing(answer: Answer) -> Answer:
    if answer.scope["method"] != "GET" or answer.status != 200:
        return answer
    return replace(_refuses(answer), status=404)


def _does_not_read_the_query(scope: Scope) -> Scope:
    return {**scope, "query_string": b""}


def _lets_everybody_in(scope: Scope) -> Scope:
    headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
    return {**scope, "headers": [*headers, (b"authorization", f"Token {ADMIN}".encode())]}


def _deletes_nothing(scope: Scope) -> Scope:
    return {**scope, "method": "OPTIONS"} if scope["method"] == "DELETE" else scope


REGIONS = ("listAWSRegions",)
PROJECTS = ("createProject", "getProject", "deleteProject")
NEW_ORGANIZATIONS = ("createOrganization", "getOrganization")
LIES = {
    "not_a_server_error": Lie(REGIONS, told=_fails),
    "status_code_conformance": Lie(REGIONS, told=_answers_otherwise),
    "content_type_conformance": Lie(REGIONS, told=_calls_it_text),
    "response_headers_conformance": Lie(REGIONS, told=_forgets_a_header),
    "response_schema_conformance": Lie(REGIONS, told=_forgets_a_field),
    "negative_data_rejection": Lie(("listOrganizations",), asked=_does_not_read_the_query),
    "positive_data_acceptance": Lie(("listOrganizations",), told=_refuses),
    "unsupported_method": Lie(REGIONS, told=_does_not_say_what_is_allowed),
    "allow_header_conformance": Lie(REGIONS, told=_allows_more),
    "ignored_auth": Lie(REGIONS, asked=_lets_everybody_in),
    "use_after_free": Lie(PROJECTS, asked=_deletes_nothing, phase="stateful"),
    "ensure_resource_availability": Lie(NEW_ORGANIZATIONS, told=_finds_nothing, phase="stateful"),
}
FIRST, OTHERS = [*LIES][:3], [*LIES][3:]
SILENT = {
    "missing_required_header",  # none is, but Authorization, and without that ignored_auth asks
    "object_level_authorization",  # needs two callers; tests/derived has a stranger for every operation
}


@pytest.mark.parametrize("check", [*FIRST, *nightly(*OTHERS)])
@pytest.mark.nightly
async def test_a_server_that_breaks_one_promise_fails_the_check_of_that_promise(
    town: Town, check: str
) -> None:
    assert await _found_out(town, LIES[check], check)


@pytest.mark.nightly
async def test_a_correct_server_gets_no_findings(town: Town) -> None:
    operations = {operation for lie in LIES.values() for operation in lie.operations}
    for phase in ("coverage", "stateful"):
        report = await _tried(town, Lie(tuple(operations), phase=phase))
        assert report.cases[phase] > 20
        assert not report.complaints


def test_every_check_has_a_negative_control() -> None:
    assert {*LIES, *SILENT} == {*CHECKS}


async def _found_out(town: Town, lie: Lie, check: str) -> bool:
    """Stories are made up as they go, and not every one comes to where this lie is told."""
    for seed in range(1, 7):
        if (await _tried(town, lie, seed)).failed[check]:
            return True
    return False


async def _tried(town: Town, lie: Lie, seed: int = 1) -> Report:
    async with served(town.world, Liar(town.world.installation.app, lie)) as address:
        trial = Trial(address, town, seed=seed, examples=either(5, 10), most=either(50, None))
        return await asyncio.to_thread(trial.run, [lie.phase], lie.operations)
