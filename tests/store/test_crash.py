"""Killed at any moment, in the middle of anything: what was acknowledged is there, and nothing by half."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.forks import Brood, breeding
from tests.forms import either
from tests.store.processes import ALONE, LISTENS, PROGRAM, Server
from tests.store.stores import Place, execute, until
from tests.world import ADMIN

CLIENTS = 8
WRITES = 30
"""The most that are acknowledged in one life before it ends, apart from those on their way."""
AUTHORIZED = {"Authorization": f"Token {ADMIN}"}


@pytest.fixture(scope="module")
def brood() -> Iterator[Brood]:
    with breeding(PROGRAM) as made:
        yield made


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
    """What the clients asked for, and what they were told."""

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
        """Writes for as long as somebody answers."""
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
            status, _ = await client.call("DELETE", f"/project/{project}")
            assert status == 204
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


async def lives(brood: Brood, place: Place, ledger: Ledger, kills: int, seed: int) -> None:
    """Starts, checks, works and is killed, over and over, until it has done enough. A life lasts for some
    writes and not for some time, in which a starved machine would do nothing."""
    chance, least = random.Random(seed), 2 * kills
    for life in itertools.count():
        if life >= kills and ledger.deleted and len(ledger.projects) > least:
            return
        server = Server(brood, place)
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() * 0.1)
            assert server.end() == -signal.SIGKILL
            continue
        async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
            client = Client(session, await server.listening())
            await ledger.check(client)
            working = [asyncio.create_task(ledger.work(client)) for _ in range(CLIENTS)]
            await ledger.grown(chance.randint(0, WRITES), working)
            await asyncio.sleep(chance.random() * 0.005)
            assert server.end() == -signal.SIGKILL
            await asyncio.gather(*working)


async def at_last(brood: Brood, place: Place, ledger: Ledger) -> None:
    server = Server(brood, place)
    async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
        await ledger.check(Client(session, await server.listening()))
    assert server.end(signal.SIGTERM) == 0
    assert "Traceback" not in server.said
    await whole(place)
    created = await place.sql("SELECT target FROM event WHERE kind = 'CREATE'")
    assert ledger.projects.keys() <= {row[0] for row in created}
    deleted = await place.sql("SELECT target FROM event WHERE kind = 'DELETE'")
    assert ledger.deleted == {row[0] for row in deleted}


BROKEN = {
    "a gap between events": """
        SELECT 1 FROM (SELECT count(*) AS n, max(seq) AS last FROM event) AS counted
        WHERE n <> last OR last <> (SELECT value FROM counter WHERE name = 'event')""",
    "a resource without its one event": """
        SELECT id FROM resource
        WHERE (SELECT count(*) FROM event WHERE target = resource.id AND kind = 'CREATE') <> 1""",
    "a resource that was deleted": """
        SELECT resource.id FROM resource JOIN event ON target = resource.id WHERE kind = 'DELETE'""",
    "a list of another length than it says": """
        SELECT parent FROM tally WHERE live <> (
            SELECT count(*) FROM resource
            WHERE resource.parent = tally.parent AND resource.family = tally.family
        )""",
    "a list with another number of holes than it says": """
        SELECT parent FROM tally WHERE next - live <> (
            SELECT coalesce(sum(n), 0) FROM hole
            WHERE hole.parent = tally.parent AND hole.family = tally.family AND level = 1
        )""",
    "a resource whose parent is gone": """
        SELECT id FROM resource
        WHERE parent <> '' AND parent NOT IN (SELECT id FROM resource)""",
    "more than one beginning": "SELECT 1 FROM resource WHERE parent = '' AND pos <> 1",
}


async def whole(place: Place) -> None:
    for what, query in BROKEN.items():
        assert await place.sql(query) == [], what
    if not place.url:
        assert await place.sql("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.sized
async def test_killed_again_and_again_the_embedded_database_has_all_and_nothing_by_half(
    brood: Brood, tmp_path: Path
):
    """Two at a time; every fifth is killed while it starts. (The first starts are killed below.)"""
    places = [Place("", tmp_path / name) for name in "ab"]
    for place in places:
        place.folder.mkdir()
    ledgers = [Ledger() for _ in places]
    await asyncio.gather(
        *(
            lives(brood, place, ledger, kills=either(10, 50), seed=number)
            for number, (place, ledger) in enumerate(zip(places, ledgers, strict=True))
        )
    )
    for place, ledger in zip(places, ledgers, strict=True):
        await at_last(brood, place, ledger)


@pytest.mark.sized
async def test_killed_during_its_first_start_it_starts_the_next_time(brood: Brood, tmp_path: Path):
    for number in range(either(8, 20)):
        place = Place("", tmp_path / str(number))
        place.folder.mkdir()
        server = Server(brood, place)
        await asyncio.sleep(either(0.02, 0.008) * number)
        server.end()
        if number % 4 == 3:  # each of them would take its time
            await at_last(brood, place, Ledger())


@pytest.mark.sized
async def test_killed_again_and_again_on_postgresql_it_has_all_and_nothing_by_half(
    brood: Brood, served: Place
):
    ledger = Ledger()
    await lives(brood, served, ledger, kills=either(8, 30), seed=7)
    await at_last(brood, served, ledger)
    assert len(ledger.projects) > either(15, 50)


async def test_what_the_checks_look_for_they_find(brood: Brood, tmp_path: Path):
    place = Place("", tmp_path)
    ledger = Ledger()
    server = Server(brood, place)
    async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
        client = Client(session, await server.listening())
        await ledger.check(client)
        for _ in range(4):
            await ledger.one_round(client)
    assert server.end(signal.SIGTERM) == 0
    await whole(place)
    for damage in (
        "UPDATE counter SET value = value + 1",
        "DELETE FROM event WHERE seq = 1",
        "DELETE FROM resource WHERE family = 'project' AND pos = 1",
        "UPDATE tally SET live = live + 1 WHERE family = 'project'",
        "DELETE FROM hole",
    ):
        before = place.file.read_bytes()
        await place.sql(damage)
        with pytest.raises(AssertionError):
            await whole(place)
        place.file.write_bytes(before)
    await whole(place)


# Asked to stop


class Command:
    """The command itself, as an operator starts it."""

    def __init__(self, folder: Path, *, port: int = 0, database_url: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "windlass", "serve", "--port", str(port), "--data-dir", str(folder)],
            env={
                **os.environ,
                **ALONE,
                "WINDLASS_ADMIN_TOKEN": ADMIN,
                "WINDLASS_DATABASE_URL": database_url,
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr
        first = self.process.stderr.readline()
        found = LISTENS.search(first)
        self.said = first
        self.port = int(found[1].rpartition(":")[2]) if found else 0

    def ended(self) -> int:
        """Waits for its end, and answers its exit status."""
        self.said += self.process.communicate()[1]
        return self.process.returncode

    def stop(self) -> int:
        self.process.terminate()
        return self.ended()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.__exit__(None, None, None)


def request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Token {ADMIN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def asked(port: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(sent)
    return connection


def answered(connection: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


BODY = b'{"name": "organization", "plan": "FREE"}'


def call(port: int, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    with contextlib.closing(connection):
        headers = {**AUTHORIZED, "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        assert answer.status in {200, 201}, answer.read()
        return json.loads(answer.read())


def is_listening(port: int) -> bool:
    try:
        asked(port, b"").close()
    except ConnectionError:
        return False
    return True


def test_asked_to_stop_it_answers_what_it_has_begun_and_goes(tmp_path: Path):
    with Command(tmp_path) as server:
        whole = request("/organization", BODY)
        begun = asked(server.port, whole[:-10])
        idle = asked(server.port, b"")
        used = asked(server.port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert used.recv(65_536).startswith(b"HTTP/1.1 200")
        server.process.terminate()
        assert answered(idle) == b""
        assert answered(used) == b""
        assert not is_listening(server.port)
        begun.sendall(whole[-10:])
        answer = answered(begun)
        assert answer.startswith(b"HTTP/1.1 201")
        assert server.ended() == 0
        assert "Traceback" not in server.said


def test_it_does_not_wait_for_ever_for_who_never_finishes(tmp_path: Path):
    with Command(tmp_path) as server, asked(server.port, request("/organization", BODY)[:-10]):
        assert server.stop() == 0


def test_a_server_that_is_asked_twice_to_stop_waits_no_more(tmp_path: Path):
    with Command(tmp_path) as server, asked(server.port, request("/organization", BODY)[:-10]):
        server.process.send_signal(signal.SIGINT)
        while is_listening(server.port):
            time.sleep(0.01)
        assert server.stop() == 0


def test_after_a_stop_everything_is_in_the_one_file(tmp_path: Path):
    with Command(tmp_path) as server:
        org = call(server.port, "GET", "/organization")["id"]
        project = call(server.port, "POST", f"/organization/{org}/project", {"name": "shop"})
        assert (tmp_path / "windlass.db-wal").exists()
        assert server.stop() == 0
    assert not (tmp_path / "windlass.db-wal").exists()
    with Command(tmp_path) as server:
        assert call(server.port, "GET", f"/project/{project['id']}")["name"] == "shop"


def test_a_server_whose_database_went_away_says_so_and_can_be_stopped(
    tmp_path: Path, empty_database: str, postgres: Any
):
    with Command(tmp_path, database_url=empty_database) as server:
        org = call(server.port, "GET", "/organization")["id"]
        asyncio.run(shut(postgres.url("postgres"), urlsplit(empty_database).path[1:]))
        with pytest.raises(AssertionError, match="database cannot be reached; nothing was changed"):
            call(server.port, "POST", f"/organization/{org}/project", {"name": "shop"})
        with pytest.raises(AssertionError, match="database cannot be reached"):
            call(server.port, "GET", f"/organization/{org}/project")
        assert server.stop() == 0
        own = [line for line in server.said.splitlines() if '"logger": "asyncpg' not in line]
        assert "Traceback" not in "".join(own)


async def shut(server: str, name: str) -> None:
    """Nobody gets into this database any more, and whoever was in it is put out."""
    await execute(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    await execute(server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


# Two on one


def test_a_second_server_on_the_same_data_is_refused_in_one_clear_line(tmp_path: Path):
    with Command(tmp_path) as first, Command(tmp_path) as second:
        assert second.ended() == 1
        assert second.said.startswith("windlass: another Windlass runs on this data directory: stop it first")
        assert len(second.said.splitlines()) == 1
        assert call(first.port, "GET", "/organization")["name"] == "default"
        assert first.stop() == 0


def test_two_servers_on_one_postgresql_are_one_installation(tmp_path: Path, served: Place):
    (tmp_path / "b").mkdir()
    with Command(tmp_path / "a", database_url=served.url) as first:
        shutil.copy(tmp_path / "a" / "key", tmp_path / "b" / "key")
        with Command(tmp_path / "b", database_url=served.url) as second:
            org = call(first.port, "GET", "/organization")["id"]
            made = call(first.port, "POST", f"/organization/{org}/project", {"name": "shop"})
            assert call(second.port, "GET", f"/project/{made['id']}") == made
            assert second.stop() == 0
            assert first.stop() == 0
