"""Servers of their own, started from the command line: stopped, asked again, without their database."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.store.ledger import AUTHORIZED
from tests.store.processes import ALONE, LISTENS
from tests.store.stores import Place, execute
from tests.world import ADMIN

pytestmark = pytest.mark.slow

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
        self.said, found = "", None
        while found is None and (line := self.process.stderr.readline()):
            self.said += line
            found = LISTENS.search(line)
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


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
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


def test_a_stopping_server_completes_requests_in_progress(tmp_path: Path):
    with Command(tmp_path) as server:
        whole = request("/organization", BODY)
        begun = asked(server.port, whole[:-10])
        idle = asked(server.port, b"")
        used = asked(server.port, HEALTH)
        assert used.recv(65_536).startswith(b"HTTP/1.1 200")
        server.process.terminate()
        assert answered(idle) == b""
        assert answered(used) == b""
        late = asked(server.port, HEALTH)  # its gateway keeps the port for the next server
        begun.sendall(whole[-10:])
        answer = answered(begun)
        assert answer.startswith(b"HTTP/1.1 201")
        assert server.ended() == 0
        with contextlib.suppress(ConnectionError):
            assert not answered(late).startswith(b"HTTP/1.1 200")
        assert "Traceback" not in server.said


def test_a_stopping_server_does_not_wait_for_ever_for_a_client(tmp_path: Path):
    with Command(tmp_path) as server, asked(server.port, request("/organization", BODY)[:-10]):
        assert server.stop() == 0


def test_a_second_stop_signal_ends_a_waiting_server_at_once(tmp_path: Path):
    with Command(tmp_path) as server, asked(server.port, request("/organization", BODY)[:-10]):
        server.process.send_signal(signal.SIGINT)
        while is_listening(server.port):
            time.sleep(0.01)
        assert server.stop() == 0


def test_after_a_clean_stop_the_database_file_contains_all_changes_and_no_wal_remains(tmp_path: Path):
    with Command(tmp_path) as server:
        org = call(server.port, "GET", "/organization")["id"]
        project = call(server.port, "POST", f"/organization/{org}/project", {"name": "shop"})
        assert (tmp_path / "windlass.db-wal").exists()
        assert server.stop() == 0
    assert not (tmp_path / "windlass.db-wal").exists()
    with Command(tmp_path) as server:
        assert call(server.port, "GET", f"/project/{project['id']}")["name"] == "shop"


def test_a_server_that_lost_its_database_reports_it_and_can_be_stopped(
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
    """Refuses new connections to this database, and ends all others."""
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
