"""Applications are reached while their server stops, dies and starts again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.gateway_town import processes_of
from tests.gateway.routers.test_held_ports import IPV6, can_be_taken
from tests.repositories import Repository
from tests.whole import Place, Visitors, page, place, until
from tests.world import ADMIN
from windlass.base.settings import settings_of
from windlass.docker.settings import OwnDockerSettings

pytestmark = pytest.mark.slow

APP = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"me")
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Page).serve_forever()
"""
LISTENS = re.compile(rb"listens on (http://\S+)")


class ServerProcess:
    """`windlass serve`, as an operator starts it."""

    def __init__(self, there: Place, **more: str) -> None:
        """`more` are variables of its environment."""
        self._there, self._more = there, more
        self.port = 0

    async def start(self) -> None:
        settings = self._there.settings
        self.log = self._there.folder / "server.log"
        log = self.log.open("wb")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "windlass", "serve", "--port", str(self.port)),
            *("--data-dir", settings.data_dir),
            env={
                "WINDLASS_ADMIN_TOKEN": ADMIN,
                "WINDLASS_ENGINE": settings.engine,
                "WINDLASS_DOCKER_HOST": settings_of(OwnDockerSettings, settings).docker_host,
                "WINDLASS_GATEWAY_PORT": "0",
                "WINDLASS_SETTLE_SECONDS": "0.2",
                "WINDLASS_GIT_ALLOW_LOCAL": "1",
                "WINDLASS_RATE_LIMIT": "1000000",
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                **self._more,
            },
            stderr=log,
            start_new_session=True,  # without a terminal, as a service
        )
        log.close()

        async def listens() -> bool:
            assert self._process.returncode is None, self.log.read_text()
            return LISTENS.search(self.log.read_bytes()) is not None

        await until(listens)
        found = LISTENS.search(self.log.read_bytes())
        assert found
        self.url = found[1].decode()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self, number: signal.Signals) -> None:
        self.send(number)
        await self._process.wait()

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await asyncio.to_thread(self._called, method, path, body)

    def _called(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Authorization": f"Token {ADMIN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.loads(answer.read() or b"null")


@contextlib.asynccontextmanager
async def application(there: Place, source: str = APP) -> AsyncIterator[tuple[ServerProcess, str, str]]:
    """A server with one application that is reached; its id and its address."""
    repository = Repository(there.beside / "repository")
    repository.put({"requirements.txt": "", "app.py": source, "Procfile": "web: python app.py"}).commit()
    server = ServerProcess(there)
    await server.start()
    ports = [{"internal_port": 8000, "publicly_accessible": True, "protocol": "HTTP"}]
    git = {"url": repository.url, "branch": "main"}
    app = await deploy(server, {"name": "web", "git_repository": git, "ports": ports})
    links = await server.call("GET", f"/application/{app}/link")
    yield server, app, links["results"][0]["url"]


async def deploy(server: ServerProcess, body: Mapping[str, Any]) -> str:
    """Returns the id of a new application when it runs."""
    org = (await server.call("GET", "/organization"))["results"][0]["id"]
    project = (await server.call("POST", f"/organization/{org}/project", {"name": "acme"}))["id"]
    environment = (await server.call("POST", f"/project/{project}/environment", {"name": "production"}))["id"]
    app: str = (await server.call("POST", f"/environment/{environment}/application", body))["id"]
    await server.call("POST", f"/application/{app}/deploy")

    async def runs() -> bool:
        status = await server.call("GET", f"/application/{app}/status")
        assert "ERROR" not in status["state"], status
        return bool(status["state"] == "RUNNING")

    await until(runs)
    return app


async def test_no_request_fails_while_the_server_restarts():
    async with place("process") as there, application(there) as (server, _, url):
        async with Visitors(url) as visitors:
            await until(lambda: _seen(visitors, 100))
            for number in (signal.SIGTERM, signal.SIGKILL):
                await server.end(number)
                before = len(visitors.pages)
                await until(partial(_seen, visitors, before + 100))
                await server.start()
        assert {answer.status for answer in visitors.pages} == {200}
        await server.end(signal.SIGTERM)
        assert (await page(url)).text == "me"
    folder = Path(there.folder) / "gateway"
    await until(lambda: _gone(folder))


async def test_a_service_cannot_listen_on_the_api_port_with_ipv6():
    """A client that connects to localhost tries it first, and would send its token there."""
    async with place("process") as there:
        server = ServerProcess(there)
        await server.start()
        port = urlsplit(server.url).port
        assert port is not None
        taken = [address for address in IPV6 if can_be_taken(address, port)]
        await server.end(signal.SIGTERM)
        assert not taken
        await until(lambda: _gone(Path(there.folder) / "gateway"))
        assert all(can_be_taken(address, port) for address in IPV6)


async def _seen(visitors: Visitors, count: int) -> bool:
    return len(visitors.pages) >= count


async def _gone(folder: Path) -> bool:
    return not processes_of(folder)


async def test_a_hang_up_ends_neither_server_nor_gateway():
    async with place("process") as there, application(there) as (server, _, url):
        (gateway,) = processes_of(there.folder / "gateway")
        server.send(signal.SIGHUP)
        os.kill(gateway, signal.SIGHUP)

        async def is_told() -> bool:
            return "SIGHUP does nothing" in server.log.read_text()

        await until(is_told)
        assert (await page(url)).text == "me"
        assert await server.call("GET", "/readyz") is not None
        assert processes_of(there.folder / "gateway") == [gateway]
        assert "SIGHUP does nothing" in (there.folder / "gateway/log").read_text()
        await server.end(signal.SIGTERM)


async def test_a_stopping_server_is_not_ready_but_still_answers_requests():
    async with place("process") as there:
        server = ServerProcess(there, WINDLASS_LEAVE_SECONDS="1000")
        await server.start()
        assert await server.call("GET", "/readyz") is not None
        server.send(signal.SIGTERM)

        async def is_unready() -> bool:
            try:
                await server.call("GET", "/readyz")
            except urllib.error.HTTPError as refused:
                return refused.code == 503
            return False

        await until(is_unready)
        assert "results" in await server.call("GET", "/organization")
        await server.end(signal.SIGTERM)
