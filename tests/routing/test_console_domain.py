"""The console and the API are served by the gateway at a name of their own."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.free_ports import free_port
from tests.gateway.gateway_town import processes_of
from tests.routing.test_restarting import ServerProcess
from tests.whole import Place, place, until
from tests.world import ADMIN

NAME = "windlass.example.com"
CLIENT = "127.0.0.2"
CLAIM = {"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=203.0.113.7"}


@contextlib.asynccontextmanager
async def _server(there: Place, gateway: int, **more: str) -> AsyncIterator[ServerProcess]:
    settings = {"WINDLASS_GATEWAY_PORT": str(gateway), "WINDLASS_CONSOLE_DOMAIN": NAME, **more}
    server = ServerProcess(there, **settings)
    server.port = free_port()
    await server.start()
    try:
        yield server
    finally:
        await server.end(signal.SIGTERM)


async def _send(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
) -> tuple[int, str]:
    def send() -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, 30, (CLIENT, 0))) as connection:
            data = None if body is None else json.dumps(body)
            connection.request(
                method,
                path,
                data,
                {"Host": NAME, "Authorization": f"Token {ADMIN}", "Content-Type": "application/json"}
                | dict(headers or {}),
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    return await asyncio.to_thread(send)


async def _addresses(server: ServerProcess) -> list[str]:
    """Returns the addresses from which projects were made."""
    org = (await server.call("GET", "/organization"))["results"][0]["id"]
    events = (await server.call("GET", f"/organization/{org}/events?pageSize=100"))["events"]
    return [event["address"] for event in events if event["target_type"] == "PROJECT"]


@pytest.mark.slow
async def test_the_gateway_serves_console_and_api_at_their_name_and_ends_with_the_server():
    async with place("process") as there:
        gateway = free_port()
        async with _server(there, gateway) as server:
            status, page = await _send(gateway, "GET", "/console")
            assert (status, "<title>" in page) == (200, True)
            org = (await server.call("GET", "/organization"))["results"][0]["id"]
            made = f"/organization/{org}/project"
            proxied = await _send(gateway, "POST", made, CLAIM, {"name": "by the gateway"})
            forged = {**CLAIM, "X-Windlass-Gateway": "0" * 64}
            direct = await _send(server.port, "POST", made, forged, {"name": "directly"})
            assert (proxied[0], direct[0]) == (200, 200)
            assert await _addresses(server) == [CLIENT, CLIENT]
        await until(lambda: _gone(there))


@pytest.mark.slow
async def test_without_its_certificate_the_console_is_not_served_in_clear():
    """Passwords and tokens would be sent in clear, and an Admin would not notice it."""
    async with place("process") as there:
        gateway = free_port()
        settings = {"WINDLASS_HTTPS_PORT": str(free_port()), "WINDLASS_ACME_DIRECTORY": ""}
        async with _server(there, gateway, **settings) as server:
            status, text = await _send(gateway, "GET", "/organization")
            assert (status, text.partition(":")[0]) == (503, "Wait a minute")
            assert (await _send(server.port, "GET", "/organization"))[0] == 200


async def _gone(there: Place) -> bool:
    return not processes_of(Path(there.folder) / "gateway")
