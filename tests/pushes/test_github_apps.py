"""A git token may be that of a GitHub App: Windlass then acts by tokens of one installation, which end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.pushes.git_servers import REPOSITORIES, FakeGitHub, SentRequest, answer
from tests.running.deployments import deployed
from tests.world import Answer, World, make_world
from windlass.base.http_out import HttpResult
from windlass.sources.git_servers import github_app

APP, INSTALLATION = "1234567", "45678901"


def pem(key: Any) -> str:
    return cast(
        bytes, key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    ).decode()


KEY = pem(rsa.generate_private_key(65537, 2048))


class FakeGitHubOfApps(FakeGitHub):
    """As docs.github.com/en/apps describes it: a statement of the app for a token of the installation."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = {}, **_: Any
    ) -> HttpResult:
        if not url.startswith(f"{self.api}/app/"):
            return await super().send(method, url, body, headers)
        self.sent.append(SentRequest(method, url, dict(headers), None))
        statement = headers["Authorization"].removeprefix("Bearer ")
        try:
            claims = jwt.decode(statement, RSAKey.import_key(KEY), algorithms=["RS256"]).claims
        except Exception:  # noqa: BLE001 (whatever is wrong with it)
            return answer(401, {"message": "A JSON web token could not be decoded"})
        if claims["iss"] != APP or claims["exp"] - claims["iat"] > 600:
            return answer(401, {"message": "Integration not found"})
        if (method, url) != ("POST", f"{self.api}/app/installations/{INSTALLATION}/access_tokens"):
            return answer(404, {"message": "Not Found"})
        self.given += 1
        return answer(201, {"token": f"ghs_{self.given}", "expires_at": "2030-01-01T00:00:00Z"})

    def authorization(self) -> str:
        return f"Bearer ghs_{self.given}"

    def route(self, request: SentRequest) -> HttpResult:
        if request.url.startswith(f"{self.api}/installation/repositories"):
            return answer(200, {"repositories": [self.repository(name) for name in REPOSITORIES]})
        return super().route(request)


@asynccontextmanager
async def app_world() -> AsyncIterator[tuple[World, FakeGitHubOfApps]]:
    server = FakeGitHubOfApps()
    async with make_world(out=server) as world:
        yield world, server


async def token_of(world: World, **fields: Any) -> Answer:
    body = {"name": "app", "type": "GITHUB", "token": KEY, "github_app_id": APP}
    body |= {"github_installation_id": INSTALLATION}
    return await world.post(f"/organization/{world.org}/gitToken", body | fields)


async def repositories(world: World, token: str) -> Answer:
    return await world.get(f"/organization/{world.org}/account/github/repository?gitTokenId={token}")


async def test_an_app_lists_repositories_and_sets_up_webhooks_with_one_token(monkeypatch):
    async with app_world() as (world, server):
        token = (await token_of(world))["id"]
        assert [one["name"] for one in (await repositories(world, token))["results"]] == REPOSITORIES
        git = {"url": "https://github.com/acme/shop.git", "branch": "main", "git_token_id": token}
        service = await deployed(world, git_repository=git)
        made = await world.post(f"/service/{service}/gitWebhook/sync")
        assert (made.status, made["status"]) == (200, "ACTIVE")
        assert {source.token for source in world.git.fetched} == {"ghs_1"}
        assert server.given == 1
        monkeypatch.setattr(github_app, "time", SimpleNamespace(monotonic=lambda: 10**9, time=time.time))
        await repositories(world, token)
        assert server.given == 2, "a token is renewed before it ends"


async def test_the_key_is_sent_nowhere_and_never_shown():
    async with app_world() as (world, server):
        made = await token_of(world)
        await repositories(world, made["id"])
        shown = await world.get(f"/organization/{world.org}/gitToken/{made['id']}")
        assert (shown["github_app_id"], shown["github_installation_id"]) == (APP, INSTALLATION)
        assert "BEGIN" not in str((made.json, shown.json, server.sent))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"github_installation_id": "1"}, "Check github_installation_id"),
        ({"github_app_id": "7"}, "Check github_app_id"),
        ({"token": pem(rsa.generate_private_key(65537, 2048))}, "the private key in token"),
        ({"token": pem(ec.generate_private_key(ec.SECP256R1()))}, "what is there is no RSA key"),
        ({"token": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"}, "what is there is no RSA key"),
    ],
)
async def test_a_refusal_says_what_to_correct_and_is_not_repeated_at_once(fields: dict[str, str], says: str):
    async with app_world() as (world, server):
        token = (await token_of(world, **fields))["id"]
        for _ in range(2):
            told = await repositories(world, token)
            assert (told.status, says in told.message) == (409, True), told
        assert len(server.sent) <= 1


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"github_installation_id": None}, "github_installation_id"),
        ({"github_app_id": None}, "github_app_id"),
        ({"type": "GITLAB"}, "github_app_id"),
        ({"token": "ghp_EXAMPLE"}, "token"),
        ({"github_app_id": None, "github_installation_id": None}, "token"),
        ({"github_installation_id": "1/../2"}, "github_installation_id"),
    ],
)
async def test_incomplete_apps_are_refused_with_the_field(fields: dict[str, Any], named: str):
    async with app_world() as (world, _):
        refused = await token_of(world, **fields)
        assert (refused.status, refused.message.partition(":")[0]) == (400, named)


async def test_another_installation_needs_the_key_again():
    """Who may change a git token, and does not know its key, must not get at other repositories with it."""
    async with app_world() as (world, _):
        token = (await token_of(world))["id"]
        path = f"/organization/{world.org}/gitToken/{token}"
        refused = await world.patch(path, {"github_installation_id": "2"})
        assert refused.status == 400
        assert (await world.patch(path, {"github_installation_id": "2", "token": KEY})).status == 200
