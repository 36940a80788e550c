"""Who uses a variable, and which services a change of it makes out of date."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.sites import DOCKER, ready_job
from tests.world import World, make_world
from windlass.control.services import variable_use
from windlass.core.words.variable_users import VariableIndex, users_of
from windlass.core.words.variables import DeclaredVariable, UnresolvableVariable, resolve

CANARY = "correct-horse-battery-staple"
NAMES = ("web", "mail", "report")


@pytest.fixture
async def world():
    async with make_world() as made:
        yield made


class Town:
    """Two applications in an environment, of which one runs, and a third one in another environment."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def make(self) -> None:
        world = self.world
        self.project = await world.project()
        self.environment = await world.environment(self.project)
        self.web = await world.application(self.environment, name="web")
        self.mail = await world.application(self.environment, name="mail")
        self.other = await world.application(await world.environment(self.project), name="other")
        await self.deploy(self.web)

    async def deploy(self, app: str) -> None:
        await self.world.post(f"/application/{app}/deploy")
        await self.world.settle()

    async def set(self, level: str, key: str, value: str, kind: str = "environmentVariable") -> str:
        return str(await self.world.made(f"{level}/{kind}", {"key": key, "value": value}))

    async def use(self, level: str, key: str, **options: Any) -> Any:
        answer = await self.world.get(f"{level}/variableUse?key={key}", **options)
        assert answer.status == 200, answer
        return answer.json


@pytest.fixture
async def town(world: World) -> Town:
    made = Town(world)
    await made.make()
    return made


def row(used: Any, name: str) -> Any:
    return next(one for one in used["services"] if one["service_name"] == name)


async def test_each_service_says_whether_it_uses_a_variable_and_restarts_if_it_changes(town: Town):
    project = f"/project/{town.project}"
    await town.set(project, "CITY", "Oslo")
    await town.set(f"/application/{town.web}", "TITLE", "Shop of {{CITY}}")
    await town.set(f"/application/{town.web}", "HEADING", "{{TITLE}}!")
    await town.set(f"/application/{town.mail}", "CITY", "Bergen")
    await town.set(f"/application/{town.mail}", "SUBJECT", "From {{CITY}}")
    used = await town.use(project, "CITY")
    assert (used["scope"], used["level_id"], used["is_secret"]) == ("PROJECT", town.project, False)
    assert [one["service_name"] for one in used["services"]] == ["web", "mail", "other"]
    assert (row(used, "web")["used_in"], row(used, "web")["is_overridden"]) == (["HEADING", "TITLE"], False)
    assert (row(used, "mail")["used_in"], row(used, "mail")["is_overridden"]) == ([], True)
    assert [one["restarts"] for one in used["services"]] == [True, False, False]
    assert await town.use(f"/application/{town.mail}", "SUBJECT") == {
        "key": "SUBJECT",
        "scope": "APPLICATION",
        "level_id": town.mail,
        "is_secret": False,
        "services": [row(await town.use(f"/application/{town.mail}", "SUBJECT"), "mail")],
        "is_complete": True,
    }


async def test_a_service_that_restarts_is_the_one_that_a_change_makes_out_of_date(world: World, town: Town):
    id = await town.set(f"/environment/{town.environment}", "COLOUR", "red")
    for app in (town.web, town.mail, town.other):
        await town.deploy(app)
    used = await town.use(f"/application/{town.web}", "COLOUR")
    await world.put(
        f"/environment/{town.environment}/environmentVariable/{id}", {"key": "COLOUR", "value": "blue"}
    )
    fresh = {
        app: (await world.get(f"/application/{app}/status"))["service_deployment_status"]
        for app in (town.web, town.mail, town.other)
    }
    assert {one["service_id"] for one in used["services"] if one["restarts"]} == {
        app for app, freshness in fresh.items() if freshness == "OUT_OF_DATE"
    }


async def test_jobs_and_stopped_services_become_out_of_date_although_nothing_of_them_runs(
    world: World, town: Town
):
    id = await town.set(f"/environment/{town.environment}", "COLOUR", "red")
    job = await ready_job(world, town.environment, name="report", source=DOCKER)
    await town.deploy(town.mail)
    await world.post(f"/application/{town.mail}/stop")
    await world.settle()
    used = await town.use(f"/environment/{town.environment}", "COLOUR")
    assert [
        (name, row(used, name)["becomes_out_of_date"], row(used, name)["restarts"]) for name in NAMES
    ] == [
        ("web", True, True),
        ("mail", True, False),
        ("report", True, False),
    ]
    await world.put(
        f"/environment/{town.environment}/environmentVariable/{id}", {"key": "COLOUR", "value": "blue"}
    )
    for service in (f"/application/{town.mail}", f"/job/{job}"):
        assert (await world.get(f"{service}/status"))["service_deployment_status"] == "OUT_OF_DATE"


