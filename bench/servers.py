"""The servers that are measured: `windlass serve`, and the bare servers it is compared with."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import SERVER_CORE, Failed, start

ADMIN = "admin-token-of-the-benchmarks-0123456789abcdef"
_NO_LIMIT = "1000000000"  # no load could be put on a server that stops after a thousand requests
_PATIENCE = 30.0


class Server:
    """A process that listens, on the core of servers."""

    def __init__(
        self, command: Sequence[str], port: int, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.port = port
        self._log = folder / "server.log"
        self._process = start(command, SERVER_CORE, environment or {}, self._log)
        self.pid = self._process.pid

    def answers(self, request: bytes) -> None:
        """Comes back with the first good answer to this request."""
        until = time.monotonic() + _PATIENCE
        while not _is_answered(self.port, request):
            if self._process.poll() is not None or time.monotonic() > until:
                raise Failed(self._log.read_text()[-2000:])
            time.sleep(0.001)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Windlass(Server):
    """`windlass serve`, and what a client does with it. Loads use a token of the usual kind, made here."""

    def __init__(
        self, folder: Path, database_url: str = "", settings: Mapping[str, str] | None = None
    ) -> None:
        port = free_port()
        folder.mkdir(exist_ok=True)
        environment = {
            "WINDLASS_ADMIN_TOKEN": ADMIN,
            "WINDLASS_RATE_LIMIT": _NO_LIMIT,
            "WINDLASS_DATABASE_URL": database_url,
            "WINDLASS_GATEWAY_PORT": "0",
            "WINDLASS_ENGINE": "process",
            # Documents contain it: with the address of a port that changes, each start would rewrite them.
            "WINDLASS_PUBLIC_URL": "http://127.0.0.1:8080",
            **(settings or {}),
        }
        command = [sys.executable, "-m", "windlass", "serve", "--port", str(port), "--data-dir", str(folder)]
        super().__init__(command, port, folder, environment)
        self.token = ADMIN

    def sign_in(self) -> None:
        self.org = str(self.ask("GET", "/organization")["id"])
        wanted = {"name": f"bench {os.urandom(4).hex()}", "scopes": ["Admin"]}
        self.token = str(self.ask("POST", f"/organization/{self.org}/apiToken", wanted)["token"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.raw(method, path, body))

    def raw(self, method: str, path: str, body: Any = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        headers = {"Authorization": f"Token {self.token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 300:
            raise Failed(f"{method} {path}: {text.decode()}")
        return text

    # Requests, as the load sends them

    def get(self, path: str) -> str:
        return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Token {self.token}\r\n\r\n"

    def post(self, path: str, body: Any) -> str:
        text = json.dumps(body)
        return (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Token {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}"
        )

    def page(self, number: int, size: int = 20) -> str:
        return f"/organization/{self.org}/project?page={number}&page_size={size}"

    def project_requests(self, most: int) -> list[str]:
        """Reads of single projects, each of another one."""
        found = self.ask("GET", self.page(1, most))["results"]
        return [self.get(f"/project/{project['id']}") for project in found]

    def counted(self) -> tuple[float, float]:
        """Returns the writes and the groups in which they were committed. The server makes the text of its
        metrics once a second at most, so both may be a second old."""
        values = dict(line.rsplit(" ", 1) for line in self.raw("GET", "/metrics").decode().splitlines())
        return float(values["windlass_writes_total"]), float(values["windlass_write_groups_total"])


@contextlib.contextmanager
def windlass(
    folder: Path, database_url: str = "", settings: Mapping[str, str] | None = None
) -> Iterator[Windlass]:
    server = Windlass(folder, database_url, settings)
    try:
        server.answers(server.get("/organization").encode())
        server.sign_in()
        yield server
    finally:
        server.stop()


ANY_REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def bare_server(folder: Path, *arguments: str) -> Server:
    """See bench/bare.py."""
    port = free_port()
    return Server([sys.executable, "-m", "bench.bare", "--port", str(port), *arguments], port, folder)


@contextlib.contextmanager
def bare(folder: Path, body: bytes, *arguments: str) -> Iterator[Server]:
    """Answers whatever comes with these bytes."""
    file = folder / f"body-{len(body)}"
    file.write_bytes(body)
    server = bare_server(folder, "--body", str(file), *arguments)
    try:
        server.answers(ANY_REQUEST)
        yield server
    finally:
        server.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_answered(port: int, request: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
            connection.sendall(request)
            head = connection.recv(65_536)
    except OSError:
        return False
    if head and not head.startswith(b"HTTP/1.1 200"):
        raise Failed(head.decode("latin-1"))
    return bool(head)
