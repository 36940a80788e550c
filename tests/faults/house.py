"""One data directory, the Windlasses that live in it one after the other, and what they have promised.

What is told to people is heard over HTTP; the books, the disk and the processes say whether it was true.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.faults.books import Books, by_themselves, mistold, untrue
from tests.faults.grounds import Containers, Ground, Key, Processes
from tests.faults.programs import Code
from tests.faults.victim import Doom
from tests.forks import Brood
from tests.world import ADMIN
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.sources.git.kept import KEPT_FOLDER as KEPT

ROOT = Path(__file__).parents[2]
CONVERGED = 30.0
"""Seconds after a start by which everything has come to where it belongs: promised, not measured."""
LEASE = 1000
"""Milliseconds; used only where there may be replicas. Elsewhere a start knows that no other server holds
work."""
LOOK_EVERY = 0.05
"""Seconds. A look reads the records of all services, and the environments of all processes of the machine."""
AT_MOST = 120.0
"""Seconds after which a missing event counts as lost."""


class Died(Exception):
    """It was killed while it was asked."""


class House:
    def __init__(
        self,
        folder: Path,
        brood: Brood,
        code: Code,
        url: str = "",
        name: str = "one",
        docker: str = "",
        **settings: Any,
    ) -> None:
        """Houses of different names in one folder share everything that Windlass keeps: they are replicas.
        `docker` is an engine to stand on, instead of the bare machine."""
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.ground: Ground = Containers(docker, self.data) if docker else Processes(self.data)
        self.code = code
        self.books = Books(self.data, url)
        self.acknowledged: dict[str, str] = {}
        """Every deployment that was answered with 202, and its service."""
        self.uploads: dict[str, Any] = {}
        """Every upload, by its path: what was answered last about it."""
        self.deaths: list[str] = []
        """The last point that each of those came to who were killed."""
        self.convergences: list[float] = []
        """Seconds from each start until all services ran again."""
        self._born = 0.0
        self._brood = brood
        self._order: dict[str, Any] = {
            "folder": str(self.folder),
            "log": str(self.folder / "log"),
            "settings": {
                "data_dir": str(self.data),
                "admin_token": ADMIN,
                "rate_limit": 1_000_000_000,
                "database_url": url,
                "gateway_port": 0,
                "git_allow_local": True,
                "settle_seconds": 0,
                "stop_seconds": 1,
                "ready_seconds": 10,
                "parallel_deployments": 8,
                "log_level": "error",
                "auto_deploy_seconds": 86_400,
            }
            | dict(self.ground.settings)
            | settings,
        } | ({"lease": LEASE} if url else {})
        self.environment = ""
        self.pid = 0
        self._http: aiohttp.ClientSession | None = None
        self._url = ""
        self._names = self._dooms = 0
        self.knocks: list[socket.socket] = []
        self.doom("")

    # Life and death

    def doom(
        self, point: str, count: int = 1, number: signal.Signals = signal.SIGKILL, lot: Path | None = None
    ) -> None:
        """Sets the point at which the victim dies, when it reaches it for the count-th time from now on. Of
        several servers with one `lot`, which is a file, only the first dies."""
        self._dooms += 1
        doom = Doom(self._dooms, point, count, number, str(lot or ""))
        (self.folder / "doom.new").write_bytes(msgspec.json.encode(doom))
        (self.folder / "doom.new").rename(self.folder / "doom")

    @property
    def points(self) -> list[str]:
        """All that were reached since the house was built, in order."""
        with suppress(FileNotFoundError):
            return (self.folder / "points").read_text().splitlines()
        return []

    async def start(self) -> None:
        assert not self.pid
        if self.deaths:
            await self.books.forgive()
        port = self.folder / "port"
        port.unlink(missing_ok=True)
        self.pid, self._born = self._brood.ordered(self._order), time.monotonic()
        while not port.exists():
            if self.is_dead:
                await self._buried()
                raise Died
            await asyncio.sleep(0.005)
        self._url = f"http://127.0.0.1:{port.read_text()}"
        self._http = aiohttp.ClientSession(
            headers={"Authorization": f"Token {ADMIN}"}, timeout=aiohttp.ClientTimeout(total=AT_MOST / 2)
        )

    @property
    def is_dead(self) -> bool:
        return self._state == "Z"

    @property
    def is_paused(self) -> bool:
        return self._state == "T"

    @property
    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def strike(self) -> None:
        """It is dead, and has yet to be buried."""
        assert self.pid, "0 would be every process of this test's group"
        os.kill(self.pid, signal.SIGKILL)

    async def kill(self) -> None:
        if self.pid:
            self.strike()
            await self._buried()

    async def stop(self) -> None:
        """As an operator does it; what runs goes on."""
        os.kill(self.pid, signal.SIGTERM)
        assert await self.dies() == 0

    async def dies(self, patience: float = AT_MOST) -> int | None:
        """Returns the exit code; None if the server did not end within this time."""
        over = time.monotonic() + patience
        while not self.is_dead:
            if time.monotonic() > over:
                return None
            await asyncio.sleep(0.005)
        return await self._buried()

    @asynccontextmanager
    async def mortal(self) -> AsyncIterator[None]:
        """It may die in here, and is buried afterwards if it did."""
        try:
            yield
        except Died:
            if self.pid:  # Its sockets are closed before it is dead.
                await self.dies()
        if self.pid and self.is_dead:
            await self.dies()

    async def _buried(self) -> int:
        status = self._brood.ordered({"reap": self.pid})
        self.pid = 0
        if status == -signal.SIGKILL:
            self.deaths.append(self.points[-1] if self.points else "")
        assert status in (0, -signal.SIGKILL), self.log
        if self._http:
            await self._http.close()
            self._http = None
        return status

    @property
    def log(self) -> str:
        with suppress(FileNotFoundError):
            return (self.folder / "log").read_text()
        return ""

    # Asked over HTTP

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; of what is refused, a document with its status. Raises Died."""
        assert self._http
        sent: dict[str, Any] = {"data": body} if isinstance(body, bytes) else {"json": body or {}}
        try:
            async with self._http.request(method, self._url + path, **sent) as answer:
                text = await answer.read()
        except TimeoutError:
            paused = " and is paused" if self.is_paused else ""
            raise AssertionError(f"{self.folder.name} does not answer{paused}\n{self.log}") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Died(f"{self.points[-5:]} {(self.folder / 'doom').read_text()}\n{self.log}") from error
        document = json.loads(text) if text else {}
        assert answer.status < 500, (method, path, document)
        if isinstance(document, dict) and answer.status == 202 and "service_id" in document:
            self.acknowledged[document["id"]] = document["service_id"]
        return document

    async def knock(self, app: str) -> None:
        """Sends a request to the application at its gateway, and does not wait for the answer."""
        (link,) = (await self.call("GET", f"/application/{app}/link"))["results"]
        address = link["url"].removeprefix("http://")
        out = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
        self.knocks.append(out)
        out.sendall(f"GET / HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())

    async def make_environment(self) -> None:
        org = (await self.call("GET", "/organization"))["id"]
        project = (await self.call("POST", f"/organization/{org}/project", {"name": "project"}))["id"]
        made = await self.call("POST", f"/project/{project}/environment", {"name": "environment"})
        self.environment = made["id"]

    async def application(self, program: str, **fields: Any) -> str:
        self._names += 1
        repository = {"url": self.code.url, "branch": "main", "root_path": f"/{program}"}
        size = {"cpu": 100, "memory": 128, "ports": []}
        body = {"name": f"{program}-{self._names}", "git_repository": repository} | size
        made = await self.call("POST", f"/environment/{self.environment}/application", body | fields)
        assert "id" in made, made
        return str(made["id"])

    async def task(self, script: str) -> str:
        made = await self.call(
            "POST", f"/environment/{self.environment}/task", {"name": "t", "script": script}
        )
        assert "id" in made, made
        return str(made["id"])

    async def do(self, app: str, deed: str, **body: Any) -> str:
        """Asks for a deployment, and answers its id; empty: it was refused."""
        answer = await self.call("POST", f"/application/{app}/{deed}", body)
        return str(answer["id"]) if "service_id" in answer else ""

    async def deployment(self, app: str, id: str) -> Any:
        return await self.call("GET", f"/application/{app}/deployment/{id}")

    async def reaches(self, app: str, id: str, *words: str) -> Any:
        """The deployment, once its status is one of these, or final."""
        seen: Any = {}

        async def there() -> str:
            nonlocal seen
            seen = await self.deployment(app, id)
            status = seen.get("status")
            return (
                "" if status in words or status not in OPEN_STATES_OF_DEPLOYMENTS else f"{id} stays {status}"
            )

        await self.until(there)
        return seen

    async def upload(self, app: str, archive: bytes) -> str:
        """Sends an archive in two parts and completes it. Returns the id of the upload."""
        digest = hashlib.sha256(archive).hexdigest()
        announced = {"size": len(archive), "sha256": digest}
        made = await self.call("POST", f"/application/{app}/upload", announced)
        assert "id" in made, made
        path, half = f"/application/{app}/upload/{made['id']}", len(archive) // 2
        for start, part in ((0, archive[:half]), (half, archive[half:])):
            self.uploads[path] = await self.call("PUT", f"{path}/content?offset={start}", part)
        self.uploads[path] = await self.call("POST", f"{path}/complete")
        return str(made["id"])

    # Looked up

    async def converges(self) -> None:
        await self.until(self.amiss)

    async def recovers(self) -> None:
        """It converges, and in time counted from its start."""
        await self.converges()
        self.convergences.append(time.monotonic() - self._born)

    async def rests(self) -> None:
        """Waits until no server has reached a failpoint for a while."""
        seen = -1
        while seen != len(self.points):
            seen = len(self.points)
            await asyncio.sleep(0.3)

    async def comes_to(self, point: str, since: int) -> None:
        """After so many points."""

        async def missing() -> str:
            return "" if point in self.points[since:] else f"nobody came to {point!r}"

        await self.until(missing)

    async def until(self, amiss: Callable[[], Awaitable[str]]) -> None:
        over = time.monotonic() + CONVERGED
        while why := await amiss():
            if self.is_dead:
                await self._buried()
                raise Died
            if time.monotonic() > over:
                os.kill(self.pid, signal.SIGUSR1)
                await asyncio.sleep(0.5)
                raise AssertionError(f"{why}\n{self.log}")
            await asyncio.sleep(LOOK_EVERY)

    async def amiss(self) -> str:
        """Returns the first difference between a service and its record; empty without one."""
        meant: set[Key] = set()
        async with self.books.opened() as reads:
            for service in await reads.statuses.services():
                status = await reads.statuses.get(service)
                deployments = await reads.deployments.latest(service, 10_000)
                if status is None or service == self.environment:
                    continue
                if why := untrue(status, deployments):
                    return f"{service}: {why}; it says {status.message!r}"
                numbers = {one.id: one.number for one in deployments}
                if status.serving:
                    meant |= {(service, numbers[status.serving], index) for index in range(status.instances)}
        if sorted(living := await self.living()) != sorted(meant):
            return f"{sorted(meant)} should live, {living} does"
        left = await self.books.unfinished()
        return f"there is work to do: {left}" if left else ""

    async def living(self) -> list[Key]:
        """Returns the running instances as the machine shows them."""
        return await self.ground.living()

    async def check_promises(self) -> None:
        """Every acknowledged deployment has ended exactly once, and no instance ever ran twice."""
        assert self.code.twins + self.ground.twins == []
        async with self.books.opened() as reads:
            rows = [
                row
                for id in await reads.statuses.services()
                for row in await reads.deployments.latest(id, 10_000)
            ]
        assert {row.status for row in rows if row.status in OPEN_STATES_OF_DEPLOYMENTS} == set()
        assert [commit for commit, times in by_themselves(rows).items() if times > 1] == []
        events = await self.books.events()
        assert mistold(events, rows) == []
        for path, told in self.uploads.items():
            seen = await self.call("GET", path)
            assert (seen["offset"], seen.get("git_commit_id")) >= (told["offset"], told.get("git_commit_id"))
        known = {row.id for row in rows} | {json.loads(event.body).get("deployment_id") for event in events}
        assert set(self.acknowledged) <= known

    # Left

    async def delete_everything(self) -> None:
        async with self.books.opened() as reads:
            ids = [id for id in await reads.statuses.services() if id != self.environment]
            services = filter(None, [await reads.resources.get(id) for id in ids])
        for service in services:
            await self.call("DELETE", f"/{service.family}/{service.id}")

    async def tidied(self) -> None:
        """Deleted services are erased, at the latest by the next sweep."""
        await self.kill()
        await self.start()
        await self.converges()  # A sweep leaves alone what is not deleted yet.
        await self.kill()
        await self.books.ask_to_tidy()
        before = len(self.points)
        await self.start()
        await self.comes_to("swept", before)

    async def leaves_nothing(self) -> None:
        await self.until(self.left)

    async def left(self) -> str:
        """Returns all remains that should be gone after the last service was deleted."""
        found = await self.ground.left()
        folders = ("builds", "work", "git", f"git/{KEPT}", "logs", "sites", "uploads")
        paths = [path for folder in folders for path in (self.data / folder).glob("*")]
        found += [str(path) for path in paths if path.name not in ("cache", KEPT)]
        return f"these are left: {found}" if found else ""


@asynccontextmanager
async def house_for(*given: Any, **settings: Any) -> AsyncIterator[House]:
    """Yields a house and removes everything of it afterwards, also after a broken promise."""
    house = House(*given, **settings)
    async with house.ground.watched():
        try:
            yield house
        finally:
            for knock in house.knocks:
                knock.close()
            await house.kill()