async def test_aliases_are_uses_and_no_answer_has_the_value_of_a_secret(world: World, town: Town):
    id = await town.set(f"/environment/{town.environment}", "KEY", CANARY, "secret")
    await world.post(f"/application/{town.web}/secret/{id}/alias", {"key": "TILL_KEY"})
    await town.set(f"/application/{town.mail}", "LOGIN", "me:{{KEY}}", "secret")
    answer = await world.get(f"/environment/{town.environment}/variableUse?key=KEY")
    assert CANARY.encode() not in answer.body
    assert (answer["is_secret"], row(answer, "web")["used_in"]) == (True, ["TILL_KEY"])
    assert row(answer, "mail")["used_in"] == ["LOGIN"]


async def test_a_variable_that_windlass_sets_restarts_only_what_uses_it(world: World, town: Town):
    await world.database(town.environment, name="main-db")
    await town.set(f"/application/{town.web}", "STORE", "{{MAIN_DB_URL}}")
    for app in (town.web, town.mail):
        await town.deploy(app)
    used = await town.use(f"/environment/{town.environment}", "MAIN_DB_URL")
    assert (used["scope"], used["is_secret"], "level_id" in used) == ("BUILT_IN", True, False)
    assert [(one["service_name"], one["used_in"], one["restarts"]) for one in used["services"]] == [
        ("web", ["STORE"], True),
        ("mail", [], False),
    ]


async def test_a_key_that_nobody_set_has_no_uses(town: Town):
    used = await town.use(f"/environment/{town.environment}", "NOTHING")
    assert used == {"key": "NOTHING", "is_secret": False, "services": [], "is_complete": True}
    assert (await town.world.get(f"/environment/{town.environment}/variableUse"))["services"] == []


async def test_services_that_the_caller_may_not_see_are_left_out_and_this_is_said(world: World, town: Town):
    await town.set(f"/environment/{town.environment}", "COLOUR", "red")
    limited = await world.new_token("Read", limited_to=[town.mail])
    used = await town.use(f"/application/{town.mail}", "COLOUR", token=limited)
    assert ([one["service_name"] for one in used["services"]], used["is_complete"]) == (["mail"], False)


@pytest.mark.parametrize("limit", ["MAX_LISTED", "MAX_READ_BYTES", "MAX_READ_NAMES"])
async def test_a_long_list_ends_and_says_so(town: Town, monkeypatch, limit: str):
    await town.set(f"/project/{town.project}", "COLOUR", "red")
    await town.set(f"/project/{town.project}", "OTHER", "{{A}}{{B}}")
    monkeypatch.setattr(variable_use, limit, 1)
    used = await town.use(f"/project/{town.project}", "COLOUR")
    assert ([one["service_name"] for one in used["services"]], used["is_complete"]) == (["web"], False)


KEYS = ["A", "B", "C", "D"]


@st.composite
def levels(draw: st.DrawFn) -> list[list[DeclaredVariable]]:
    """Up to three levels of variables that mention each other, or are aliases."""
    made: list[list[DeclaredVariable]] = []
    ids: list[str] = []
    for level in range(draw(st.integers(1, 3))):
        entries = []
        for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
            id = f"{level}{key}"
            is_alias = bool(ids) and draw(st.booleans())
            mentioned = draw(st.lists(st.sampled_from(KEYS), max_size=2))
            entries.append(
                DeclaredVariable(
                    id=id,
                    key=key,
                    value=f"<{id}>" + "".join(f"{{{{{name}}}}}" for name in mentioned),
                    stands_for=draw(st.sampled_from(ids)) if is_alias else "",
                )
            )
            ids.append(id)
        made.append(entries)
    return made


@given(levels())
def test_the_uses_of_a_variable_are_those_whose_resolved_value_contains_it(
    declared: list[list[DeclaredVariable]],
):
    try:
        resolved = resolve(declared).variables
    except UnresolvableVariable:
        return  # a circle
    chosen: dict[str, str] = {}
    for level in declared:
        for entry in level:
            chosen.setdefault(entry.key, entry.id)
    for entry in (entry for level in declared for entry in level if not entry.stands_for):
        expected = [key for key, value in sorted(resolved.items()) if f"<{entry.id}>" in value]
        users = users_of([VariableIndex(level) for level in declared], entry.id)
        assert users.is_effective is (chosen[entry.key] == entry.id)
        assert users.keys == [key for key in expected if chosen[key] != entry.id]
