"""Versions of a database, before and after it has data."""

from __future__ import annotations

import pytest

from tests.world import World
from windlass.builders.builder import BuildError
from windlass.control.kinds.database import DatabaseKind


async def deployed_database(world: World, version: str) -> str:
    database = await world.database(version=version)
    assert (await world.post(f"/database/{database}/deploy", {})).status == 202
    await world.settle()
    return database


async def test_the_version_of_a_database_whose_build_failed_can_be_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    async def make(*_: object) -> None:
        raise BuildError("There is no such version here.")

    monkeypatch.setattr(DatabaseKind, "make", make)
    database = await deployed_database(world, "15")
    assert await world.state(f"/database/{database}") == "ERROR"
    assert (await world.patch(f"/database/{database}", {"version": "16"})).status == 200


async def test_the_version_of_a_database_with_data_cannot_be_changed(world: World):
    database = await deployed_database(world, "15")
    assert await world.state(f"/database/{database}") == "RUNNING"
    assert (await world.patch(f"/database/{database}", {"version": "16"})).status == 409
