"""New environments follow the deployment rules of their project."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import rows
from tests.world import World
from windlass.control.services.project_deployment_rules import matches

HOURS = {
    "timezone": "UTC",
    "start_time": "1970-01-01T08:00:00.000Z",
    "stop_time": "1970-01-01T19:00:00.000Z",
    "weekdays": ["MONDAY"],
}


class Ruled:
    """A project with rules."""

    def __init__(self, world: World, project: str, cluster: str) -> None:
        self.world, self.id, self.cluster = world, project, cluster
        self.path = f"/project/{project}/deploymentRule"

    async def add(self, name: str, wildcard: str, **fields: Any) -> str:
        body = {"name": name, "wildcard": wildcard, "mode": "STAGING", "cluster_id": self.cluster, **HOURS}
        return await self.world.made(self.path, {**body, **fields})

    async def mode(self, name: str, **fields: Any) -> str:
        made = await self.world.post(f"/project/{self.id}/environment", {"name": name, **fields})
        return str(made["mode"])


@pytest.fixture
async def ruled(world: World) -> Ruled:
    project = await world.project()
    cluster = (await world.get(f"/environment/{await world.environment(project)}"))["cluster_id"]
    return Ruled(world, project, cluster)


async def test_a_new_environment_follows_the_first_rule_that_matches_its_name(ruled: Ruled):
    first = await ruled.add("first", "test-*")
    second = await ruled.add("second", "*", mode="PRODUCTION")
    assert await ruled.mode("test-1") == "STAGING"
    assert await ruled.mode("shop") == "PRODUCTION"
    order = {"project_deployment_rule_ids_in_order": [second, first]}
    assert (await ruled.world.put(f"{ruled.path}/order", order)).status == 200
    assert await ruled.mode("test-2") == "PRODUCTION"
    listed = (await ruled.world.get(ruled.path))["results"]
    assert {rule["id"]: rule["priority_index"] for rule in listed} == {second: 0, first: 1}


async def test_a_chosen_mode_goes_before_that_of_a_rule(ruled: Ruled):
    await ruled.add("all", "*", mode="STAGING")
    assert await ruled.mode("shop", mode="PRODUCTION") == "PRODUCTION"
    assert await ruled.mode("other", mode="DEVELOPMENT") == "STAGING"


async def test_a_new_environment_gets_the_running_hours_of_its_rule(ruled: Ruled):
    await ruled.add("night", "test-*", auto_stop=True)
    world = ruled.world
    environment = await world.made(f"/project/{ruled.id}/environment", {"name": "test-1"})
    rule = await world.get(f"/environment/{environment}/deploymentRule")
    assert (rule["auto_stop"], rule["weekdays"]) == (True, ["MONDAY"])
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    world.clock.turn(6 * 3600)  # from Monday, 14:13
    await world.settle()
    assert await world.state(f"/application/{app}") == "STOPPED"


async def test_a_changed_rule_changes_no_environment_that_exists(ruled: Ruled):
    rule = await ruled.add("all", "*", auto_stop=True)
    environment = await ruled.world.made(f"/project/{ruled.id}/environment", {"name": "test-1"})
    assert (await ruled.world.patch(f"{ruled.path}/{rule}", {"mode": "PRODUCTION"})).status == 200
    assert (await ruled.world.delete(f"{ruled.path}/{rule}")).status == 204
    assert (await ruled.world.get(f"/environment/{environment}"))["mode"] == "STAGING"
    assert (await ruled.world.get(f"/environment/{environment}/deploymentRule"))["auto_stop"]
    assert await ruled.mode("later") == "DEVELOPMENT"


async def test_an_order_names_each_rule_once(ruled: Ruled):
    one, other = await ruled.add("one", "a"), await ruled.add("other", "b")
    for ids in ([one], [one, one], [one, other, other]):
        refused = await ruled.world.put(f"{ruled.path}/order", {"project_deployment_rule_ids_in_order": ids})
        assert refused.status == 409
        assert "send the id of each rule of the project once; it has 2" in refused.message


async def test_a_rule_with_running_hours_needs_the_right_to_deploy(ruled: Ruled):
    body = {"name": "n", "wildcard": "*", "mode": "STAGING", "cluster_id": ruled.cluster, "auto_stop": True}
    writes = await ruled.world.new_token("write")
    refused = await ruled.world.post(ruled.path, {**body, **HOURS}, token=writes)
    assert refused.status == 403
    assert refused.message.startswith("Use a token with the scope Deploy for the project")
    without = await ruled.world.post(ruled.path, {**body, **HOURS, "auto_stop": False}, token=writes)
    assert without.status == 201


async def test_a_cluster_that_a_rule_names_is_not_deleted(ruled: Ruled):
    world = ruled.world
    body = {"name": "second", "region": "local", "cloud_provider": "ON_PREMISE"}
    second = await world.made(f"/organization/{world.org}/cluster", body)
    rule = await ruled.add("all", "*", cluster_id=second)
    refused = await world.delete(f"/organization/{world.org}/cluster/{second}")
    assert refused.status == 409
    assert refused.message.startswith("Choose another cluster in the deployment rules of projects first: 1")
    await world.delete(f"{ruled.path}/{rule}")
    assert (await world.delete(f"/organization/{world.org}/cluster/{second}")).status == 204


@rows(
    ("wildcard", "name", "expected"),
    [
        ("test-*", "TEST-1", True),
        ("test-?", "test-12", False),
        ("*a*b*", "xxaxxbxx", True),
        ("*a*b", "xxaxxbxx", False),
        ("", "anything", False),
        ("[a-z]*", "[a-z]b", True),
        ("[a-z]*", "b", False),
    ],
)
def test_a_wildcard_matches_whole_names(wildcard: str, name: str, expected: bool):
    assert matches(wildcard, name) is expected


@given(st.text("ab", max_size=12), st.lists(st.integers(0, 12), max_size=4))
def test_a_name_matches_itself_with_any_parts_replaced(name: str, places: list[int]):
    letters = [*name]
    for place in places:
        if place < len(letters):
            letters[place] = "?*"[place % 2]
    assert matches("".join(letters), name) is bool(name)


WILDCARDS = ("", "*", "a*", "*b", "?", "a?", "*a*", "ab*", "b", "*-*")
NAMES = ("a", "b", "ab", "ba", "aab", "a-b", "cc", "ABBA", "b-")
RULE_MODES = ("STAGING", "PRODUCTION")


def stands_for(wildcard: str, name: str) -> bool:
    """Says slowly whether a name matches, by trying what a star may stand for."""
    if not wildcard:
        return not name
    first, rest = wildcard[0], wildcard[1:]
    if first == "*":
        return any(stands_for(rest, name[length:]) for length in range(len(name) + 1))
    return bool(name) and first in {"?", name[0]} and stands_for(rest, name[1:])


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_changes_of_rules_the_first_that_matches_applies(ruled: Ruled, seed: int):
    """A model keeps the rules in their order, while they are added, moved, changed and deleted."""
    chance, world = random.Random(seed), ruled.world
    model: list[tuple[str, str, str]] = []
    for number in range(24):
        deed = chance.choice(("add", "add", "order", "change", "delete"))
        if deed == "add" or not model:
            wildcard, mode = chance.choice(WILDCARDS), chance.choice(RULE_MODES)
            model.append((await ruled.add(f"rule {number}", wildcard, mode=mode), wildcard, mode))
        elif deed == "order":
            chance.shuffle(model)
            order = {"project_deployment_rule_ids_in_order": [id for id, _, _ in model]}
            assert (await world.put(f"{ruled.path}/order", order)).status == 200
        elif deed == "change":
            place, wildcard = chance.randrange(len(model)), chance.choice(WILDCARDS)
            id, _, mode = model[place]
            body = {"name": f"rule {number}", "wildcard": wildcard, "mode": mode, "cluster_id": ruled.cluster}
            assert (await world.put(f"{ruled.path}/{id}", body)).status == 200
            model[place] = (id, wildcard, mode)
        else:
            id, _, _ = model.pop(chance.randrange(len(model)))
            assert (await world.delete(f"{ruled.path}/{id}")).status == 204
        name = chance.choice(NAMES)
        made = await world.post(f"/project/{ruled.id}/environment", {"name": name})
        matching = (mode for _, wildcard, mode in model if stands_for(wildcard.casefold(), name.casefold()))
        assert made["mode"] == next(matching, "DEVELOPMENT"), (name, model)
        assert (await world.delete(f"/environment/{made['id']}")).status == 204
