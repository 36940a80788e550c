"""A declaration that cannot be served stops the start and says what to change."""

from __future__ import annotations

import re
from typing import Annotated

import pytest

from tests.families.made_up import (
    EnvironmentRule,
    ProjectRule,
    Tier,
    environment_rule,
    project_rule,
)
from tests.tables import rows
from tests.world import make_world
from windlass.core.declare.actions import WORD_PARAMETER, Action, Trait, get, post
from windlass.core.declare.fields import Name, counts
from windlass.core.declare.registry import Actions, AnyOf, Declared
from windlass.core.declare.resource import Family, Shown, Spec
from windlass.families import find_declarations, registry_of
from windlass.families.environment import environment
from windlass.families.project import project


class Counting(Shown):
    tiers: Annotated[int, counts("tier")] = 0


class Box(Spec):
    name: Name


def tier_with(*actions: Action) -> Family:
    return Family("tier", Tier, parent=environment, actions=actions)


nobody = AnyOf("nobody", Trait(name="has_nothing"), "nothing")

TWO_OF_A_NAME = (project_rule, Family("projectRule", EnvironmentRule, parent=environment))
ONE_SEGMENT = (project_rule, Family("otherRule", EnvironmentRule, parent=project, segment="rule"))
ONE_ROUTE = (
    Family("oneRule", ProjectRule, parent=project, segment="rule", param="one_id"),
    Family("otherRule", EnvironmentRule, parent=environment, segment="rule", param="other_id"),
)
ONE_TITLE = (
    Family("oneRule", ProjectRule, parent=project, title="Rule"),
    Family("otherRule", EnvironmentRule, parent=environment, title="Rule"),
)


@rows(
    ("things", "message"),
    [
        (TWO_OF_A_NAME, "two families are named projectRule, in tests.families.made_up and"),
        (ONE_SEGMENT, "projectRule and otherRule have the same segment, rule, below project"),
        (ONE_ROUTE, "getOneRule and getOtherRule have the same route, GET /rule/{one_id}"),
        (ONE_TITLE, "have the same operation id, listRules"),
        ((Family("service", Box, parent=project),), "service is the name of a family and of a union"),
        ((tier_with(get("log", None, "x", suffix="/{x_id}")),), "say in `ids` what {x_id}"),
        (
            (tier_with(get("log", None, "x", suffix="/{x_id}", ids={"x_id": "nothing"})),),
            "{x_id} is the id of nothing, and no family or union has this name",
        ),
        (
            (tier_with(get("log", None, "x", suffix="/{a}/{a}", ids={"a": WORD_PARAMETER})),),
            "two parameters of /tier/{tier_id}/{a}/{a} have the same name",
        ),
        (
            (nobody, Actions(nobody, "x", (get("log", None, "x"),))),
            "every family with has_nothing, and none has it",
        ),
        (
            (Family("box", Box, parent=project, shown=Counting),),
            "box.tiers counts tier: no family below it has this name",
        ),
    ],
)
def test_an_invalid_declaration_stops_the_start(things: tuple[Declared, ...], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        registry_of(*find_declarations(), *things)


def test_a_family_that_two_files_name_is_one_family() -> None:
    made = registry_of(*find_declarations(), project_rule, project_rule, environment_rule)
    assert made["projectRule"] is project_rule
    assert len(made.handled_by("projectRule.create")) == 1


async def test_an_action_without_a_handler_fails_the_start(database_url: str) -> None:
    families = registry_of(*find_declarations(), tier_with(post("explode", None, "Explode")))
    with pytest.raises(LookupError, match=r"nothing handles tier\.explode"):
        async with make_world(database_url, families=families):
            pass


def test_names_in_other_forms_follow_from_the_name_of_a_family() -> None:
    family = Family("toolRepository", Box, parent=project)
    assert (family.segment, family.param) == ("toolRepository", "tool_repository_id")
    assert (family.title, family.group) == ("ToolRepository", "ToolRepositories")
    assert [
        operation.id
        for operation in registry_of(*find_declarations(), family).handled_by("toolRepository.list")
    ] == ["listToolRepositories"]


def test_structs_of_put_and_patch_are_built_when_they_are_first_needed() -> None:
    """All of them would be a sixth of each start."""
    family = Family("crate", Box, parent=project)
    made = registry_of(*find_declarations(), family)
    assert not {"edit", "patch"} & vars(family).keys()
    (put,), (patch,) = made.handled_by("crate.update"), made.handled_by("crate.patch")
    assert (put.body, patch.body) == (family.edit, family.patch)
