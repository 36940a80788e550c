"""Repositories, branches and webhooks of git servers, with the git token of the organization."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.pushes.deliveries import Address, push, results, send
from tests.pushes.git_servers import (
    ALL,
    BRANCHES,
    REPOSITORIES,
    TOKEN,
    FakeBitbucket,
    FakeGitea,
    FakeGitHub,
    FakeGitServer,
    SentRequest,
    answer,
)
from tests.running.deployments import deployed, deployments
from tests.world import Answer, World, make_world
from windlass.base.http_out import HttpResult
from windlass.sources.git_servers import client

each = pytest.mark.parametrize("make", ALL)


class Connected(NamedTuple):
    """A Windlass with a git token for a git server."""

    world: World
    server: FakeGitServer
    token: str

    async def ask(self, what: str, **query: str) -> Answer:
        pairs = "&".join(f"{name}={value}" for name, value in query.items())
        kind = self.server.kind.lower()
        return await self.world.get(
            f"/organization/{self.world.org}/account/{kind}/{what}?gitTokenId={self.token}&{pairs}"
        )

    async def service(self, **fields: Any) -> str:
        git = {
            "url": f"https://{self.server.host}/acme/shop.git",
            "branch": "main",
            "git_token_id": self.token,
        }
        return await deployed(self.world, git_repository=git, auto_deploy=True, **fields)


@asynccontextmanager
async def connected(make: type[FakeGitServer]) -> AsyncIterator[Connected]:
    server = make()
    async with make_world(out=server) as world:
        body = {"name": "g", "type": server.kind, "token": TOKEN, "git_api_url": server.api}
        body |= {"workspace": "acme"} if server.kind == "BITBUCKET" else {}
        token = await world.made(f"/organization/{world.org}/gitToken", body)
        yield Connected(world, server, token)


@each
async def test_repositories_and_branches_are_listed_over_all_pages(make: type[FakeGitServer]):
    async with connected(make) as here:
        found = (await here.ask("repository"))["results"]
        assert [one["name"] for one in found] == REPOSITORIES
        first = found[0]
        assert first["url"] == f"https://{here.server.host}/acme/shop-0.git"
        assert (first["default_branch"], first["is_private"]) == ("main", True)
        names = (await here.ask("repository/branch", name="acme/shop"))["results"]
        assert [one["name"] for one in names] == BRANCHES


async def test_a_repository_without_commits_has_no_branches():
    async with connected(FakeGitea) as here:
        here.server.wrong = lambda request: answer(200) if "/branches" in request.url else None
        assert (await here.ask("repository/branch", name="acme/shop"))["results"] == []


@each
async def test_the_webhook_is_set_up_checked_and_repaired(make: type[FakeGitServer]):
    async with connected(make) as here:
        app = await here.service()
        status = f"/service/{app}/gitWebhookStatus"
        assert (await here.world.get(status))["status"] == "NOT_CONFIGURED"
        made = await here.world.post(f"/service/{app}/gitWebhook/sync")
        assert (made.status, made["status"], made["provider"]) == (200, "ACTIVE", here.server.kind)
        assert here.server.address() == (await here.world.get(f"/service/{app}/gitWebhook"))["url"]
        here.server.spoil()
        assert (await here.world.get(status))["status"] == "MISCONFIGURED"
        assert (await here.world.post(f"/service/{app}/gitWebhook/sync"))["status"] == "ACTIVE"
        assert len(here.server.hooks) == 1, "it was repaired, and not made again"
        here.server.hooks.clear()
        assert (await here.world.get(status))["status"] == "NOT_CONFIGURED"


async def test_a_webhook_that_was_set_up_has_its_pushes_deployed():
    async with connected(FakeGitHub) as here:
        app = await here.service()
        await here.world.post(f"/service/{app}/gitWebhook/sync")
        to = Address("/git-webhook/" + here.server.address().rpartition("/")[2], here.server.secret())
        second = here.world.git.push("second")
        assert (await send(here.world, to, push(second))).status == 202
        await here.world.settle()
        assert (await deployments(here.world, app))[0]["git_commit_id"] == second
        assert await results(here.world, app) == ["DEPLOYED"]


async def test_missing_events_are_named():
    async with connected(FakeGitHub) as here:
        app = await here.service()
        await here.world.post(f"/service/{app}/gitWebhook/sync")
        here.server.spoil()
        assert (await here.world.get(f"/service/{app}/gitWebhookStatus"))["missing_events"] == ["push"]


async def test_without_a_git_token_the_status_follows_from_the_deliveries(world: World):
    app = await deployed(world)
    assert (await world.get(f"/service/{app}/gitWebhookStatus"))["status"] == "NOT_CONFIGURED"
    told = await world.post(f"/service/{app}/gitWebhook/sync")
    assert (told.status, told["status"]) == (200, "UNABLE_TO_VERIFY")
    assert "by hand" in told.message
    made = await world.post(f"/service/{app}/gitWebhook")
    assert (await world.get(f"/service/{app}/gitWebhookStatus"))["status"] == "UNABLE_TO_VERIFY"
    to = Address("/git-webhook/" + made["url"].rpartition("/")[2], made["secret"])
    await send(world, to, b"{}", event="ping")
    assert (await world.get(f"/service/{app}/gitWebhookStatus"))["status"] == "ACTIVE"


@pytest.mark.parametrize(
    ("status", "headers", "expected", "says"),
    [
        (401, {}, 409, "Check the git token"),
        (403, {}, 409, "more rights"),
        (404, {}, 409, "Check the repository"),
        (301, {"location": "https://elsewhere.example/"}, 409, "moved"),
        (429, {"retry_after": "7"}, 503, "Try again in 7 seconds"),
        (403, {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1"}, 503, "allows no more requests"),
        (500, {}, 409, "Try again later"),
    ],
)
async def test_a_refusal_says_what_to_do(status: int, headers: dict[str, str], expected: int, says: str):
    async with connected(FakeGitHub) as here:
        here.server.wrong = lambda request: answer(status, {"message": "no"}, **headers)
        told = await here.ask("repository")
        assert (told.status, says in told.message) == (expected, True), told
        assert TOKEN not in told.message


async def test_a_refused_webhook_is_422_and_a_rate_limit_429():
    async with connected(FakeGitHub) as here:
        app = await here.service()
        path = f"/service/{app}/gitWebhook/sync"
        here.server.wrong = lambda request: answer(
            422, {"message": "Validation Failed", "errors": [{"message": "url is not supported"}]}
        )
        refused = await here.world.post(path)
        assert (refused.status, "url is not supported" in refused.message) == (422, True)
        here.server.wrong = lambda request: answer(403, {"message": "Resource not accessible"})
        assert (await here.world.post(path)).status == 422
        here.server.wrong = lambda request: answer(429, {}, retry_after="9")
        limited = await here.world.post(path)
        assert (limited.status, limited.headers["retry-after"]) == (429, "9")


async def test_a_git_server_that_wants_no_requests_gets_none():
    async with connected(FakeGitHub) as here:
        here.server.wrong = lambda request: answer(429, {}, retry_after="60")
        await here.ask("repository")
        here.server.wrong = lambda request: None
        before = len(here.server.sent)
        assert (await here.ask("repository")).status == 503
        assert len(here.server.sent) == before


async def test_pages_that_have_not_changed_are_not_sent_again():
    async with connected(FakeGitHub) as here:
        first = await here.ask("repository")
        assert all("If-None-Match" not in request.headers for request in here.server.sent)
        count = len(here.server.sent)
        assert (await here.ask("repository")).json == first.json
        assert all("If-None-Match" in request.headers for request in here.server.sent[count:])


@pytest.mark.parametrize("make", [FakeGitHub, FakeBitbucket])
async def test_the_token_is_sent_to_no_other_host_and_pages_end(make, monkeypatch):
    async with connected(make) as here:
        own = here.server.with_next

        def elsewhere(shown: list[Any], url: str, tag: str) -> HttpResult:
            return own(shown, "https://evil.example/user/repos?page=2", "")

        here.server.with_next = elsewhere  # type: ignore[method-assign]
        assert len((await here.ask("repository"))["results"]) == here.server.per_page
        assert all(request.url.startswith(here.server.api) for request in here.server.sent)
        here.server.sent.clear()
        numbers = iter(range(10_000))

        def endless(shown: list[Any], url: str, tag: str) -> HttpResult:
            return own(shown, f"{here.server.api}{here.server.repositories_path()}?x={next(numbers)}", "")

        here.server.with_next = endless  # type: ignore[method-assign]
        monkeypatch.setattr(client, "MAX_PAGES", 5)
        assert (await here.ask("repository")).status == 200
        assert len(here.server.sent) == 5


@pytest.mark.parametrize(
    "body", [b"<html>", b"[" * 100_000, b'{"a": 1}', b'[{"id": "x"}]', b"\xff", b'[{"full_name": 7}]']
)
async def test_an_answer_in_another_form_is_explained(body: bytes):
    async with connected(FakeGitHub) as here:
        here.server.wrong = lambda request: answer(200, body)
        told = await here.ask("repository")
        assert (told.status, "Check type and git_api_url" in told.message) == (409, True)


@pytest.mark.parametrize(
    "name", ["../../user", "acme/../../user", "acme", "a/b?x=1", "a/b%2f..", "a/b%23", ""]
)
async def test_a_repository_is_named_by_owner_and_name_alone(name: str):
    async with connected(FakeGitHub) as here:
        told = await here.ask("repository/branch", name=name)
        assert told.status in {200, 409}
        assert told.status == 409 or told["results"] == []
        assert here.server.sent == []


async def test_a_git_token_of_another_kind_or_organization_is_refused():
    async with connected(FakeGitHub) as here:
        world = here.world
        path = f"/organization/{world.org}/account/gitlab/repository?gitTokenId={here.token}"
        assert "of type GITLAB" in (await world.get(path)).message
        org, token = await world.organization()
        path = f"/organization/{org}/account/github/repository?gitTokenId={here.token}"
        assert (await world.get(path, token=token)).status == 404
        assert here.server.sent == []


async def test_lists_are_empty_without_a_git_token():
    async with connected(FakeGitHub) as here:
        world = here.world
        path = f"/organization/{world.org}/account"
        assert (await world.get(f"{path}/github/repository"))["results"] == []
        assert (await world.get(f"{path}/gitlab/repository"))["results"] == []
        assert (await world.get(f"{path}/github/repository/branch"))["results"] == []
        [provider] = (await world.get(f"{path}/gitAuthProvider"))["results"]
        assert (provider["id"], provider["name"]) == (here.token, "GITHUB")
        assert (await world.get("/account/gitAuthProvider"))["results"] == []
        for kind in ("github", "gitlab", "bitbucket"):
            for own in ("repository", "repository/branch?name=a/b"):
                assert (await world.get(f"/account/{kind}/{own}"))["results"] == []
        assert here.server.sent == []


async def test_an_inside_address_is_not_called_and_http_carries_no_token():
    async with make_world(out=None) as world:
        path = f"/organization/{world.org}/gitToken"
        body = {"name": "g", "type": "GITHUB", "token": TOKEN, "git_api_url": "https://127.0.0.1:1/api/v3"}
        inside = await world.made(path, body)
        plain = await world.made(path, body | {"name": "h", "git_api_url": "http://git.example/api/v3"})
        for token, says in ((inside, "not a public address"), (plain, "use https://")):
            account = f"/organization/{world.org}/account/github/repository"
            told = await world.get(f"{account}?gitTokenId={token}")
            assert (told.status, says in told.message) == (409, True), told


def test_a_request_shows_no_token():
    access = client.GitServerAccess("GITHUB", "https://api.github.com", TOKEN)
    assert TOKEN not in repr(access)
    assert isinstance(SentRequest("GET", "", {}, None), tuple)


@pytest.mark.parametrize(("host", "is_asked"), [("github.com", True), ("git.example.org", False)])
async def test_the_secret_of_a_webhook_goes_to_the_server_of_the_repository_only(host: str, is_asked: bool):
    """An address of ssh takes no git token, so any token can be beside it."""
    async with connected(FakeGitHub) as here:
        git = {"url": f"ssh://git@{host}/acme/shop.git", "branch": "main", "git_token_id": here.token}
        app = await here.world.application(git_repository=git)
        await here.world.post(f"/service/{app}/gitWebhook/sync")
        assert bool(here.server.sent) is is_asked
