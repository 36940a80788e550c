"""A secret that an answer shows once is answered to a repetition for a minute, and to none later."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tables import table
from tests.world import Answer, HandClock, World, make_world
from windlass.control.request.idempotency import SECRET_LIFETIME
from windlass.core.declare.registry import Operation
from windlass.families import registry

SECRETS = re.compile(r"token|secret|password|credential", re.IGNORECASE)
KEY = {"idempotency-key": "k"}
MINUTE = SECRET_LIFETIME / 1000


@pytest.fixture
async def world(database_url: str) -> Any:
    async with make_world(database_url) as made:
        yield made


async def token(world: World) -> Answer:
    body = {"name": "ci", "scopes": ["Deploy"]}
    return await world.post(f"/organization/{world.org}/apiToken", body, headers=KEY)


async def test_a_repeated_token_creation_shows_the_token_for_a_minute_and_then_409(world: World):
    first = await token(world)
    world.clock.turn(MINUTE - 1)
    again = await token(world)
    assert (again.status, again.body) == (201, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    world.clock.turn(1)
    late = await token(world)
    assert (late.status, late.headers["idempotency-replayed"]) == (409, "true")
    assert late.message.startswith("Use another Idempotency-Key")
    assert first["token"].encode() not in late.body
    listed = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    assert [one["name"] for one in listed].count("ci") == 1, "and none was made in its place"


async def test_a_token_that_was_deleted_is_not_shown_again(world: World):
    first = await token(world)
    await world.delete(f"/organization/{world.org}/apiToken/{first['id']}")
    assert (await token(world)).status == 409


@pytest.mark.parametrize("what", ["organization", "rotation", "session"])
async def test_other_one_time_secrets_are_also_repeated_for_only_a_minute(world: World, what: str):
    webhook = await world.made(
        f"/organization/{world.org}/webhook",
        {"target_url": "https://receiver.example/", "events": ["DEPLOYMENT_STARTED"]},
    )
    path, body = {
        "organization": ("/organization", {"name": "other", "plan": "FREE"}),
        "rotation": (f"/organization/{world.org}/webhook/{webhook}/rotateSecret", {}),
        "session": ("/account/session", {}),
    }[what]
    who = await world.new_token("Admin") if what == "session" else world.token
    first, again = [await world.post(path, body, headers=KEY, token=who) for _ in range(2)]
    assert first.status in {200, 201}
    assert first.body == again.body
    world.clock.turn(MINUTE)
    assert (await world.post(path, body, headers=KEY, token=who)).status == 409


async def test_an_idempotent_answer_that_creates_no_secret_can_be_repeated_after_more_than_a_minute(
    world: World,
):
    webhook = await world.made(
        f"/organization/{world.org}/webhook",
        {"target_url": "https://receiver.example/", "events": ["DEPLOYMENT_STARTED"]},
    )
    path = f"/organization/{world.org}/webhook/{webhook}/rotateSecret"
    body = {"target_secret": "chosen by the client"}
    first = await world.post(path, body, headers=KEY)
    world.clock.turn(3600)
    again = await world.post(path, body, headers=KEY)
    assert (again.status, again.body) == (200, first.body)


async def test_a_minute_later_the_secret_is_erased_from_the_database(tmp_path: Path):
    clock = HandClock()
    async with make_world(folder=tmp_path, clock=clock) as world:
        first = await token(world)
        assert kept(tmp_path) == 1, "without this, nothing would have to be erased"
        await world.run(MINUTE + 1)
        assert kept(tmp_path) == 0
        assert (await token(world)).status == 409
    assert first.status == 201


def kept(folder: Path) -> int:
    (database,) = folder.glob("windlass.db")
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        found = connection.execute("SELECT count(*) FROM idempotency WHERE once IS NOT NULL").fetchone()
    connection.close()
    return int(found[0])


POSTS = [operation for operation in registry().operations if operation.method == "POST" and operation.answer]


@table("operation", POSTS, lambda operation: operation.id)
def test_every_post_answer_with_a_secret_declares_the_field_as_shown_once(operation: Operation):
    assert operation.answer is not None
    named = {
        field.encode_name
        for field in msgspec.structs.fields(operation.answer)
        if SECRETS.search(field.encode_name) and getattr(field.type, "__origin__", field.type) is not bool
    }
    assert {name for name in named if not harmless(operation, name)} <= operation.shown_once


def harmless(operation: Operation, name: str) -> bool:
    """It names a secret, or says what kind it is, and is not one."""
    return name.endswith(("_id", "_name", "_set", "_type")) or name in HARMLESS


HARMLESS = {
    "send_secret": "whether it is sent",
    "overridden_secret": "which other one it overrides",
    "aliased_secret": "which other one it stands for",
    "secret_manager_accesses": "kept as it was sent, and answered",
    "missing_secrets": "the keys of those that a fork does not get",
    "own_secrets": "the names of those that init makes up",
    "credentials": "the id and the name of those that a cluster names",
    "cloud_provider_credentials": "kept as it was sent, and answered",
}


def test_the_check_covers_operations_that_show_a_secret_once():
    assert {operation.id for operation in POSTS if operation.shown_once} >= {
        "createOrganizationApiToken",
        "createOrganization",
        "createSession",
    }
