"""Names are unique among their siblings, whatever their case, and are taken once."""

from __future__ import annotations

import pytest

from tests.derived.answers import same_result
from tests.derived.operations import for_operations, operation_of
from tests.derived.sorts import does, every_naming, named
from tests.derived.stage import Stage, together
from tests.marks import either
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Verb

RIVALS = either(4, 20)
every_renaming = for_operations(
    lambda operation: (does(operation, Verb.UPDATE) or does(operation, Verb.PATCH)) and named(operation)
)


@pytest.mark.essential
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
async def test_the_same_name_may_be_used_under_two_parents(stage: Stage, operation: Operation):
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
    assert same_result(await stage.call(read, other.ids, None, plot.tenant.admin), before)
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
