"""The console and the API by HTTPS, with a certificate of a real authority, while their server restarts."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import signal
import ssl
import time
from functools import partial
from typing import Any

import pytest

from tests.domains.test_pebble import Pebble
from tests.fakes.name_server import name_server
from tests.free_ports import free_port
from tests.needs import needs
from tests.routing.test_restarting import ServerProcess
from tests.whole import place, until
from tests.world import ADMIN

pytestmark = [needs("pebble"), pytest.mark.nightly]

NAME = "windlass.example.com"
PAUSE = 0.02


class Visitor:
    """Calls the API at its name again and again, each time on a new connection."""

    def __init__(self, port: int, root: str) -> None:
        self._port = port
        self._context = ssl.create_default_context(cadata=root)
        self.answers: list[int | str] = []
        self._is_leaving = False

    async def __aenter__(self) -> Visitor:
        self._visits = asyncio.create_task(asyncio.to_thread(self._visit))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_leaving = True
        await self._visits

    async def has_seen(self, count: int) -> bool:
        return len(self.answers) >= count

    def _visit(self) -> None:
        while not self._is_leaving:
            try:
                self.answers.append(self.call())
            except (OSError, http.client.HTTPException) as error:
                self.answers.append(repr(error))
            time.sleep(PAUSE)

    def call(self) -> int:
        connection = _NamedConnection("127.0.0.1", self._port, timeout=30, context=self._context)
        with contextlib.closing(connection):
            connection.request(
                "GET", "/organization", headers={"Host": NAME, "Authorization": f"Token {ADMIN}"}
            )
            answer = connection.getresponse()
            answer.read()
            return answer.status

    async def is_served(self) -> bool:
        try:
            return await asyncio.to_thread(self.call) == 200
        except OSError:
            return False


class _NamedConnection(http.client.HTTPSConnection):
    def __init__(self, host: str, port: int, *, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(host, port, context=context, **options)
        self._trust = context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._trust.wrap_socket(self.sock, server_hostname=NAME)


async def test_the_console_gets_a_certificate_and_answers_by_https_while_its_server_restarts(tmp_path):
    gateway, https = free_port(), free_port()
    async with place("process") as there, name_server() as dns:
        dns.set(NAME, ("A", "127.0.0.1"))
        pebble = Pebble(tmp_path, gateway, https, dns.address)
        server = ServerProcess(
            there,
            WINDLASS_GATEWAY_PORT=str(gateway),
            WINDLASS_HTTPS_PORT=str(https),
            WINDLASS_CONSOLE_DOMAIN=NAME,
            WINDLASS_ACME_DIRECTORY=f"https://127.0.0.1:{pebble.port}/dir",
            WINDLASS_ACME_CA_FILE=str(pebble.own.file),
            WINDLASS_DNS_SERVERS=dns.address,
            WINDLASS_OUTBOUND_ALLOW="127.0.0.0/8",
        )
        server.port = free_port()
        async with pebble.running():
            await server.start()
            async with Visitor(https, await pebble.root()) as visitor:
                await until(visitor.is_served)
                visitor.answers.clear()
                for number in (signal.SIGTERM, signal.SIGKILL):
                    await server.end(number)
                    await server.start()
                    await until(partial(visitor.has_seen, len(visitor.answers) + 20))
            assert set(visitor.answers) == {200}
            assert pebble.log().count("new-order") <= 1, "the certificate is kept"
            await server.end(signal.SIGTERM)
