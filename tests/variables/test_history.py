"""The history of variables and secrets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World, make_world
from windlass.control.reporting import audit
from windlass.control.variables import history

CANARY = "correct-horse-battery-staple"


@pytest.fixture
async def world():
    async with make_world() as made:
        yield made


class Levels:
    """An application below an environment and a project."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def make(self) -> None:
        self.project = await self.world.project()
        self.environment = await self.world.environment(self.project)
        self.app = await self.world.application(self.environment)
        self.path = f"/application/{self.app}"

    async def changes(self, query: str = "", **options: Any) -> list[dict[str, Any]]:
        answer = await self.world.get(f"{self.path}/variableHistory{query}", **options)
        assert answer.status == 200, answer
        changes: list[dict[str, Any]] = answer["changes"]
        return changes


@pytest.fixture
async def levels(world: World) -> Levels:
    made = Levels(world)
    await made.make()
    return made


async def test_a_history_says_who_changed_a_variable_when_and_from_what_to_what(world: World, levels: Levels):
    own = f"{levels.path}/environmentVariable"
    id = await world.made(own, {"key": "COLOUR", "value": "red"})
    world.clock.turn(60)
    other = await world.new_token("Write", name="painter")
    headers = {"user-agent": "windlass-cli/0.1"}
    await world.patch(
        f"{own}/{id}", {"value": "blue", "description": "of the door"}, token=other, headers=headers
    )
    world.clock.turn(60)
    await world.put(f"{own}/{id}", {"key": "COLOR", "value": "blue", "description": "of the door"})
    await world.delete(f"{own}/{id}")
    removed, renamed, changed, added = await levels.changes()
    assert [one["change"] for one in (removed, renamed, changed, added)] == [
        "REMOVE",
        "CHANGE",
        "CHANGE",
        "ADD",
    ]
    assert (added["value"], added["former_value"], added["changed_by"]) == ("red", None, "operator")
    assert (changed["former_value"], changed["value"], changed["changed_by"]) == ("red", "blue", "painter")
    assert changed["changed"] == ["description", "value"]
    assert (renamed["former_key"], renamed["key"], renamed["changed"]) == (
        "COLOUR",
        "COLOR",
        ["key"],
    )
    assert (removed["value"], removed["former_value"]) == (None, "blue")
    assert changed["timestamp"] > added["timestamp"]
    assert {
        (one["scope"], one["level_id"], one["variable_id"]) for one in (removed, renamed, changed, added)
    } == {("APPLICATION", levels.app, id)}


async def test_a_history_has_the_changes_of_the_levels_above(world: World, levels: Levels):
    above = await world.made(
        f"/project/{levels.project}/environmentVariable", {"key": "CITY", "value": "Oslo"}
    )
    await world.made(
        f"/environment/{levels.environment}/environmentVariable", {"key": "COLOUR", "value": "red"}
    )
    await world.post(f"{levels.path}/environmentVariable/{above}/override", {"value": "Bergen"})
    changes = await levels.changes("?key=CITY")
    assert [(one["scope"], one["value"], one["variable_type"]) for one in changes] == [
        ("APPLICATION", "Bergen", "OVERRIDE"),
        ("PROJECT", "Oslo", "VALUE"),
    ]
    assert [one["key"] for one in await levels.changes()] == ["CITY", "COLOUR", "CITY"]
    elsewhere = await world.get(f"/project/{levels.project}/variableHistory")
    assert [one["key"] for one in elsewhere["changes"]] == ["CITY"]


async def test_a_history_finds_a_renamed_variable_by_both_keys(world: World, levels: Levels):
    own = f"{levels.path}/environmentVariable"
    id = await world.made(own, {"key": "OLD", "value": "1"})
    await world.patch(f"{own}/{id}", {"key": "NEW"})
    assert [len(await levels.changes(f"?key={key}")) for key in ("OLD", "NEW", "OTHER")] == [2, 1, 0]


