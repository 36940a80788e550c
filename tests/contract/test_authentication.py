"""Section 5: two schemes, tokens that are shown once, and what each scope may and may not do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contract.contract import COMMIT, ENDPOINTS, Endpoint, instant, is_refused, stocked
from tests.contract.rows import row
from tests.mint import AUDIENCE, ISSUER, NOW, Mint
from tests.tables import rows
from tests.world import HandClock, World, make_world

HOUR = 3600


@pytest.fixture(scope="module")
def mint() -> Mint:
    return Mint()


# The header


@row("5.header", "5.401")
@rows(
    "header",
    [
        None,
        "",
        "Token",
        "Token ",
        "{token}",
        "Basic {token}",
        "Token: {token}",
        "Token {token} {token}",
        "Token {token},",
        "Token x{token}",
        "Token {token}x",
        "Token " + "wdl_" + "0" * 49,
        "Bearer",
        "Bearer a.b.c",
        "Bearer ..",
        "Token é",
    ],
)
async def test_a_request_without_credentials_is_refused(embedded, header: str | None) -> None:
    token = await embedded.new_token("Admin")
    headers = {} if header is None else {"Authorization": header.format(token=token)}
    answer = await embedded.get("/organization", token=None, headers=headers)
    is_refused(answer, 401)
    assert answer.headers["www-authenticate"] == 'Token realm="windlass", Bearer realm="windlass"'


@row("5.Token")
@pytest.mark.parametrize("scheme", ["Token", "token", "TOKEN"])
async def test_an_api_token_is_let_in_under_token(world, scheme: str) -> None:
    token = await world.new_token("Read")
    assert (await world.get("/organization", token=f"{scheme} {token}"))["id"] == world.org


@row("5.Bearer")
async def test_a_jwt_of_an_openid_connect_account_is_let_in_under_bearer(mint) -> None:
    async with trusting(mint, oidc_join="Write") as world:
        bearer = f"Bearer {mint.token()}"
        assert (await world.get("/organization", token=bearer))["id"] == world.org
        path = f"/organization/{world.org}/project"
        assert (await world.post(path, {"name": "shop"}, token=bearer)).status == 200
        is_refused(await world.post(f"{path}", {"name": "x"}, token=f"Bearer {mint.forged()}"), 401, "JWT")


async def test_a_jwt_has_no_more_rights_than_its_member(mint) -> None:
    async with trusting(mint, oidc_join="Read") as world:
        bearer = f"Bearer {mint.token()}"
        assert (await world.get("/aws/region", token=bearer)).status == 200
        path = f"/organization/{world.org}/project"
        is_refused(await world.post(path, {"name": "shop"}, token=bearer), 403, "Write")


async def test_a_valid_jwt_without_membership_authenticates_but_is_refused(mint) -> None:
    async with trusting(mint) as world:
        is_refused(await world.get("/organization", token=f"Bearer {mint.token()}"), 403, "not a member")


async def test_an_expired_jwt_is_refused(mint) -> None:
    async with trusting(mint, oidc_join="Read") as world:
        bearer = f"Bearer {mint.token()}"
        assert (await world.get("/organization", token=bearer)).status == 200
        world.clock.turn(2 * HOUR)
        is_refused(await world.get("/organization", token=bearer), 401)


async def test_a_jwt_is_not_mistaken_for_an_api_token(mint) -> None:
    async with trusting(mint, oidc_join="Admin") as world:
        is_refused(await world.get("/organization", token=f"Token {mint.token()}"), 401)


async def test_without_a_configured_issuer_a_foreign_jwt_is_refused(embedded, mint) -> None:
    is_refused(await embedded.get("/organization", token=f"Bearer {mint.token()}"), 401)


def trusting(mint: Mint, **settings: Any) -> Any:
    """A world that accepts the JWTs of an issuer."""
    pages = {
        ISSUER + "/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": ISSUER + "/keys"},
        ISSUER + "/keys": mint.jwks(),
    }

    async def fetch(url: str) -> bytes:
        return json.dumps(pages[url]).encode()

    return make_world(
        clock=HandClock(NOW * 1000), fetcher=fetch, oidc_issuer=ISSUER, oidc_audience=(AUDIENCE,), **settings
    )


async def test_an_api_token_is_let_in_under_bearer_too(world) -> None:
    token = await world.new_token("Read")
    assert (await world.get("/organization", token=f"Bearer {token}"))["id"] == world.org


async def test_a_session_jwt_has_the_rights_of_its_token_and_expires_after_an_hour(world) -> None:
    token = await world.new_token("Deploy")
    session = await world.post("/account/session", token=token)
    assert session.status == 201
    assert instant(session["expires_at"]).timestamp() == world.clock.now() // 1000 + HOUR
    bearer = f"Bearer {session['token']}"
    assert (await world.get("/organization", token=bearer)).status == 200
    path = f"/organization/{world.org}/project"
    is_refused(await world.post(path, {"name": "shop"}, token=bearer), 403)
    world.clock.turn(HOUR + 60)
    is_refused(await world.get("/organization", token=bearer), 401)


# Tokens


@row("5.choices")
async def test_a_token_is_created_with_a_name_scopes_and_an_expiration(world) -> None:
    body = {"name": "ci", "scopes": ["Read", "Deploy"], "expires_at": "2099-01-01T00:00:00.000Z"}
    answer = await world.post(f"/organization/{world.org}/apiToken", body)
    assert answer.status == 201
    assert {name: answer[name] for name in body} == body
    listed = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    assert [{name: one[name] for name in body} for one in listed if one["id"] == answer["id"]] == [body]


@row("5.shown once")
async def test_the_secret_of_a_token_is_returned_only_at_its_creation(world) -> None:
    tokens = f"/organization/{world.org}/apiToken"
    made = await world.post(tokens, {"name": "ci", "scopes": ["Admin"]})
    token = made["token"]
    assert (await world.get("/organization", token=token)).status == 200
    answers = [
        await world.get(tokens),
        await world.get(f"{tokens}/{made['id']}"),
        await world.put(f"{tokens}/{made['id']}", {"description": "Builds"}),
        await world.get(tokens, token=token),
    ]
    for answer in answers:
        assert answer.status == 200
        assert made["id"].encode() in answer.body
        assert token.encode() not in answer.body
        assert b'"token"' not in answer.body


async def test_no_file_contains_the_plain_text_of_a_token(embedded) -> None:
    tokens = f"/organization/{embedded.org}/apiToken"
    body = {"name": "a-name-to-be-found"}
    made = await embedded.post(tokens, body, headers={"Idempotency-Key": "once"})
    disk = b"".join(file.read_bytes() for file in embedded.folder.rglob("*") if file.is_file())
    assert b"a-name-to-be-found" in disk
    assert made["token"].encode() not in disk


async def test_tokens_are_unique_and_at_least_36_random_characters_long(embedded) -> None:
    tokens = [await embedded.new_token("Read") for _ in range(20)]
    assert len(set(tokens)) == 20
    assert all(token.startswith("wdl_") and len(token) >= 4 + 36 for token in tokens)


@row("5.expiration")
async def test_a_token_is_good_until_it_expires(world) -> None:
    ends = datetime.fromtimestamp(world.clock.now() / 1000 + HOUR, UTC)
    token = await world.new_token("Read", expires_at=ends.isoformat())
    world.clock.turn(HOUR - 1)
    assert (await world.get("/organization", token=token)).status == 200
    world.clock.turn(1)
    is_refused(await world.get("/organization", token=token), 401, "expired")


async def test_a_token_without_an_expiration_is_good_for_years(world) -> None:
    token = await world.new_token("Read")
    world.clock.turn(10 * 365 * 24 * HOUR)
    assert (await world.get("/organization", token=token)).status == 200


@pytest.mark.parametrize("ends", ["2020-01-01T00:00:00.000Z", "tomorrow", "", 7])
async def test_an_expiration_that_cannot_be_is_refused_by_name(embedded, ends: Any) -> None:
    body = {"name": "ci", "expires_at": ends}
    answer = await embedded.post(f"/organization/{embedded.org}/apiToken", body)
    is_refused(answer, 400, "expires_at: ")


async def test_a_revoked_token_is_refused_at_once_and_so_is_the_session_made_from_it(world) -> None:
    made = await world.post(f"/organization/{world.org}/apiToken", {"name": "ci"})
    token = made["token"]
    session = f"Bearer {(await world.post('/account/session', token=token))['token']}"
    for header in (token, session):
        assert (await world.get("/organization", token=header)).status == 200
    assert (await world.delete(f"/organization/{world.org}/apiToken/{made['id']}")).status == 204
    for header in (token, session):
        is_refused(await world.get("/organization", token=header), 401)
    assert (await world.get("/organization")).status == 200


# Scopes


class Deeds:
    """Calls that can be tried with a token: each returns the status of its answer."""

    def __init__(self, world: World, ids: Mapping[str, str], token: str) -> None:
        self.world, self.ids, self.token = world, ids, token

    async def status(self, method: str, path: str, body: Any = None) -> int:
        answer = await self.world.call(method, path.format(**self.ids), body, token=self.token)
        if answer.status == 403:
            is_refused(answer, 403)
        return answer.status

    async def read(self) -> set[int]:
        reads = [endpoint.path for endpoint in ENDPOINTS if endpoint.method == "GET"]
        return {await self.status("GET", path) for path in [*reads, "/project/{project_id}"]}

    async def create(self) -> set[int]:
        creations = [endpoint for endpoint in ENDPOINTS if endpoint.need == "Write"]
        return {(await one.call(self.world, self.ids, token=self.token)).status for one in creations}

    async def update(self) -> int:
        return await self.status("PUT", "/project/{project_id}", {"description": "Changed"})

    async def deploy(self) -> set[int]:
        application = await self.status("POST", "/application/{app_id}/deploy", {"git_commit_id": COMMIT})
        return {application, await self.status("POST", "/database/{db_id}/deploy")}

    async def delete(self) -> int:
        return await self.status("DELETE", "/database/{db_id}")

    async def govern(self) -> set[int]:
        token = await self.status("POST", "/organization/{org_id}/apiToken", {"name": "more"})
        return {token, await self.status("POST", "/organization/{org_id}/cluster", {"name": "more"})}


async def deeds(world: World, *scopes: str) -> Deeds:
    return Deeds(world, await stocked(world), await world.new_token(*scopes))


@row("5.Admin")
async def test_the_admin_scope_allows_everything(world) -> None:
    admin = await deeds(world, "Admin")
    assert await admin.read() == {200}
    assert await admin.create() == {200, 201}
    assert await admin.update() == 200
    assert await admin.deploy() == {202}
    assert await admin.govern() == {201}
    assert await admin.delete() == 204


@row("5.Read", "5.403")
async def test_the_scope_read_allows_only_reading(world) -> None:
    reader = await deeds(world, "Read")
    assert await reader.read() == {200}
    assert await reader.create() == {403}
    assert await reader.update() == 403
    assert await reader.deploy() == {403}
    assert await reader.govern() == {403}
    assert await reader.delete() == 403


@row("5.Deploy")
async def test_the_deploy_scope_allows_reading_and_deploying_but_not_writing(world) -> None:
    deployer = await deeds(world, "Deploy")
    assert await deployer.read() == {200}
    assert await deployer.deploy() == {202}
    assert await deployer.create() == {403}
    assert await deployer.update() == 403
    assert await deployer.govern() == {403}
    assert await deployer.delete() == 403


@row("5.Write")
async def test_the_write_scope_allows_creating_and_updating_but_not_deploying_or_deleting(world) -> None:
    writer = await deeds(world, "Write")
    assert await writer.read() == {200}
    assert await writer.create() == {200, 201}
    assert await writer.update() == 200
    assert await writer.deploy() == {403}
    assert await writer.govern() == {403}
    assert await writer.delete() == 403


async def test_a_token_with_two_scopes_has_the_rights_of_both(embedded) -> None:
    both = await deeds(embedded, "Write", "Deploy")
    assert await both.create() == {200, 201}
    assert await both.deploy() == {202}
    assert await both.delete() == 403


@pytest.mark.parametrize("scope", ["admin", "ADMIN", "Admin"])
async def test_a_scope_is_accepted_in_any_case_and_returned_in_canonical_case(embedded, scope: str) -> None:
    body = {"name": "ci", "scopes": [scope]}
    answer = await embedded.post(f"/organization/{embedded.org}/apiToken", body)
    assert answer["scopes"] == ["Admin"]


@pytest.mark.parametrize("scopes", [["Root"], [], "Admin", [7], [""]])
async def test_an_unknown_scope_is_refused_by_field_name(embedded, scopes: Any) -> None:
    body = {"name": "ci", "scopes": scopes}
    answer = await embedded.post(f"/organization/{embedded.org}/apiToken", body)
    is_refused(answer, 400, "scopes")


async def test_a_token_without_scopes_may_only_read(embedded) -> None:
    token = await embedded.new_token("Read")
    unsaid = await embedded.post(f"/organization/{embedded.org}/apiToken", {"name": "ci"})
    assert unsaid["scopes"] == ["Read"]
    for one in (token, unsaid["token"]):
        is_refused(
            await embedded.post(f"/organization/{embedded.org}/project", {"name": "x"}, token=one), 403
        )


@pytest.mark.parametrize(
    "endpoint", [pytest.param(one, id=one.path) for one in ENDPOINTS if one.need != "Read"]
)
async def test_a_403_is_the_same_for_a_valid_and_an_invalid_body(embedded, endpoint: Endpoint) -> None:
    """A 403 does not depend on the body, and its message does not say how to correct the body."""
    ids, token = await stocked(embedded), await embedded.new_token("Read")
    good = await endpoint.call(embedded, ids, token=token)
    bad = await embedded.post(endpoint.path.format(**ids), {"nonsense": 1}, token=token)
    assert (good.status, good.body) == (403, bad.body)
