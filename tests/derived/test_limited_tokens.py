"""A token that is limited to a part of the organization sees and changes that part alone."""

from __future__ import annotations

import uuid

import pytest

from tests.derived.answers import footprint, never_there, same
from tests.derived.operations import for_operations
from tests.derived.plots import Plot
from tests.derived.references import (
    chooses,
    references,
    referring,
    refers_to_something,
    whole_body,
    without_references,
)
from tests.derived.sorts import about_the_organization, below_a_limit, names_a_level
from tests.derived.stage import Stage
from windlass.core.access import Scope
from windlass.core.declare.registry import Operation
from windlass.families import registry


@pytest.fixture(scope="module")
async def outside(stage: Stage) -> Plot:
    """Another project of the same organization, with all that is below it."""
    return stage.another_plot()


@pytest.fixture(scope="module")
async def limited(stage: Stage) -> str:
    """An Admin token that is limited to the first project."""
    project = await stage.plot.standing(registry()["project"])
    tenant = stage.plot.tenant
    return await stage.token(tenant.org, tenant.admin, limited_to=[project.id])


@for_operations(below_a_limit)
async def test_a_limited_token_may_do_everything_inside_its_limits(
    stage: Stage, operation: Operation, limited: str
):
    subject = await stage.plot.subject(operation)
    if operation.family is registry()["project"] and operation.writes:  # one that was made for this test
        limited = await stage.token(subject.tenant.org, subject.tenant.admin, limited_to=[subject.ids[-1]])
    body = without_references(operation, subject.body)
    answer = await stage.call(operation, subject.ids, body, limited)
    assert answer.status == subject.status


@for_operations(lambda operation: refers_to_something(operation) and operation.need is not Scope.ADMIN)
async def test_a_limited_token_names_nothing_that_it_does_not_see(
    stage: Stage, operation: Operation, limited: str, outside: Plot
):
    """A resource that the token does not see is answered like an id that never existed."""
    subject = await stage.plot.subject(operation)
    for path, (other, _) in references(operation).items():
        body = await whole_body(stage, operation)
        if not chooses(body, path):
            continue
        there = await outside.standing(registry()[other])
        hidden, unknown = [
            await stage.call(operation, subject.ids, referring(operation, body, path, id), limited)
            for id in (there.id, str(uuid.uuid4()))
        ]
        assert unknown.status == 400
        # `cluster` is another name of `cluster_id`.
        assert unknown.message.partition(":")[0] in {path, f"{path}_id"}
        assert same(hidden, unknown)
        # With the right to see it, the same body is taken: nothing else was wrong with it.
        named = referring(operation, body, path, there.id)
        seen = await stage.call(operation, subject.ids, named, subject.tenant.admin)
        assert seen.status == subject.status or seen.message == f"{path}: cannot be changed after creation"


@pytest.mark.slow
@for_operations(lambda operation: bool(operation.params) and not about_the_organization(operation))
async def test_a_limited_token_gets_404_outside_its_limits(
    stage: Stage, operation: Operation, limited: str, outside: Plot
):
    subject = await outside.subject(operation)
    missing = await stage.call(operation, never_there(subject.ids), subject.body, limited)
    assert missing.status == 404
    assert same(await stage.ask(subject, limited), missing)
    assert (await stage.ask(subject, outside.tenant.admin)).status == subject.status


@for_operations(
    lambda operation: (
        not names_a_level(operation) and (not operation.params or about_the_organization(operation))
    )
)
async def test_a_limited_token_may_read_but_not_change_its_organization(
    stage: Stage, operation: Operation, limited: str, outside: Plot
):
    subject = await outside.subject_here(operation)
    before = await footprint(stage)
    answer = await stage.ask(subject, limited)
    if (operation.writes or operation.only_reads) and operation.need is not Scope.READ:
        assert answer.status == 403
        assert await footprint(stage) == before
    else:
        assert answer.status == subject.status


@for_operations(names_a_level)
async def test_a_limited_token_names_only_levels_inside_its_limits(
    stage: Stage, operation: Operation, limited: str, outside: Plot
):
    inside = await stage.plot.subject(operation)
    assert (await stage.ask(inside, limited)).status == inside.status
    there = await outside.subject(operation)
    before = await footprint(stage)
    answer = await stage.ask(there, limited)
    assert answer.status == (400 if operation.writes else 404)
    assert await footprint(stage) == before
    strange = await stage.ask(there, stage.foreign.tenant.admin)
    assert same(strange, answer)
    assert (await stage.ask(there, outside.tenant.admin)).status == there.status


@for_operations(lambda operation: operation.handler.endswith(".list") and about_the_organization(operation))
async def test_a_limited_token_lists_nothing_that_is_outside_its_limits(
    stage: Stage, operation: Operation, limited: str, outside: Plot
):
    assert operation.family is not None
    there = await outside.standing(operation.family)
    inside = await stage.plot.standing(registry()["project"])
    path = (await outside.subject(operation)).path + "?page_size=1000"
    everything, shown = [
        {one["id"] for one in (await stage.world.get(path, token=token))["results"]}
        for token in (outside.tenant.admin, limited)
    ]
    assert there.id in everything
    assert shown == ({inside.id} & everything)


async def test_a_token_limited_to_a_service_sees_nothing_above_or_beside_it(stage: Stage):
    plot, families = stage.plot, registry()
    service = await plot.standing(families["application"])
    beside = await plot.fresh(families["application"])
    token = await stage.token(plot.tenant.org, plot.tenant.admin, limited_to=[service.id])
    assert (await stage.world.get(f"/application/{service.id}", token=token)).status == 200
    assert (await stage.world.get(f"/application/{beside.id}", token=token)).status == 404
    for above in service.above[1:-1]:
        path = f"/{above.family.name}/{above.id}"
        assert (await stage.world.get(path, token=token)).status == 404, path


async def test_a_token_limited_to_an_empty_list_has_no_access(stage: Stage):
    tenant = stage.plot.tenant
    await stage.plot.standing(registry()["project"])
    body = {"name": stage.world.name("token"), "scopes": ["Admin"], "limited_to": []}
    made = await stage.world.post(f"/organization/{tenant.org}/apiToken", body)
    if made.status == 201:
        listed = await stage.world.get(f"/organization/{tenant.org}/project", token=made["token"])
        assert listed["results"] == []
    else:
        assert made.status == 400
        assert made.message.startswith("limited_to: ")