async def test_no_history_has_the_value_of_a_secret(world: World, levels: Levels):
    own = f"{levels.path}/secret"
    id = await world.made(own, {"key": "KEY", "value": CANARY})
    await world.patch(f"{own}/{id}", {"value": CANARY + "2"})
    await world.patch(f"{own}/{id}", {"description": "of the shop", "value": CANARY + "3"})
    await world.patch(f"{own}/{id}", {"description": "of the door"})
    await world.post(f"{own}/{id}/alias", {"key": "SCHLUESSEL"})
    await world.delete(f"{own}/{id}")
    answer = await world.get(f"{levels.path}/variableHistory")
    assert CANARY.encode() not in answer.body
    changes = answer["changes"]
    assert {(one["value"], one["former_value"], one["is_secret"]) for one in changes} == {(None, None, True)}
    told = [one["changed"] for one in changes if one["change"] == "CHANGE"]
    assert told == [["description"], ["description", "value"], ["value"]]
    assert next(one["alias_of"] for one in changes if one["key"] == "SCHLUESSEL") == "KEY"


async def test_a_changed_secret_of_an_earlier_version_of_windlass_is_told(
    world: World, levels: Levels, monkeypatch
):
    """Its events do not name hidden fields."""
    own = f"{levels.path}/secret"
    id = await world.made(own, {"key": "KEY", "value": CANARY})
    await world.patch(f"{own}/{id}", {"value": CANARY + "2"})
    decode = history._body_of

    def without_names(body: bytes) -> Any:
        event = decode(body)
        event.hidden_changes = []
        return event

    monkeypatch.setattr(history, "_body_of", without_names)
    assert (await levels.changes())[0]["changed"] == ["value"]


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("?is_secret=true", ["KEY"]),
        ("?is_secret=false", ["COLOUR"]),
        ("", ["KEY", "COLOUR"]),
        ("?is_secret=false&key=KEY", []),
    ],
)
async def test_a_history_shows_variables_or_secrets_alone(
    world: World, levels: Levels, query: str, keys: list[str]
):
    await world.made(f"{levels.path}/environmentVariable", {"key": "COLOUR", "value": "red"})
    await world.made(f"{levels.path}/secret", {"key": "KEY", "value": CANARY})
    assert [one["key"] for one in await levels.changes(query)] == keys


@pytest.mark.parametrize("limit", [None, 1000], ids=["by number", "by size"])
async def test_pages_of_a_history_have_each_change_once_and_in_order(
    world: World, levels: Levels, monkeypatch, limit: int | None
):
    if limit:
        monkeypatch.setattr(audit, "MAX_PAGE_BYTES", limit)
        monkeypatch.setattr(history, "MAX_PAGE_BYTES", limit)
    paths = [levels.path, f"/environment/{levels.environment}", f"/project/{levels.project}"]
    made = []
    for number in range(12):
        kind = "secret" if number % 3 == 0 else "environmentVariable"
        made.append(f"KEY_{number}")
        await world.made(
            f"{paths[number % 2 + number % 3 // 2]}/{kind}", {"key": made[-1], "value": "v" * 200}
        )
    found, token, pages = [], "", 0
    while True:
        answer = await world.get(f"{levels.path}/variableHistory?page_size=5&continueToken={token}")
        found += [one["key"] for one in answer["changes"]]
        token, pages = answer.json.get("continueToken", ""), pages + 1
        if not token:
            break
    assert found == made[::-1]
    assert pages >= 3


async def test_a_limited_token_sees_the_changes_of_its_part_only(world: World, levels: Levels):
    await world.made(f"/project/{levels.project}/environmentVariable", {"key": "CITY", "value": "Oslo"})
    await world.made(f"{levels.path}/environmentVariable", {"key": "COLOUR", "value": "red"})
    limited = await world.new_token("Read", limited_to=[levels.app])
    assert [one["key"] for one in await levels.changes(token=limited)] == ["COLOUR"]
    _, stranger = await world.organization()
    assert (await world.get(f"{levels.path}/variableHistory", token=stranger)).status == 404


async def test_a_rollback_and_an_import_are_in_the_history(world: World, levels: Levels):
    vars = [{"name": "COLOUR", "value": "red", "scope": "APPLICATION", "is_secret": False}]
    path = f"{levels.path}/environmentVariable/import"
    await world.post(path, {"vars": vars})
    await world.post(path, {"vars": [vars[0] | {"value": "blue"}], "overwrite": True})
    changes = await levels.changes()
    assert [(one["former_value"], one["value"]) for one in changes] == [("red", "blue"), (None, "red")]
