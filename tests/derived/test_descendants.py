"""A deletion takes all descendants with it, and a parent knows how many it has."""

from __future__ import annotations

from tests.derived.operations import OPERATIONS, for_families, operation_of
from tests.derived.plots import Plot
from tests.derived.stage import Stage, together
from tests.derived.things import Thing
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Family, Verb
from windlass.families import registry


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
                ids = thing.ids[-len(operation.params) :]
                answer = await stage.call(operation, ids, None, plot.tenant.admin)
                assert answer.status == (401 if family.parent is None else 404), operation.id
    assert await traces(stage, things) == []


async def deploy_all(stage: Stage, plot: Plot, things: list[Thing]) -> None:
    for thing in things:
        for operation in OPERATIONS:
            if about(operation, thing) and operation.handler.endswith(".deploy"):
                assert (await stage.call(operation, thing.ids, {}, plot.tenant.admin)).status == 202


def about(operation: Operation, thing: Thing) -> bool:
    """True if it can be done with this very thing."""
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
    """Returns the places in the database where any of them is still mentioned. Events may still mention
    them."""
    columns = (
        ("resource", "id"), ("resource", "parent"), ("tally", "parent"), ("hole", "parent"),
        ("link", "source"), ("link", "target"), ("status", "id"), ("deployment", "service"), ("work", "id"),
        ("token", "id"), ("identity", "member"), ("staged_service", "service"), ("deployment_stage", "id"),
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
async def test_a_parent_counts_its_children_after_many_changes_at_once(stage: Stage, family: Family):
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
