"""API tokens: made, shown once, used as far and as long as they say, and ended."""

from __future__ import annotations

import asyncio
import hashlib
import string
from itertools import islice, product
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.identity.issuer import invite, members, role
from tests.identity.worlds import opened
from tests.world import ADMIN, NO_WAY_OUT, NOON, Answer, World, _asked, make_world
from windlass.base.clock import MINUTE, SECOND, stamp
from windlass.base.errors import Unauthorized
from windlass.config import BadSetting, load
from windlass.control.people.authenticate import Authenticator
from windlass.core.access import Scope
from windlass.store import Store

DAY = 24 * 3600


def path(world: World, id: str = "") -> str:
    return f"/organization/{world.org}/apiToken" + (f"/{id}" if id else "")


async def make(world: World, **fields: Any) -> Answer:
    return await world.post(path(world), {"name": world.name("token")} | fields)


async def status(world: World, token: str | None, **options: Any) -> int:
    """What a request with this credential is answered; whoever is not let in is told how to be."""
    answer = await world.get("/organization", token=token, **options)
    if answer.status == 401:
        assert answer.headers["www-authenticate"].startswith("Token ")
        assert "x-ratelimit-remaining" in answer.headers
    return answer.status


# Made, shown once, kept as a digest


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


async def test_a_token_is_at_rest_only_as_a_digest(world, database_url):
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


# What it may do

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


async def test_scopes_and_roles_say_the_same_thing_in_any_case(world):
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


# How long it lasts

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


async def test_an_expiry_may_be_said_in_the_ways_of_iso_8601(world):
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


async def test_a_token_ends_to_the_millisecond_although_it_was_let_in_a_moment_ago(world, clock):
    token = (await make(world, expires_at=stamp(NOON + 500)))["token"]
    clock.turn(0.499)
    assert await status(world, token) == 200
    clock.turn(0.001)
    answer = await world.get("/organization", token=token)
    assert answer.status == 401
    assert "has expired" in answer.message


# How much it may do


async def test_a_token_has_a_budget_of_its_own(world, clock):
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


async def test_when_a_token_was_last_used_is_noted_once_a_minute(world, clock):
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


# Limited to a part


async def test_inside_its_limits_a_token_does_all_that_its_scopes_say(world):
    project = await world.project()
    env = await world.environment(project)
    app = await world.application(env)
    for limit in (project, env, app):
        token = await world.new_token("Admin", limited_to=[limit])
        assert (await world.get(f"/application/{app}", token=token)).status == 200
        assert (await world.post(f"/application/{app}/deploy", token=token)).status == 202
        variable = {"key": f"K_{limit[:8]}", "value": "v"}
        assert (
            await world.post(f"/application/{app}/environmentVariable", variable, token=token)
        ).status == 201
        read_only = await world.new_token("Read", limited_to=[limit])
        assert (await world.post(f"/application/{app}/deploy", token=read_only)).status == 403
    token = await world.new_token("Write", limited_to=[project])
    assert (await world.post(f"/project/{project}/environment", {"name": "new"}, token=token)).status in {
        200,
        201,
    }


