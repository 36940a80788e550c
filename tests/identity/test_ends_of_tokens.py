"""Tokens that end, the operator's own token, and the header that carries one."""

from __future__ import annotations

import asyncio
import string
from itertools import islice, product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.identity.issuer import invite
from tests.identity.tokens import make, path, status
from tests.identity.worlds import opened
from tests.world import ADMIN, NO_WAY_OUT, _asked, make_world
from windlass.base.clock import SECOND, stamp
from windlass.base.errors import Unauthorized
from windlass.config import BadSetting, load
from windlass.control.people.authenticate import Authenticator
from windlass.core.access import Scope
from windlass.operate.serving import keep_first_token
from windlass.store import Store


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


async def test_a_token_revoked_during_its_verification_is_accepted_for_that_request_only(world):
    made, ctx = await make(world), world.installation.ctx
    slow = SlowStore(ctx.store)
    gate = Authenticator(msgspec.structs.replace(ctx, store=slow), NO_WAY_OUT.fetch)
    header = b"Token " + made["token"].encode()
    entering = asyncio.create_task(gate.admit(header))
    await slow.read.wait()
    await world.delete(path(world, made["id"]))
    slow.go_on.set()
    assert (await entering).id == made["id"]
    assert gate.recent_verdict(header, ctx.clock.now()) is None
    with pytest.raises(Unauthorized):
        await gate.admit(header)


async def test_deleting_an_organization_ends_its_tokens(world):
    org, token = await world.organization()
    another = await world.post(f"/organization/{org}/apiToken", {"name": "another"}, token=token)
    assert (await world.delete(f"/organization/{org}", token=token)).status == 204
    assert [await status(world, one) for one in (token, another["token"], ADMIN)] == [401, 401, 200]


async def test_the_last_unlimited_admin_token_cannot_revoke_itself(world, clock):
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


WORDS = [ADMIN, "." * 32, "a.b." + "c" * 28, "=" * 200, "wdl_" + "x" * 49, string.punctuation]


@pytest.mark.parametrize("token", WORDS)
async def test_any_text_of_32_characters_can_be_the_operators_token(tmp_path, clock, token):
    async with opened(tmp_path, clock, token) as world:
        for scheme in ("Token", "Bearer"):
            assert await status(world, f"{scheme} {token}") == 200
        assert await status(world, f"Token {token}x") == 401
        assert (await world.post("/organization", {"name": "second", "plan": "FREE"})).status == 201
        assert (await world.get("/organization"))["name"] == "default"


async def test_a_changed_operators_token_invalidates_the_former_one(database_url, tmp_path, clock):
    first, second = "first-" + "x" * 32, "second-" + "x" * 32
    async with opened(tmp_path, clock, first, database_url) as world:
        assert world.installation.first_token is None
        assert [await status(world, one) for one in (first, second)] == [200, 401]
    async with opened(tmp_path, clock, second, database_url) as world:
        assert [await status(world, one) for one in (first, second)] == [401, 200]
    async with opened(tmp_path, clock, "", database_url) as world:
        assert [await status(world, one) for one in (first, second)] == [401, 401]


@pytest.mark.parametrize("token", ["x" * 31, "x" * 16 + " " + "x" * 16, "é" * 32, "x" * 32 + "\n" + "x"])
def test_a_short_or_unsendable_operators_token_is_refused_at_the_start(token):
    with pytest.raises(BadSetting, match=r"WINDLASS_ADMIN_TOKEN: .* 32 characters or more") as refused:
        load({}, {"WINDLASS_ADMIN_TOKEN": token})
    assert "regex" not in str(refused.value)
    settings, _ = load({}, {"WINDLASS_ADMIN_TOKEN": "x" * 32})
    assert settings.admin_token == "x" * 32


async def test_without_a_configured_admin_token_only_the_first_start_creates_one(tmp_path, clock):
    async with opened(tmp_path, clock, "") as world:
        first = world.installation.first_token
        assert first is not None
        assert await status(world, first) == 200
    async with opened(tmp_path, clock, "") as world:
        assert world.installation.first_token is None
        assert await status(world, first) == 200


# The header


async def test_an_api_token_is_accepted_under_both_schemes_in_any_case(world):
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


async def test_two_authorization_headers_are_refused(world):
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


async def test_the_cache_of_verified_tokens_is_bounded():
    async with make_world() as world:
        gate, token = world.installation.authenticator, (await world.new_token("Read")).encode()
        for blanks in islice(product(b" \t", repeat=14), 12_000):
            await gate.admit(b"Token " + bytes(blanks) + token)
        assert len(gate._known) <= 10_000


async def test_the_token_of_an_interrupted_first_start_is_shown_at_the_next_start(tmp_path, clock):
    async with opened(tmp_path, clock, "") as world:
        first = world.installation.first_token
        await keep_first_token(world.installation)
        kept = Path(world.installation.ctx.settings.data_dir) / "first-token"
        assert kept.stat().st_mode & 0o777 == 0o600
    async with opened(tmp_path, clock, "") as world:
        assert world.installation.first_token is None  # the control: without the file, it is lost
        await keep_first_token(world.installation)
        assert world.installation.first_token == first
        assert world.installation.first_code
    kept.write_text(f"{first}x")
    async with opened(tmp_path, clock, "") as world:
        await keep_first_token(world.installation)
        assert world.installation.first_token is None
