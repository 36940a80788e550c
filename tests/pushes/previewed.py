"""An environment with previews on, and a git server with pull requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.fakes.engine import FakeEngine
from tests.pushes.deliveries import Address, webhook
from tests.pushes.git_servers import TOKEN
from tests.pushes.pull_requests import GitHubWithPulls, WithPulls
from tests.running.deployments import PORT
from tests.world import World, make_world


class Shop:
    """An environment with an application of the repository, a database and variables."""

    def __init__(self, world: World, server: WithPulls) -> None:
        self.world, self.server = world, server
        self.project = self.id = self.web = self.token = ""
        self.to = Address("", "")

    async def make(self, **rule: bool) -> None:
        world, server = self.world, self.server
        body = {"name": "g", "type": server.kind, "token": TOKEN, "git_api_url": server.api}
        body |= {"workspace": "acme"} if server.kind == "BITBUCKET" else {}
        self.token = await world.made(f"/organization/{world.org}/gitToken", body)
        self.project = await world.project()
        self.id = await world.environment(self.project, name="live")
        self.web = await world.made(
            f"/environment/{self.id}/application",
            {"name": "web", "git_repository": self.repository(), "ports": [PORT], "auto_deploy": True},
        )
        await world.database(self.id, name="orders", accessibility="PUBLIC")
        await world.made(f"/environment/{self.id}/environmentVariable", {"key": "COLOUR", "value": "red"})
        await world.made(f"/environment/{self.id}/secret", {"key": "PASSWORD", "value": "canary-here"})
        await world.made(f"/project/{self.project}/secret", {"key": "KEY", "value": "canary-above"})
        self.to = await webhook(world, self.web)
        await self.rule(**(rule or {"auto_preview": True}))

    def repository(self) -> dict[str, Any]:
        url = f"https://{self.server.host}/acme/shop.git"
        return {"url": url, "branch": "main", "git_token_id": self.token}

    async def rule(self, **fields: bool) -> None:
        path = f"/environment/{self.id}/deploymentRule"
        id = (await self.world.get(path))["id"]
        answer = await self.world.put(f"{path}/{id}", fields)
        assert answer.status == 200, answer

    async def deliver(self, number: int) -> None:
        """The git server tells of a pull request, and what follows is done."""
        body, headers = self.server.delivery(self.to.secret, number)
        answer = await self.world.call("POST", self.to.path, raw=body, headers=headers, token=None)
        assert (answer.status, answer["result"]) == (202, "PULL_REQUEST"), answer
        await self.world.run(8)

    async def open(self, number: int, what: str, **fields: Any) -> str:
        commit = self.server.open(number, what, **fields)
        await self.deliver(number)
        return commit

    async def previews(self) -> list[dict[str, Any]]:
        return list((await self.world.get(f"/environment/{self.id}/preview"))["results"])

    async def preview(self) -> dict[str, Any]:
        [one] = await self.previews()
        return one

    async def environments(self) -> dict[str, dict[str, Any]]:
        found = (await self.world.get(f"/project/{self.project}/environment"))["results"]
        return {one["name"]: one for one in found}

    async def services(self, environment: str) -> dict[str, dict[str, Any]]:
        found = (await self.world.get(f"/environment/{environment}/services"))["results"]
        return {one["name"]: one for one in found}


@asynccontextmanager
async def shop_of(
    make: type[WithPulls] = GitHubWithPulls, *, engine: FakeEngine | None = None, **settings: Any
) -> AsyncIterator[Shop]:
    server = make()
    async with make_world(out=server, engine=engine, **settings) as world:
        yield Shop(world, server)