async def test_outside_its_limits_all_is_as_if_it_did_not_exist(world):
    inside, outside = await world.project(), await world.project()
    app = await world.application(await world.environment(outside))
    token = await world.new_token("Admin", limited_to=[inside])
    (cluster,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    made = await make(world)
    for where in (
        f"/project/{outside}",
        f"/application/{app}",
        f"/organization/{world.org}/cluster/{cluster['id']}",
        path(world, made["id"]),
    ):
        nowhere = where[: where.rindex("/")] + "/00000000-0000-4000-8000-000000000000"
        missing = await world.get(nowhere, token=token)
        for method in ("GET", "DELETE"):
            answer = await world.call(method, where, token=token)
            assert (answer.status, answer.body) == (404, missing.body)
        assert (await world.get(where)).status == 200


async def test_lists_show_what_is_inside_the_limits(world):
    first, second, _ = await world.project(), await world.project(), await world.project()
    envs = [await world.environment(second) for _ in range(3)]
    token = await world.new_token("Admin", limited_to=[first, envs[1]])

    async def listed(where: str) -> list[str]:
        return [one["id"] for one in (await world.get(where, token=token))["results"]]

    assert await listed(f"/organization/{world.org}/project") == [first]
    assert await listed(f"/project/{first}/environment") == []
    for family in ("cluster", "webhook", "apiToken", "member", "inviteMember"):
        assert await listed(f"/organization/{world.org}/{family}") == []
    assert (await world.get(f"/project/{second}/environment", token=token)).status == 404


async def test_a_limited_token_reads_its_organization_and_can_change_nothing_of_it(world, issuer):
    await invite(world, "ada@example.com")
    await world.get("/organization", token=issuer.person("ada@example.com"))
    ada = (await members(world))["ada@example.com"]["id"]
    token = await world.new_token("Admin", limited_to=[await world.project()])
    home = f"/organization/{world.org}"
    assert (await world.get("/organization", token=token))["id"] == world.org
    assert (await world.get(home, token=token)).status == 200
    refused = [
        await world.put(home, {"name": "mine"}, token=token),
        await world.delete(home, token=token),
        await world.post("/organization", {"name": "another", "plan": "FREE"}, token=token),
        await world.post(f"{home}/project", {"name": "another"}, token=token),
        await world.post(f"{home}/apiToken", {"name": "another"}, token=token),
        await invite(world, "eve@example.com", Scope.ADMIN, token=token),
        await world.put(f"{home}/member", {"user_id": ada, "role_id": role(Scope.ADMIN)}, token=token),
        await world.delete(f"{home}/member", {"user_id": ada}, token=token),
    ]
    assert [answer.status for answer in refused] == [403] * len(refused)
    assert all("limited" in answer.message for answer in refused)


async def test_a_limit_must_name_something_of_the_organization_that_can_be_a_limit(world):
    other, admin = await world.organization()
    elsewhere = await world.made(f"/organization/{other}/project", {"name": "shop"}, token=admin)
    (cluster,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    here = await world.project()
    for bad in (elsewhere, cluster["id"], world.org, "00000000-0000-4000-8000-000000000000"):
        answer = await make(world, limited_to=[here, bad])
        assert answer.status == 400
        assert answer.message.startswith("limited_to[1]: ")
    assert (await make(world, limited_to=[])).message.startswith("limited_to: ")


async def test_a_token_limited_to_a_deleted_resource_can_do_nothing(world):
    inside, outside = await world.project(), await world.project()
    token = await world.new_token("Admin", limited_to=[inside])
    assert (await world.delete(f"/project/{inside}", token=token)).status == 204
    assert (await world.get(f"/organization/{world.org}/project", token=token))["results"] == []
    assert (await world.get(f"/project/{outside}", token=token)).status == 404


# Ended


async def test_a_revoked_token_is_refused_at_once(world):
    made = await make(world)
    assert await status(world, made["token"]) == 200
    await world.delete(path(world, made["id"]))
    assert await status(world, made["token"]) == 401


class SlowStore:
    """A store whose answer about a token is long on its way."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads, self.listen = self, store.listen
        self.read, self.go_on = asyncio.Event(), asyncio.Event()

    @property
    def tokens(self) -> SlowStore:
        return self

    async def get(self, digest: str) -> Any:
        found = await self._store.reads.tokens.get(digest)
        self.read.set()
        await self.go_on.wait()
        return found

    async def revoked(self, digest: str, id: str = "") -> Any:
        return await self._store.reads.tokens.revoked(digest, id)


async def test_a_token_that_is_revoked_while_it_is_being_let_in_is_let_in_for_that_request_only(world):
    made, ctx = await make(world), world.installation.ctx
    slow = SlowStore(ctx.store)
    gate = Authenticator(msgspec.structs.replace(ctx, store=slow), NO_WAY_OUT.fetch)
    header = b"Token " + made["token"].encode()
    entering = asyncio.create_task(gate.admit(header))
    await slow.read.wait()
    await world.delete(path(world, made["id"]))
    slow.go_on.set()
    assert (await entering).id == made["id"]
    assert gate.known(header, ctx.clock.now()) is None
    with pytest.raises(Unauthorized):
        await gate.admit(header)


async def test_deleting_an_organization_ends_its_tokens(world):
    org, token = await world.organization()
    another = await world.post(f"/organization/{org}/apiToken", {"name": "another"}, token=token)
    assert (await world.delete(f"/organization/{org}", token=token)).status == 204
    assert [await status(world, one) for one in (token, another["token"], ADMIN)] == [401, 401, 200]


async def test_the_last_admin_token_does_not_revoke_itself(world, clock):
    org, token = await world.organization()
    where = f"/organization/{org}/apiToken"
    (own,) = (await world.get(where, token=token))["results"]
    soon = stamp(clock.now() + SECOND)
    project = await world.made(f"/organization/{org}/project", {"name": "shop"}, token=token)
    others: list[dict[str, Any]] = [
        {"scopes": ["Write", "Deploy"]},
        {"scopes": ["Admin"], "expires_at": soon},
        {"scopes": ["Admin"], "limited_to": [project]},
    ]
    for number, fields in enumerate(others):
        body = {"name": f"other-{number}"} | fields
        assert (await world.post(where, body, token=token)).status == 201
    clock.turn(1)
    answer = await world.delete(f"{where}/{own['id']}", token=token)
    assert answer.status == 409
    assert "last way into the organization" in answer.message
    assert await status(world, token) == 200
    await world.post(where, {"name": "heir", "scopes": ["Admin"]}, token=token)
    assert (await world.delete(f"{where}/{own['id']}", token=token)).status == 204
    assert await status(world, token) == 401


async def test_an_admin_member_may_revoke_the_last_admin_token(world, issuer):
    org, token = await world.organization()
    await invite(world, "ada@example.com", Scope.ADMIN, org, token=token)
    await world.get("/organization", token=issuer.person("ada@example.com"))
    (own,) = (await world.get(f"/organization/{org}/apiToken", token=token))["results"]
    assert (await world.delete(f"/organization/{org}/apiToken/{own['id']}", token=token)).status == 204


# The operator's own


WORDS = [ADMIN, "." * 32, "a.b." + "c" * 28, "=" * 200, "wdl_" + "x" * 49, string.punctuation]


@pytest.mark.parametrize("token", WORDS)
async def test_any_word_of_32_characters_can_be_the_operators_token(tmp_path, clock, token):
    async with opened(tmp_path, clock, token) as world:
        for scheme in ("Token", "Bearer"):
            assert await status(world, f"{scheme} {token}") == 200
        assert await status(world, f"Token {token}x") == 401
        assert (await world.post("/organization", {"name": "second", "plan": "FREE"})).status == 201
        assert (await world.get("/organization"))["name"] == "default"


async def test_another_operators_token_ends_the_one_before(database_url, tmp_path, clock):
    first, second = "first-" + "x" * 32, "second-" + "x" * 32
    async with opened(tmp_path, clock, first, database_url) as world:
        assert world.installation.first_token is None
        assert [await status(world, one) for one in (first, second)] == [200, 401]
    async with opened(tmp_path, clock, second, database_url) as world:
        assert [await status(world, one) for one in (first, second)] == [401, 200]
    async with opened(tmp_path, clock, "", database_url) as world:
        assert [await status(world, one) for one in (first, second)] == [401, 401]


@pytest.mark.parametrize("token", ["x" * 31, "x" * 16 + " " + "x" * 16, "é" * 32, "x" * 32 + "\n" + "x"])
def test_an_operators_token_that_is_short_or_cannot_be_sent_is_refused_at_the_start(token):
    with pytest.raises(BadSetting, match=r"WINDLASS_ADMIN_TOKEN: .* 32 characters or more"):
        load({}, {"WINDLASS_ADMIN_TOKEN": token})
    settings, _ = load({}, {"WINDLASS_ADMIN_TOKEN": "x" * 32})
    assert settings.admin_token == "x" * 32


async def test_without_one_the_first_start_makes_a_token_and_later_starts_do_not(tmp_path, clock):
    async with opened(tmp_path, clock, "") as world:
        first = world.installation.first_token
        assert first is not None
        assert await status(world, first) == 200
    async with opened(tmp_path, clock, "") as world:
        assert world.installation.first_token is None
        assert await status(world, first) == 200


# The header


async def test_a_token_comes_under_either_scheme_in_any_case(world):
    token = await world.new_token("Read")
    for scheme in ("Token", "Bearer", "token", "BEARER", "tOkEn"):
        assert await status(world, f"{scheme} {token}") == 200
        assert await status(world, f"{scheme}   {token}\t") == 200


async def test_a_malformed_token_is_refused_with_a_hint(world):
    good = await world.new_token("Read")
    other = "B" if good[-1] == "A" else "A"
    for header in (
        "", " ", good, "Token", "Token ", "Bearer ", f"Basic {good}", f"Token{good}", f"Token\t{good}",
        f"Token {good[:-1]}", f"Token {good}x", f"Token {good[:-1]}{other}", f"Token {good.upper()}",
        f"Token {good} {good}", f"Token {good},{good}", f"Token {good}, Token {good}", f"Token Token {good}",
        f'Token "{good}"', f"Token {good}\0", f"Token {good}é", "Token ÿÿÿÿ", "Töken x", "Token wdl_",
        "Token " + "x" * 100_000, "Bearer " + "x." * 50_000, "Bearer " + "." * 100_000, "Bearer a.b.c",
        "Bearer ..", "Bearer " + "x" * 20_000 + ".y.z",
    ):  # fmt: skip
        assert await status(world, None, headers={"authorization": header}) == 401, header[:80]
    assert await status(world, None) == 401
    assert await status(world, good) == 200


async def test_of_two_headers_none_is_believed(world):
    """A proxy may have judged the one that we would not read."""
    good = f"Token {await world.new_token('Read')}".encode()

    async def sent(*headers: tuple[bytes, bytes]) -> int:
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/organization",
            "query_string": b"",
            "headers": headers,
        }
        return (await _asked(world.installation.app, {**scope, "client": ("203.0.113.7", 1)}, b"")).status

    once = (b"authorization", good)
    assert await sent(once) == 200
    assert await sent(once, (b"accept", b"a/b"), (b"accept", b"c/d")) == 200
    assert await sent(once, once) == 401
    assert await sent(once, (b"authorization", b"Token x")) == 401
    assert await sent((b"authorization", b"Token x"), once) == 401


async def test_verdicts_take_a_bounded_room():
    async with make_world() as world:
        gate, token = world.installation.authenticator, (await world.new_token("Read")).encode()
        for blanks in islice(product(b" \t", repeat=14), 12_000):
            await gate.admit(b"Token " + bytes(blanks) + token)
        assert len(gate._known) <= 10_000
