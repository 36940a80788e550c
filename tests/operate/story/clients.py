"""Clients of the story. They ask without a pause, and keep a record of all that was not answered well."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from tests.operate.story.machines import HEADERS
from tests.whole import until

BETWEEN_REQUESTS = 0.05
"""Seconds. Without it, clients would take the processors from the servers."""
BETWEEN_TRIES = 0.1
CUT = aiohttp.ClientPayloadError.__name__
"""The error of aiohttp for an answer of which a part is missing."""


class Visitors:
    """Visitors of applications: for each of them, one with a kept connection, and one with new ones."""

    def __init__(self, hosts: Mapping[str, str], port: int) -> None:
        """`hosts` are the names of applications, and the host names that lead to them."""
        self._hosts, self._port = hosts, port
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self.excused_failures = 0
        self._excused: set[str] = set()
        self._may_be_cut = False
        self._is_over = False

    async def __aenter__(self) -> Visitors:
        self._visits = [asyncio.create_task(self._ask(n, close)) for n in self._hosts for close in (0, 1)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.gather(*self._visits)

    async def see(self, name: str, count: int = 20) -> None:
        """Waits for some more good answers of an application."""
        enough = self.answers[name] + count

        async def has_seen() -> bool:
            return self.answers[name] >= enough

        await until(has_seen)

    @contextlib.asynccontextmanager
    async def excusing(self, name: str) -> AsyncIterator[None]:
        """Counts no failure of this application, until it answers again after the block."""
        self._excused.add(name)
        yield
        await self.see(name)
        self._excused.discard(name)

    @contextlib.asynccontextmanager
    async def excusing_cut_answers(self) -> AsyncIterator[None]:
        """Counts no answer that ends in its middle: a machine that loses power cannot send the rest, and
        nginx cannot ask another one, because the head has been passed on."""
        self._may_be_cut = True
        yield
        for name in self._hosts:
            await self.see(name)
        self._may_be_cut = False

    async def _ask(self, name: str, close: int) -> None:
        url, headers = f"http://127.0.0.1:{self._port}/", {"Host": self._hosts[name]}
        connector = aiohttp.TCPConnector(force_close=bool(close))
        async with aiohttp.ClientSession(connector=connector, headers=headers) as http:
            while not self._is_over:
                is_excused = name in self._excused
                failure = await self._failure(http, url)
                if not failure:
                    self.answers[name] += 1
                elif is_excused or name in self._excused or (self._may_be_cut and CUT in failure):
                    self.excused_failures += 1
                else:
                    self.failures.append(f"{name}: {failure}")
                await asyncio.sleep(BETWEEN_REQUESTS)

    async def _failure(self, http: aiohttp.ClientSession, url: str) -> str:
        try:
            async with http.get(url) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, OSError) as error:
            return repr(error)
        return "" if answer.status == 200 else f"{answer.status} {text[:200]}"


class ApiClients:
    """One client that reads, and one that creates projects. A 503 with a message is repeated, as the manual
    says, and everything else but a success is a failure."""

    def __init__(self, url: str, organization: str) -> None:
        self._url, self._path = url, f"/organization/{organization}/project"
        self.created: list[str] = []
        """Names of projects, each of which was answered with 201."""
        self.reads = 0
        self.refusals: Counter[str] = Counter()
        self.failures: list[str] = []
        self._is_over = False

    async def __aenter__(self) -> ApiClients:
        self._work = [asyncio.create_task(work()) for work in (self._read_projects, self._make_projects)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._work)

    async def get_on(self, count: int = 5) -> None:
        """Waits until some more requests of both clients have succeeded."""
        reads, created = self.reads + count, len(self.created) + count

        async def have() -> bool:
            return self.reads >= reads and len(self.created) >= created

        await until(have)

    async def meet_refusal(self, words: str) -> None:
        """Waits until a request is refused with these words."""
        before = sum(self._refused(words))

        async def has_met() -> bool:
            return sum(self._refused(words)) > before

        await until(has_met)

    def _refused(self, words: str) -> list[int]:
        return [count for message, count in self.refusals.items() if words in message]

    async def _read_projects(self) -> None:
        async with aiohttp.ClientSession(self._url, headers=HEADERS) as http:
            while not self._is_over:
                await self._succeed(http, "GET", self._path)
                self.reads += 1
                await asyncio.sleep(BETWEEN_REQUESTS)

    async def _make_projects(self) -> None:
        async with aiohttp.ClientSession(self._url, headers=HEADERS) as http:
            while not self._is_over:
                name = f"project {len(self.created)}"
                made = await self._succeed(http, "POST", self._path, {"name": name}, key=name)
                if made:
                    self.created.append(name)
                await asyncio.sleep(BETWEEN_REQUESTS)

    async def _succeed(
        self, http: aiohttp.ClientSession, method: str, path: str, body: Any = None, key: str = ""
    ) -> bool:
        """Repeats a request for as long as it is answered with 503."""
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            try:
                async with http.request(method, path, json=body, headers=headers) as answer:
                    text = await answer.text()
            except (aiohttp.ClientError, OSError) as error:
                self.failures.append(f"{method}: {error!r}")
                return False
            if answer.status < 300:
                return True
            message = _message(text)
            if answer.status != 503 or not message:
                self.failures.append(f"{method}: {answer.status} {text[:300]}")
                return False
            self.refusals[message] += 1
            await asyncio.sleep(BETWEEN_TRIES)


def _message(text: str) -> str:
    with contextlib.suppress(json.JSONDecodeError):
        return str(json.loads(text).get("message", ""))
    return ""
