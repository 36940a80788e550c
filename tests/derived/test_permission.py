"""Every operation, for every scope and every kind of limit: HTTP answers what `may` decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.derived.operations import OPERATIONS
from tests.derived.references import references, required, without_references
from tests.derived.stage import Stage, staged
from tests.derived.things import Subject
from tests.marks import nightly
from windlass.base.tokens import new_token
from windlass.core.access import Actor, ResourceLocation, Scope, may, may_somewhere, permits_throughout
from windlass.core.declare.registry import Operation
from windlass.families import registry

SCOPES = (Scope.READ, Scope.WRITE, Scope.DEPLOY, Scope.ADMIN)
OF_A_REPOSITORY = ("service.gitWebhookSync", "service.renewGitWebhook", "service.removeGitWebhook")
"""They change the webhook of a repository, from which services outside of these limits are built, too."""
OTHER_LIMITS = ("no limit", "an environment", "a service", "another project", "nothing")
FROM_ABOVE = (".override", ".alias")
"""Operations on a resource that may lie above the place of the decision."""


class Line(Struct, frozen=True):
    family: str
    id: str
    parent: str


@pytest.fixture(scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with staged("") as made:
        yield made


@pytest.mark.parametrize("kind", ["a project", *nightly(*OTHER_LIMITS)])
async def test_every_operation_over_http_answers_as_the_function_may_decides(stage: Stage, kind: str):
    wrong, statuses = [], set()
    for operation in OPERATIONS:
        if not operation.params or (kind == "a service" and names_another_place(operation)):
            continue
        stage.plot.make_room()
        limits = await limits_of(stage, kind)
        for scope in SCOPES:
            expected, status = await tried(stage, operation, scope, limits)
            if kind in {"an environment", "a service"} and operation.handler in OF_A_REPOSITORY:
                expected = max(expected, 403)
            statuses.add(expected)
            if status != expected:
                wrong.append(f"{operation.id} with {scope.word}: {status} instead of {expected}")
    assert wrong == []
    assert {403, 200} <= statuses


def names_another_place(operation: Operation) -> bool:
    """Its body has to name what a token that is limited to a service does not see, such as an environment."""
    return bool(required(operation) & references(operation).keys())


async def test_the_check_notices_a_handler_that_decides_differently_from_may(stage: Stage):
    """Asked as if it needed less than it does, each of these answers something else than is expected."""
    for id, scope in [("deleteProject", Scope.WRITE), ("deployApplication", Scope.READ)]:
        operation = registry().operation(id)
        subject = await stage.plot.untouched(operation)
        caller = caller_of(subject, Scope.ADMIN, None)
        allowed = await expected_of(stage, subject, caller)
        assert await answered(stage, subject, caller_of(subject, scope, None)) != allowed


async def limits_of(stage: Stage, kind: str) -> frozenset[str] | None:
    families, plot = registry(), stage.plot
    match kind:
        case "no limit":
            return None
        case "a project":
            return frozenset({(await plot.standing(families["project"])).id})
        case "an environment":
            return frozenset({(await plot.standing(families["environment"])).id})
        case "a service":
            return frozenset({(await plot.standing(families["application"])).id})
        case "another project":
            return frozenset({(await stage.another_plot().standing(families["project"])).id})
        case _:
            return frozenset()


def caller_of(subject: Subject, scope: Scope, limits: frozenset[str] | None) -> Actor:
    permits = permits_throughout(subject.tenant.org, scope)
    return Actor(id="made-up", name="made up", subject="made-up", permits=permits, limited_to=limits)


async def tried(
    stage: Stage, operation: Operation, scope: Scope, limits: frozenset[str] | None
) -> tuple[int, int]:
    """Returns the expected and the answered status. Refused calls share a resource, others have their own."""
    subject = await stage.plot.untouched(operation)
    caller = caller_of(subject, scope, limits)
    expected = await expected_of(stage, subject, caller)
    if expected not in {403, 404} and operation.writes:
        subject = await stage.plot.subject(operation)
        caller = caller_of(subject, scope, limits)
        expected = await expected_of(stage, subject, caller)
    return expected, await answered(stage, subject, caller)


async def answered(stage: Stage, subject: Subject, caller: Actor) -> int:
    token, world = new_token(), stage.world
    world.installation.authenticator._cache_actor(
        f"Token {token}".encode(), caller, world.clock.now() + 60_000
    )
    body = within(subject.operation, without_references(subject.operation, subject.body))
    return (await stage.call(subject.operation, subject.ids, body, token)).status


def within(operation: Operation, body: Any) -> Any:
    """The body of an import names levels of its own: here, the one that the path names."""
    if not operation.handler.endswith(".import"):
        return body
    assert operation.parent is not None
    level = operation.parent.name.upper()
    return {**body, "vars": [{**variable, "scope": level} for variable in body["vars"]]}


async def expected_of(stage: Stage, subject: Subject, caller: Actor) -> int:
    need, where = subject.operation.need, await location_of(stage, subject)
    if not may_somewhere(caller, need):
        return 403
    if not may(caller, Scope.READ, where):
        return 404
    return subject.status if may(caller, need, where) else 403


async def location_of(stage: Stage, subject: Subject) -> ResourceLocation:
    """Finds the place of the decision in the table, without the product's code."""
    last = [] if subject.operation.handler.endswith(FROM_ABOVE) else await chain_of(stage, subject.ids[-1])
    chain = last or await chain_of(stage, named_level(subject) or await service_of(stage, subject.ids[0]))
    found = {line.family: line.id for line in chain}
    services = (line.id for line, above in pairwise(chain) if above.family == "environment")
    where = ResourceLocation(
        found["organization"],
        project=found.get("project", ""),
        environment=found.get("environment", ""),
        service=next(services, ""),
        cluster=found.get("cluster", ""),
    )
    own = chain[0].id
    return where if own in {where.organization, *where.ids} else replace(where, item=own)


async def service_of(stage: Stage, id: str) -> str:
    """Returns the service of a deployment; any other id unchanged."""
    rows = await stage.beside(f"SELECT service FROM deployment WHERE id = '{id}'")
    return str(rows[0][0]) if rows else id


def named_level(subject: Subject) -> str:
    """Returns the id of the level that a body names, if it names one."""
    fields = ("alias_parent_id", "override_parent_id")
    return next((subject.body[field] for field in fields if field in (subject.body or {})), "")


async def chain_of(stage: Stage, id: str) -> list[Line]:
    """Returns a resource and all that it lies in; nothing for a deployment, which is no resource."""
    chain: list[Line] = []
    while id:
        rows = await stage.beside(f"SELECT family, parent FROM resource WHERE id = '{id}'")
        if not rows:
            break
        chain.append(Line(rows[0][0], id, rows[0][1]))
        id = chain[-1].parent
    return chain
