"""A whole Windlass with all its real parts, behind a real socket, and what there is of it on its machine.

async with place("docker", host) as there, there.windlass() as windlass:
    answer = await windlass.call("GET", "/organization")
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from tests.cli.said import Said, say
from tests.interface import calls
from tests.schemathesis.serving import served
from tests.world import ADMIN, World
from windlass.config import Settings
from windlass.docker.client import Docker, EngineRefused
from windlass.install import mark
from windlass.install.installation import Installation, install
from windlass.process.builds.artifacts import CACHE_FOLDER

PATIENCE = 80.0
BETWEEN_VISITS = 0.005
"""Seconds. Without it, a visitor alone would keep a processor busy."""


class Page(NamedTuple):
    status: int
    text: str


class Windlass:
    """A server, as its callers see it."""

    def __init__(self, url: str, installation: Installation) -> None:
        self.url = url
        self.installation = installation

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Returns the answer to a request, which must succeed."""
        status, text = await asyncio.to_thread(self._called, method, path, body)
        calls.note(method, path, status)
        assert status < 300, f"{method} {path}: {status} {text}"
        return json.loads(text) if text else None

    async def file(self, path: str) -> bytes:
        """Returns the answer to a request for a file, which must succeed."""
        return await asyncio.to_thread(self._file, path)

    async def say(self, *words: str) -> Said:
        """A command line."""
        said = await asyncio.to_thread(partial(say, *words, url=self.url))
        assert said.code == 0, said
        return said

    def _file(self, path: str) -> bytes:
        with contextlib.closing(_connection(self.url)) as connection:
            connection.request("GET", path, headers={"Authorization": f"Token {ADMIN}"})
            answer = connection.getresponse()
            assert answer.status == 200, path
            return answer.read()

    def _called(self, method: str, path: str, body: Mapping[str, Any] | None) -> Page:
        headers = {"Authorization": f"Token {ADMIN}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body)
        with contextlib.closing(_connection(self.url)) as connection:
            connection.request(method, path, sent, headers)
            return _answer(connection)


async def page(url: str) -> Page:
    """As a browser asks for it, which knows that *.localhost is this machine."""
    return await asyncio.to_thread(_page, url)


def _page(url: str) -> Page:
    with contextlib.closing(_connection(url)) as connection:
        return _ask(connection, url)


def _ask(connection: http.client.HTTPConnection, url: str) -> Page:
    connection.request("GET", "/", headers={"Host": urlsplit(url).netloc})
    return _answer(connection)


def _answer(connection: http.client.HTTPConnection) -> Page:
    answer = connection.getresponse()
    return Page(answer.status, answer.read().decode())


def _connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=PATIENCE)


