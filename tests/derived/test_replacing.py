"""PUT replaces: what it leaves out goes back to its default, or is kept where there is none. PATCH merges.
For every family, with things of which every field was said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct

from tests.derived.bodies import full
from tests.derived.operations import for_families, operation_of
from tests.derived.plots import Plot
from tests.derived.stage import BASES, Stage
from tests.derived.things import Thing
from tests.schemathesis.rules import RULES
from tests.world import Answer
from windlass.core.declare.document import followed_fields, narrow_document, value_at, with_hidden
from windlass.core.declare.resource import Family, Verb
from windlass.families import registry

every_family = for_families(lambda family: Verb.UPDATE in family.verbs)
_IGNORED = {"id": "x", "created_at": 1, "some_new_field": {"a": 1}}


class Rich(Struct, frozen=True):
    """A thing of which every field was said."""

    stage: Stage
    plot: Plot
    thing: Thing
    body: dict[str, Any]

    async def ask(self, verb: Verb, body: Any = None, base: str = "") -> Answer:
        above = self.thing.parent.family if self.thing.parent else None
        operation = operation_of(verb, self.thing.family, above)
        return await self.stage.call(operation, self.thing.ids, body, self.plot.tenant.admin, base=base)


async def rich_thing(stage: Stage, family: Family) -> Rich:
    """Makes a thing of this family and says every field of it."""
    if family.parent is None:
        plot = await stage.new_plot()
        thing = await plot.standing(family)
        body = in_line(family, full(family.spec, str))
        found = Rich(stage, plot, thing, body)
        assert (await found.ask(Verb.UPDATE, body)).status == 200
        return found
    parent = registry().parents(family)[0]
    assert parent is not None
    plot, above = stage.plot, await stage.plot.standing(parent)
    referred = {other for other, _ in family.references.values()} | {*family.reference_lists.values()}
    named = {other: (await plot.standing(registry()[other])).id for other in referred}
    body = in_line(family, full(family.spec, named.__getitem__))
    return Rich(stage, plot, await made(stage, plot, above, family, body), body)


async def made(
    stage: Stage, plot: Plot, above: Thing, family: Family, body: dict[str, Any], base: str = ""
) -> Thing:
    create = operation_of(Verb.CREATE, family, above.family)
    answer = await stage.call(create, (above.id,), body, plot.tenant.admin, base=base)
    assert answer.status == create.status, answer
    return Thing(family, str(answer["id"]), above)


def in_line(family: Family, body: dict[str, Any]) -> dict[str, Any]:
    """With the rules between fields kept, and no id of what is not made here."""
    create = next(one for one in registry().operations if one.handler == f"{family.name}.{Verb.CREATE}")
    for rule in RULES:
        rule(create, body)
    body.pop("limited_to", None)
    values = ((body.get("values_override") or {}).get("file") or {}).get("git") or {}
    for source in (body, body.get("terraform_files_source", {}), body.get("source") or {}, values):
        if isinstance(source, dict):  # that of an application is a word
            source.get("git_repository", {}).pop("git_token_id", None)
    return body


def resettable(family: Family) -> set[str]:
    return {field.name for field in family.sent_fields} - family.kept


def asks_for_a_secret(family: Family, answer: Answer) -> bool:
    return answer.status == 400 and answer.message.partition(":")[0] in family.hidden


# PUT


@every_family
async def test_a_document_read_under_compat_can_be_sent_back_and_changes_nothing(
    stage: Stage, family: Family
):
    rich = await rich_thing(stage, family)
    before = await rich.ask(Verb.READ, base="/compat")
    again = await rich.ask(Verb.UPDATE, before.json, "/compat")
    assert again.status == 200, again
    assert (again.body, again.headers["etag"]) == (before.body, before.headers["etag"])


@every_family
async def test_a_read_only_field_in_a_put_at_the_root_is_refused(stage: Stage, family: Family):
    """The control: what is ignored under /compat is not ignored everywhere."""
    rich = await rich_thing(stage, family)
    refused = await rich.ask(Verb.UPDATE, (await rich.ask(Verb.READ)).json)
    assert refused.status == 400
    assert refused.message.endswith(": is not a field here")


@pytest.mark.parametrize("base", BASES)
@every_family
async def test_a_put_resets_left_out_fields_and_keeps_those_without_a_default(
    stage: Stage, family: Family, base: str
):
    rich = await rich_thing(stage, family)
    before = (await rich.ask(Verb.READ)).json
    answer = await rich.ask(Verb.UPDATE, {}, base)
    if asks_for_a_secret(family, answer):  # because the default is another address than the one it was for
        answer = await rich.ask(Verb.UPDATE, {name: rich.body[name] for name in family.hidden}, base)
    assert answer.status == 200, answer
    now = (await rich.ask(Verb.READ)).json
    kept = family.kept | set(family.flags.values())
    assert {name: now.get(name) for name in kept} == {name: before.get(name) for name in kept}
    if all(field.required for field in msgspec.structs.fields(family.spec)):
        return  # there is no default to go back to
    assert any(now.get(name) != before[name] for name in before.keys() - {"updated_at"}), "nothing went back"
    if rich.thing.parent:
        said: dict[str, Any] = {**rich.body, **narrow_document(before, family.spec)}
        secrets = {path: value_at(rich.body, path) for path in family.hidden if "." in path}
        said |= with_hidden(said, {path: value for path, value in secrets.items() if isinstance(value, str)})
        needed = {name: said[name] for name in family.kept & said.keys()}
        if family.names:
            needed[family.names] += "-2"
        fresh = await made(rich.stage, rich.plot, rich.thing.parent, family, needed, base)
        new = await Rich(rich.stage, rich.plot, fresh, {}).ask(Verb.READ)
        for name in resettable(family):
            assert now.get(name) == new.json.get(name), name


# PATCH


@every_family
async def test_null_in_a_patch_resets_only_that_field_and_fields_derived_from_it(
    stage: Stage, family: Family
):
    rich = await rich_thing(stage, family)
    for name in sorted(resettable(family)):
        before = (await rich.ask(Verb.READ)).json
        answer = await rich.ask(Verb.PATCH, {name: None})
        if asks_for_a_secret(family, answer):
            continue
        if answer.status == 400:  # it cannot be without, as things are
            assert answer.message.startswith(f"{name}: "), answer
            continue
        after = answer.json
        moved = {field for field in before.keys() | after.keys() if before.get(field) != after.get(field)}
        derived = {other for other, follows in followed_fields(family.spec).items() if follows.source == name}
        assert moved <= {name, "updated_at", *derived, *computed_from(family, before)}, name


def computed_from(family: Family, document: dict[str, Any]) -> set[str]:
    """Fields that only the server sets may change with any other."""
    return document.keys() - narrow_document(document, family.spec).keys()


@every_family
async def test_a_patch_of_ignored_fields_under_compat_changes_nothing(stage: Stage, family: Family):
    rich = await rich_thing(stage, family)
    before = await rich.ask(Verb.READ, base="/compat")
    answer = await rich.ask(Verb.PATCH, _IGNORED, "/compat")
    assert (answer.status, answer.body) == (200, before.body)
    assert (await rich.ask(Verb.PATCH, _IGNORED)).status == 400
