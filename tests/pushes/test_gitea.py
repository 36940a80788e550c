"""Gitea itself: Windlass sets up its webhook, and is told of pushes and pull requests by it alone.

What all git servers have in common, and how they fail, is tested with stand-ins, which are fast.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.needs import needs
from tests.pushes.gitea import Gitea
from tests.pushes.pushing import deployments, ended_deployment, make_environment, pushed_place
from tests.whole import Windlass, page, until

pytestmark = [needs("gitea"), pytest.mark.slow, pytest.mark.timeout(300)]


class Site(Struct):
    """An application that is built from a repository at Gitea."""

    server: Gitea
    windlass: Windlass
    environment: str
    app: str

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await self.windlass.call(method, f"/service/{self.app}{path}", body)

    async def link(self) -> str:
        return str((await self.windlass.call("GET", f"/application/{self.app}/link"))["results"][0]["url"])

    async def preview(self) -> Any:
        found = await self.windlass.call("GET", f"/environment/{self.environment}/preview")
        return found["results"][0] if found["results"] else {}


@contextlib.asynccontextmanager
async def deployed_site(server: Gitea) -> AsyncIterator[Site]:
    # Branches and pull requests are looked at once in an hour: only a webhook can be faster.
    async with (
        pushed_place(auto_deploy_seconds=3600, **server.settings) as there,
        there.windlass() as windlass,
    ):
        environment = await make_environment(windlass)
        org = (await windlass.call("GET", "/organization"))["id"]
        body = {"name": "g", "type": "GITHUB", "token": server.token, "git_api_url": server.api}
        token = (await windlass.call("POST", f"/organization/{org}/gitToken", body))["id"]
        repository = {"url": server.url, "branch": "main", "git_token_id": token}
        ports = [{"internal_port": 8000, "publicly_accessible": True}]
        web = {"name": "web", "git_repository": repository, "ports": ports, "auto_deploy": True}
        app = (await windlass.call("POST", f"/environment/{environment}/application", web))["id"]
        yield Site(server, windlass, environment, app)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with Gitea(tmp_path).running() as server, deployed_site(server) as made:
        yield made


async def test_a_push_is_deployed_by_the_webhook_that_windlass_sets_up_and_repairs(site: Site):
    server = site.server
    assert (await site.call("GET", "/gitWebhookStatus"))["status"] == "NOT_CONFIGURED"
    assert (await site.call("POST", "/gitWebhook/sync"))["status"] == "ACTIVE"
    (hook,) = await server.call("GET", "/repos/acme/shop/hooks")
    await server.call("DELETE", f"/repos/acme/shop/hooks/{hook['id']}")
    assert (await site.call("GET", "/gitWebhookStatus"))["status"] == "NOT_CONFIGURED"
    assert (await site.call("POST", "/gitWebhook/sync"))["status"] == "ACTIVE"
    await site.windlass.call("POST", f"/application/{site.app}/deploy")
    assert (await ended_deployment(site.windlass, site.app))["status"] == "SUCCEEDED"
    newest = await server.push("main", "two")

    async def is_deployed() -> bool:
        last = (await deployments(site.windlass, site.app))[0]
        return bool(last["git_commit_id"] == newest and last["status"] == "SUCCEEDED")

    await until(is_deployed)
    assert (await page(await site.link())).text == "two"
    (push,) = [one for one in (await site.call("GET", "/gitPush"))["results"] if one["commit_id"] == newest]
    assert (push["found_by"], push["branch"], push["result"]) == ("WEBHOOK", "main", "DEPLOYED")


async def test_a_pull_request_has_its_preview_status_and_one_comment_until_it_is_closed(site: Site):
    server = site.server
    rule = f"/environment/{site.environment}/deploymentRule/current"
    await site.windlass.call("PUT", rule, {"auto_preview": True})
    assert (await site.call("POST", "/gitWebhook/sync"))["status"] == "ACTIVE"
    number = ""
    for text in ("red", "blue"):
        commit = await server.push("colours", text)
        number = number or await server.open("colours", commit)

        async def is_told(commit: str = commit, number: str = number) -> bool:
            comments = await server.comments(number)
            return "success" in await server.statuses(commit) and commit[:12] in "".join(comments)

        await until(is_told)
        address = (await site.preview())["address"]
        assert (await page(address)).text == text
        (comment,) = await server.comments(number)
        assert address in comment
    await server.close(number)

    async def is_gone() -> bool:
        return not await site.preview() and (await page(address)).status == 404

    await until(is_gone)
    assert len(await server.comments(number)) == 1
