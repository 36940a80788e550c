"""Clients that write until their server is killed, and a ledger of what they were told."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.store.stores import until
from tests.world import ADMIN

CLIENTS = 8
WRITES = 30
"""The most that are acknowledged in one life before it ends, apart from those on their way."""
AUTHORIZED = {"Authorization": f"Token {ADMIN}"}


class Client:
    """A small HTTP client; an answer is its status and its document."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self._session.request(method, self._address + path, json=body) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if text else None

    async def get(self, path: str) -> Any:
        status, document = await self.call("GET", path)
        assert status == 200, document
        return document

    async def everything(self, path: str) -> list[Any]:
        """A whole list, page by page; how long it says it is, is how long it is."""
        found: list[Any] = []
        pages = 1
        while len(found) < 1000 * pages:
            document = await self.get(f"{path}?page={pages}&page_size=1000")
            found += document["results"]
            if len(document["results"]) < 1000:
                break
            pages += 1
        assert document["pagination"]["total_count"] == len(found)
        return found


class Ledger:
    """The requests of the clients, and the answers to them."""

    def __init__(self) -> None:
        self.org = ""
        self.projects: dict[str, str] = {}
        """Acknowledged: id and name."""
        self.unsure: set[str] = set()
        """Names that were asked for when the server died."""
        self.deleting: set[str] = set()
        self.deleted: set[str] = set()
        self.environments: dict[str, set[str]] = defaultdict(set)
        self.unsure_environments: dict[str, int] = defaultdict(int)
        self.fresh: set[str] = set()
        """Projects of the last life, whose environments are still to be looked at."""
        self.writes = 0
        """Acknowledged."""
        self._numbers = 0

    async def work(self, client: Client) -> None:
        """Writes for as long as the server answers."""
        while True:
            try:
                await self.one_round(client)
            except (aiohttp.ClientError, OSError):
                return

    async def grown(self, more: int, working: Sequence[asyncio.Task[None]]) -> None:
        """Waits for so many more writes, or until the clients have ended because the server has."""
        enough = self.writes + more
        await until(lambda: self.writes >= enough or all(task.done() for task in working))

    async def one_round(self, client: Client) -> None:
        self._numbers += 1
        number, name = self._numbers, f"project-{self._numbers}"
        project = await self.make(client, name)
        for _ in range(number % 3):
            self.unsure_environments[project] += 1
            status, made = await client.call(
                "POST", f"/project/{project}/environment", {"name": f"e{len(self.environments[project])}"}
            )
            assert status == 201, made
            self.writes += 1
            self.unsure_environments[project] -= 1
            self.environments[project].add(made["id"])
        if number % 4 == 0:
            self.deleting.add(project)
            status, refusal = await client.call("DELETE", f"/project/{project}")
            assert status == 204, refusal
            self.writes += 1
            self.deleted.add(project)

    async def make(self, client: Client, name: str) -> str:
        self.unsure.add(name)
        status, made = await client.call("POST", f"/organization/{self.org}/project", {"name": name})
        assert status in {200, 201}, made
        self.writes += 1
        self.unsure.discard(name)
        self.projects[made["id"]] = name
        self.fresh.add(made["id"])
        return str(made["id"])

    async def check(self, client: Client) -> None:
        """After a restart."""
        self.org = (await client.get("/organization"))["id"]
        listed = {one["id"]: one for one in await client.everything(f"/organization/{self.org}/project")}
        names = [one["name"] for one in listed.values()]
        assert len(set(names)) == len(names)
        self.check_acknowledged(set(listed))
        for name in self.unsure & set(names):
            id = next(id for id, one in listed.items() if one["name"] == name)
            self.projects[id] = name
            self.fresh.add(id)
        absent, self.unsure = self.unsure - set(names), set()
        for name in absent:
            await self.make(client, name)  # it is not there: then its name is free
        for id in self.fresh & set(listed):
            await self.check_environments(client, listed[id])
        self.fresh.clear()

    def check_acknowledged(self, listed: set[str]) -> None:
        assert set(self.projects) - self.deleting <= listed
        assert self.deleted.isdisjoint(listed)
        gone = self.deleting - listed
        self.deleted |= gone
        self.deleting &= gone

    async def check_environments(self, client: Client, project: Any) -> None:
        id = project["id"]
        found = {one["id"] for one in await client.everything(f"/project/{id}/environment")}
        assert self.environments[id] <= found
        assert len(found) <= len(self.environments[id]) + self.unsure_environments[id]
        assert project["associated_environments_count"] == len(found)
        self.environments[id], self.unsure_environments[id] = found, 0
