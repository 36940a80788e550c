"""The authors of the newest commits of an application's branch."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.world import World, make_world
from windlass.sources.git import GitCommit

AUTHORS = (
    ("Grace Brewster Hopper", "grace@example.com"),
    ("Ada", "ada@example.com"),
    ("G. Hopper", "Grace@Example.com"),
    ("nobody", ""),
)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


async def test_each_author_is_listed_once_the_newest_first(world: World):
    world.git.history = [GitCommit(f"{at:040x}", "Change", *author, at) for at, author in enumerate(AUTHORS)]
    app = await world.application()
    answer = await world.get(f"/application/{app}/contributor")
    assert answer["results"] == [
        {"first_name": "Grace", "last_name": "Brewster Hopper", "email": "grace@example.com"},
        {"first_name": "Ada", "last_name": "", "email": "ada@example.com"},
        {"first_name": "nobody", "last_name": "", "email": ""},
    ]


async def test_the_contributors_of_an_unreadable_repository_are_answered_with_409(world: World):
    app = await world.application()
    world.git.broken = "it does not answer."
    answer = await world.get(f"/application/{app}/contributor")
    assert (answer.status, answer.message) == (409, "The repository cannot be read: it does not answer.")


async def test_contributors_are_visible_to_every_caller_who_may_read_the_application(world: World):
    app = await world.application()
    here = await world.new_token("Read", limited_to=[app])
    elsewhere = await world.new_token("Admin", limited_to=[await world.project()])
    _, foreign = await world.organization()
    missing = await world.get(f"/application/{uuid.uuid4()}/contributor")
    assert (await world.get(f"/application/{app}/contributor", token=here)).status == 200
    for token in (elsewhere, foreign):
        answer = await world.get(f"/application/{app}/contributor", token=token)
        assert (answer.status, answer.message) == (404, missing.message)