class Visitors:
    """They ask for a page again and again: one with a connection that it keeps, one with new ones."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._leaving = False
        self.seen: tuple[list[Page], list[Page]] = ([], [])
        """The pages that each of them got, in order."""

    async def __aenter__(self) -> Visitors:
        self._visits = asyncio.gather(asyncio.to_thread(self._stay), asyncio.to_thread(self._come_and_go))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leaving = True
        await self._visits

    @property
    def pages(self) -> list[Page]:
        return [page for seen in self.seen for page in seen]

    def _stay(self) -> None:
        with contextlib.closing(_connection(self._url)) as connection:
            while not self._leaving:
                self.seen[0].append(_ask(connection, self._url))
                time.sleep(BETWEEN_VISITS)

    def _come_and_go(self) -> None:
        while not self._leaving:
            self.seen[1].append(_page(self._url))
            time.sleep(BETWEEN_VISITS)


class Machine(Protocol):
    """All remains of one installation on the machine."""

    async def running(self) -> Collection[str]:
        """Something else for each run of each instance."""

    async def traces(self) -> Collection[str]: ...

    async def clear(self) -> None:
        """Removes all remains; for failed tests."""


class Containers:
    def __init__(self, host: str, folder: Path) -> None:
        self._host = host
        self._folder = folder

    async def running(self) -> Collection[str]:
        async with self._docker() as docker:
            found = await docker.json("GET", "/containers/json", params=self._ours)
            said = [await docker.json("GET", f"/containers/{each['Id']}/json") for each in found]
        return {f"{each['Name']} {each['State']['StartedAt']}" for each in said}

    async def traces(self) -> Collection[str]:
        return [path for paths in await self._found() for path in paths]

    async def clear(self) -> None:
        async with self._docker() as docker:
            for paths in await self._found():
                for path in paths:
                    await _remove(docker, path)

    async def _found(self) -> list[list[str]]:
        """In the order in which they can be taken away."""
        async with self._docker() as docker:
            containers = await docker.json("GET", "/containers/json", params={"all": True, **self._ours})
            volumes = await docker.json("GET", "/volumes", params=self._ours)
            networks = await docker.json("GET", "/networks", params=self._ours)
            images = await docker.json("GET", "/images/json", params={"all": True, **self._ours})
        return [
            [f"/containers/{each['Id']}" for each in containers],
            [f"/volumes/{each['Name']}" for each in volumes["Volumes"] or ()],
            [f"/networks/{each['Id']}" for each in networks],
            [f"/images/{each['Id']}" for each in images],
        ]

    @property
    def _ours(self) -> Mapping[str, Any]:
        seen = mark.read(Settings(data_dir=str(self._folder)))
        id = seen.installation if seen else "never started"
        return {"filters": {"label": [f"windlass.installation={id}"]}}

    @contextlib.asynccontextmanager
    async def _docker(self) -> AsyncIterator[Docker]:
        docker = Docker(self._host)
        try:
            yield docker
        finally:
            await docker.close()


class Processes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def running(self) -> Collection[str]:
        return {f"{number} {_began(number)}" for number in self._numbers()}

    async def traces(self) -> Collection[str]:
        return [*map(str, self._numbers()), *map(str, self._kept())]

    async def clear(self) -> None:
        for number in self._numbers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def _numbers(self) -> list[int]:
        """Processes that were started for this installation, and their data."""
        mark = f"WINDLASS_FILES={self._folder}/".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found

    def _kept(self) -> list[Path]:
        """Returns the folders of single services, without those that are shared."""
        places = ("run/services", "run/volumes", "run/ports", "builds")
        found = [path for place in places for path in (self._folder / place).glob("*")]
        return [path for path in found if path != self._folder / "builds" / CACHE_FOLDER]


def _began(process: int) -> str:
    """See proc_pid_stat(5): field 22."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]


class Place:
    """A folder for one installation, that may be started in it again and again."""

    def __init__(self, folder: Path, beside: Path, settings: Settings, machine: Machine) -> None:
        self.folder = folder
        self.beside = beside
        """For what does not belong to Windlass, such as repositories."""
        self.machine = machine
        self.settings = settings

    @contextlib.asynccontextmanager
    async def windlass(self, **given: Any) -> AsyncIterator[Windlass]:
        installation = await install(self.settings, **given)
        await installation.start()
        try:
            world = cast(World, SimpleNamespace(installation=installation))
            port = 0 if self.settings.port == Settings().port else self.settings.port
            async with served(world, port=port, host=self.settings.host) as url:
                yield Windlass(url, installation)
        finally:
            await installation.stop()

    async def is_empty(self) -> None:
        async def nothing() -> bool:
            return not await self.machine.traces()

        with contextlib.suppress(TimeoutError):
            await until(nothing)
        left = await self.machine.traces()
        assert not left, f"this is left: {left}"


@contextlib.asynccontextmanager
async def place(engine: str, docker_host: str = "", **given: Any) -> AsyncIterator[Place]:
    with (
        tempfile.TemporaryDirectory(prefix="windlass-") as name,
        tempfile.TemporaryDirectory(prefix="windlass-beside-") as other,
    ):
        folder, beside = Path(name).resolve(), Path(other).resolve()
        settings = Settings(
            data_dir=name,
            admin_token=ADMIN,
            engine=engine,
            gateway_port=0,
            rate_limit=1_000_000,
            **{"settle_seconds": 0.2} | given | {"docker_host": docker_host},
        )
        machine = Containers(docker_host, folder) if engine == "docker" else Processes(folder)
        try:
            yield Place(folder, beside, settings, machine)
        finally:
            await machine.clear()


async def _remove(docker: Docker, path: str) -> None:
    try:
        await docker.raw("DELETE", path, params={} if "networks" in path else {"force": True})
    except EngineRefused as error:
        if error.status != 404:  # it may have been removed since it was listed
            raise


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await true():  # noqa: ASYNC110 (nothing notifies of a change)
            await asyncio.sleep(0.05)
