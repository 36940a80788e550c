"""No name and no description holds characters that are not seen, or that make others read backwards."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from msgspec import inspect

from tests.documented import operations
from tests.hostile.fields import fields_of
from tests.world import World, make_world
from windlass.core.declare.fields import Name, visible
from windlass.core.declare.registry import Operation
from windlass.families import registry
from windlass.store import Tx

UNSEEN = (
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"  # the direction of writing
    "\u200b\u2060\ufeff\u00ad\u3164\u115f\u180e\u206a\U000e0041"  # nothing, or a blank that is none
    "\x00\x1b\x7f\x9b"
)
SHAPED = [
    "👩\u200d💻",
    "🏳\ufe0f\u200d🌈 team",
    "❤\ufe0f",
    "می\u200cخواهم",
    "क्\u200dष",
    "日本 語",
    "naïve",
    "Ωmega 1",
]
SHOWN = ("name", "description")


def texts(info: inspect.Type) -> Iterator[tuple[tuple[str, ...], inspect.StrType]]:
    for path, kind in fields_of(info, in_lists=True):
        if isinstance(kind, inspect.StrType):
            yield path, kind


def refuses(text: inspect.StrType, value: str) -> bool:
    return text.pattern is not None and not re.search(text.pattern, value)


@operations(lambda operation: operation.body is not None)
def test_every_name_and_description_refuses_invisible_characters(operation: Operation):
    for path, text in texts(inspect.type_info(operation.body)):
        if path[-1] in SHOWN:
            seen = [sign for sign in UNSEEN if not refuses(text, f"shop{sign}pohs")]
            assert seen == [], f"{path}: {[hex(ord(sign)) for sign in seen]}"


def test_the_tests_of_invisible_characters_cover_names_and_descriptions():
    found = {
        path[-1]
        for family in registry().families.values()
        for path, _ in texts(inspect.type_info(family.spec))
    }
    assert found >= set(SHOWN)
    assert not refuses(inspect.StrType(), "shop\u202e"), "a text without a pattern refuses nothing"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


async def test_a_name_with_a_text_direction_character_is_refused_by_field_name(world: World):
    projects = f"/organization/{world.org}/project"
    for sign in UNSEEN:
        for field in SHOWN:
            body = {"name": "shop", field: f"sh{sign}op"}
            answer = await world.post(projects, body)
            assert (answer.status, answer.message.partition(":")[0]) == (400, field), hex(ord(sign))
            assert "not seen" in answer.message


@pytest.mark.parametrize(
    "name",
    [
        "sh\u2028op",
        "sh\u2029op",
        "sh\nop",
        "sh\u200dop",
        "sh\u200cop",
        "shop\ufe0f",
        "\u200dshop",
        "é\u200dshop",
    ],
)
async def test_a_name_with_a_line_break_or_a_misplaced_joiner_is_refused(world: World, name: str):
    answer = await world.post(f"/organization/{world.org}/project", {"name": name})
    assert (answer.status, answer.message.partition(":")[0]) == (400, "name")


async def stored_before_the_rule(world: World) -> tuple[str, str]:
    """A project whose name and description an earlier version has taken."""
    id, backwards = await world.project(description="shown"), "sh\u202eop"

    async def change(tx: Tx) -> None:
        row = await tx.resources.get(id)
        assert row is not None
        document = msgspec.json.decode(row.body) | {"name": backwards}
        await tx.resources.change(
            msgspec.structs.replace(row, name=backwards, body=msgspec.json.encode(document))
        )

    await world.installation.ctx.store.write(change)
    return id, backwards


async def test_an_edit_that_leaves_an_already_stored_invalid_name_unchanged_is_accepted(world: World):
    id, backwards = await stored_before_the_rule(world)
    for send, body in ((world.patch, {"description": "patched"}), (world.put, {"description": "put"})):
        answer = await send(f"/project/{id}", body)
        assert (answer.status, answer["name"]) == (200, backwards), answer
        assert answer["description"] == body["description"]


async def test_an_already_stored_invalid_name_cannot_be_sent_again(world: World):
    id, backwards = await stored_before_the_rule(world)
    for body in ({"name": backwards}, {"description": backwards}):
        answer = await world.patch(f"/project/{id}", body)
        assert (answer.status, answer.message.partition(":")[0]) == (400, next(iter(body)))
    assert (await world.patch(f"/project/{id}", {"name": "shop"})).status == 200


@pytest.mark.parametrize("name", SHAPED)
async def test_names_of_all_scripts_and_emoji_are_taken(world: World, name: str):
    project = await world.project(name=name, description=f"{name}\n{name}")
    assert (await world.get(f"/project/{project}"))["name"] == name


def test_invisible_characters_are_removed_from_a_name_in_a_jwt():
    assert visible(f"A{UNSEEN}da 👩\u200d💻") == "Ada 👩\u200d💻"


def test_the_pattern_of_names_has_no_quadratic_runtime_for_long_names():
    (pattern,) = [text.pattern for _, text in texts(inspect.type_info(Name))]
    assert pattern is not None
    for sign in ("é\u200d", "a ", "é\ufe0f", " "):
        assert not re.search(pattern, "x" + sign * 20_000 + "\u202e")
