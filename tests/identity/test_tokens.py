"""API tokens: made, shown once, kept as a digest, with scopes, an expiry and a budget."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import asyncpg

from tests.identity.issuer import role
from tests.identity.tokens import make, path, status
from tests.world import ADMIN, NOON, World
from windlass.base.clock import MINUTE, stamp
from windlass.core.access import Scope


async def test_a_token_is_made_listed_read_renamed_and_revoked(world):
    made = await make(world, name="ci", description="for the pipeline", scopes=["Deploy"])
    assert made.status == 201
    id, token = made["id"], made["token"]
    assert await status(world, token) == 200
    assert [one["name"] for one in (await world.get(path(world)))["results"]] == ["ci"]
    renamed = await world.patch(path(world, id), {"name": "ci-2"})
    assert (renamed["name"], renamed["scopes"]) == ("ci-2", ["Deploy"])
    read = await world.get(path(world, id))
    assert (read["name"], read["description"]) == ("ci-2", "for the pipeline")
    assert await status(world, token) == 200
    assert (await world.delete(path(world, id))).status == 204
    assert (await world.get(path(world, id))).status == 404
    assert await status(world, token) == 401


async def test_tokens_are_found_by_their_name_and_by_their_creator(world):
    """Negative control: without a query, all of them are listed."""
    robot = (await make(world, name="Robot", scopes=["Admin"]))["token"]
    assert (await world.post(path(world), {"name": "ci"}, token=robot)).status == 201
    await make(world, name="ci-2")

    async def found(query: str) -> list[str]:
        answer = await world.get(f"{path(world)}{query}")
        assert answer["pagination"]["total_count"] == len(answer["results"])
        return [one["name"] for one in answer["results"]]

    assert await found("") == ["Robot", "ci", "ci-2"]
    assert await found("?name=CI") == ["ci"]
    assert await found("?creatorName=robot") == ["ci"]
    assert await found("?creatorName=robot&name=ci-2") == []
    assert await found("?name=nothing") == []


async def test_the_scopes_of_a_token_cannot_be_changed(world):
    made = await make(world, scopes=["Read"])
    for change in ({"scopes": ["Admin"]}, {"role_id": role(Scope.ADMIN)}, {"expires_at": "2030-01-01"}):
        answer = await world.patch(path(world, made["id"]), change)
        assert answer.status == 400, answer
        assert answer.message.startswith(next(iter(change)))


async def test_a_token_is_shown_in_the_answer_to_its_creation_and_in_no_other(world):
    made = await make(world)
    assert made["token"].startswith("wdl_")
    for answer in (
        await world.get(path(world, made["id"])),
        await world.get(path(world)),
        await world.patch(path(world, made["id"]), {"description": "x"}),
    ):
        assert b'"token"' not in answer.body
        assert b"wdl_" not in answer.body
    assert not [event for event in await world.events() if b"wdl_" in event.body]


async def test_a_repeated_creation_shows_the_token_again_for_a_minute(world, clock):
    body, key = {"name": "ci"}, {"idempotency-key": "k"}
    first = await world.post(path(world), body, headers=key)
    clock.turn(59)
    assert (await world.post(path(world), body, headers=key))["token"] == first["token"]
    clock.turn(1)
    late = await world.post(path(world), body, headers=key)
    assert (late.status, late.message[:27]) == (409, "Use another Idempotency-Key")


async def test_the_database_stores_only_the_digest_of_a_token(world, database_url):
    """Although the answer to its creation is kept for a twin, too."""
    made = await world.post(path(world), {"name": "ci-of-the-shop"}, headers={"idempotency-key": "k"})
    await status(world, made["token"])
    await world.installation.authenticator.note()
    kept = await everything(world, database_url)
    assert b"ci-of-the-shop" in kept
    assert hashlib.sha256(made["token"].encode()).hexdigest().encode() in kept
    assert made["token"].encode() not in kept
    assert ADMIN.encode() not in kept


async def everything(world: World, database_url: str) -> bytes:
    """All that the database holds."""
    if not database_url:
        return b"".join(file.read_bytes() for file in world.folder.glob("windlass.db*"))
    connection = await asyncpg.connect(database_url)
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        rows = [row for (name,) in names for row in await connection.fetch(f"SELECT * FROM {name}")]
    finally:
        await connection.close()
    return b"\n".join(
        value if isinstance(value, bytes) else str(value).encode() for row in rows for value in row
    )


SAID: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["Read"]),
    ({"scopes": None, "role_id": None, "scope": None}, ["Read"]),
    ({"scopes": ["admin"]}, ["Admin"]),
    ({"scopes": ["WRITE", "dEPLOY", "Write"]}, ["Deploy", "Write"]),
    ({"role_id": role(Scope.DEPLOY)}, ["Deploy"]),
    ({"role_id": role(Scope.WRITE), "scopes": ["Write", "Deploy"]}, ["Deploy", "Write"]),
    ({"scope": "ADMIN"}, ["Admin"]),
    ({"scope": "ADMIN", "scopes": ["Read"]}, ["Read"]),
]


NOT_SAID: list[tuple[dict[str, Any], str]] = [
    ({"scopes": ["Owner"]}, "scopes[0]"),
    ({"scopes": []}, "scopes"),
    ({"scopes": "Admin"}, "scopes"),
    ({"scopes": ["Read\n"]}, "scopes[0]"),
    ({"role_id": "00000000-0000-4000-8000-000000000000"}, "role_id"),
    ({"role_id": role(Scope.READ), "scopes": ["Admin"]}, "role_id"),
    ({"scope": "READ"}, "scope"),
    ({"rate_limit": 0}, "rate_limit"),
]


async def test_a_token_may_be_created_with_scopes_or_a_role_in_any_case(world):
    for said, scopes in SAID:
        made = await make(world, **said)
        assert made.status == 201, said
        assert made["scopes"] == scopes, said
        names = {one["id"]: one["name"] for one in await roles(world)}
        assert names[made["role_id"]] == made["role_name"]
        assert made["role_name"] in scopes


async def roles(world: World) -> Any:
    return (await world.get(f"/organization/{world.org}/availableRole"))["results"]


async def test_an_unknown_scope_or_role_is_refused_by_name(world):
    for said, field in NOT_SAID:
        answer = await make(world, **said)
        assert answer.status == 400, said
        assert answer.message.startswith(f"{field}: "), answer


MOMENTS = {
    "2026-09-21T15:00:00Z": "2026-09-21T15:00:00.000Z",
    "2026-09-21T15:00:00.5Z": "2026-09-21T15:00:00.500Z",
    "2026-09-21T15:00:00.123456789Z": "2026-09-21T15:00:00.123Z",
    "2026-09-21T15:00:00": "2026-09-21T15:00:00.000Z",
    "2026-09-21T17:00:00+02:00": "2026-09-21T15:00:00.000Z",
    "2026-09-21T09:30:00.250-05:30": "2026-09-21T15:00:00.250Z",
    "2026-09-21t15:00:00z": "2026-09-21T15:00:00.000Z",
    "2026-09-21 15:00": "2026-09-21T15:00:00.000Z",
    "2026-09-22": "2026-09-22T00:00:00.000Z",
    "9999-12-31T23:59:59.999Z": "9999-12-31T23:59:59.999Z",
}


NO_MOMENTS: list[Any] = [
    "", " ", "tomorrow", "2026-13-01", "2026-02-30T00:00:00Z", "2026-09-21T25:00:00Z", "2026-09-21T15:00:60Z",
    "2026-W40", "20260922", "20260922T150000Z", "1790123199", "2026-09-21T15:00:00 Z",
    "2026-09-21T15:00:00Z ", "9999-12-31T23:59:59-12:00", "+10000-01-01T00:00:00Z", "２０２７-01-01",
    "2027-01-01\n", "2027-01-01T00:00:00Z\0", 1790123199, True, ["2027-01-01"],
]  # fmt: skip


async def test_an_expiry_may_be_any_form_of_iso_8601(world):
    for said, meant in MOMENTS.items():
        made = await make(world, expires_at=said)
        assert made.status == 201, (said, made)
        assert made["expires_at"] == meant, said
        assert await status(world, made["token"]) == 200


async def test_an_expiry_that_is_no_time_or_has_passed_is_refused_by_name(world):
    for said in (*NO_MOMENTS, "0001-01-01T00:00:00+23:59", "1999-01-01", "2026-09-21T14:13:20Z"):
        answer = await make(world, expires_at=said)
        assert answer.status == 400, (said, answer)
        assert answer.message.startswith("expires_at: "), (said, answer)
    assert "must be in the future" in answer.message
    assert (await make(world, expires_at="2026-09-21T14:13:20.001Z")).status == 201


async def test_a_token_expires_to_the_millisecond_even_if_it_was_accepted_just_before(world, clock):
    token = (await make(world, expires_at=stamp(NOON + 500)))["token"]
    clock.turn(0.499)
    assert await status(world, token) == 200
    clock.turn(0.001)
    answer = await world.get("/organization", token=token)
    assert answer.status == 401
    assert "has expired" in answer.message


# How much it may do


async def test_a_token_with_its_own_rate_limit_is_limited_by_it_and_affects_no_other(world, clock):
    made = await make(world, rate_limit=2)
    answers = [await world.get("/organization", token=made["token"]) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [answer.headers["x-ratelimit-limit"] for answer in answers] == ["2"] * 3
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
    assert await status(world, await world.new_token("Read")) == 200
    await world.patch(path(world, made["id"]), {"rate_limit": 3})
    clock.turn(1)
    assert [await status(world, made["token"]) for _ in range(2)] == [200, 429]
    clock.turn(3600)
    assert await status(world, made["token"]) == 200


async def test_the_last_use_of_a_token_is_recorded_at_most_once_a_minute(world, clock):
    made = await make(world)

    async def used() -> Any:
        await status(world, made["token"])
        await world.installation.authenticator.note()
        return (await world.get(path(world, made["id"])))["last_used_at"]

    assert made["last_used_at"] is None
    first = await used()
    assert first == stamp(NOON)
    clock.turn(59)
    assert await used() == first
    clock.turn(1)
    assert await used() == stamp(NOON + MINUTE)


async def test_a_use_that_was_not_recorded_is_recorded_the_next_time(world):
    made = await make(world)
    await status(world, made["token"])
    noting = asyncio.create_task(world.installation.authenticator.note())
    await asyncio.sleep(0)
    noting.cancel()
    await asyncio.wait([noting])
    assert (await world.get(path(world, made["id"])))["last_used_at"] is None
    await world.installation.authenticator.note()
    assert (await world.get(path(world, made["id"])))["last_used_at"] == stamp(NOON)


async def test_recording_a_use_does_not_change_the_etag_of_a_token(world):
    made = await make(world)
    tag = (await world.get(path(world, made["id"]))).headers["etag"]
    await status(world, made["token"])
    await world.installation.authenticator.note()
    changed = await world.patch(path(world, made["id"]), {"description": "x"}, headers={"if-match": tag})
    assert changed.status == 200
    assert changed["last_used_at"] == stamp(NOON)
