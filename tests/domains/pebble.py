"""Pebble, the certificate authority with which Let's Encrypt tests clients, as a program of a test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from tests.certificates import authority, write_pair
from tests.free_ports import free_port
from windlass.base.http_out import HttpSender

TRIES = 150


class Pebble:
    def __init__(self, folder: Path, http_port: int, tls_port: int, dns: str) -> None:
        self.own = authority(folder / "pebble-authority")
        self._folder, self._dns = folder, dns
        self.port, self.management = free_port(), free_port()
        certificate, key = write_pair(self.own, "pebble", "127.0.0.1")
        self._config = {
            "pebble": {
                "listenAddress": f"127.0.0.1:{self.port}",
                "managementListenAddress": f"127.0.0.1:{self.management}",
                "certificate": str(certificate),
                "privateKey": str(key),
                "httpPort": http_port,
                "tlsPort": tls_port,
                "ocspResponderURL": "",
                "externalAccountBindingRequired": False,
                "retryAfter": {"authz": 1, "order": 1},
                "keyAlgorithm": "ecdsa",
            }
        }

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        file = self._folder / "pebble.json"
        file.write_text(json.dumps(self._config))
        log = (self._folder / "pebble.log").open("wb")
        process = await asyncio.create_subprocess_exec(
            "pebble", "-config", str(file), "-dnsserver", self._dns, "-strict",
            stdout=log, stderr=log,
            env={**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "30"},
        )  # fmt: skip
        try:
            await self._answers()
            yield
        finally:
            process.kill()
            await process.wait()
            log.close()

    async def _answers(self) -> None:
        for _ in range(TRIES):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            await asyncio.sleep(0.1)
        raise AssertionError(self.log())

    def log(self) -> str:
        return (self._folder / "pebble.log").read_text()[-3000:]

    async def root(self) -> str:
        """Returns the certificate that signs what it issues."""
        context = ssl.create_default_context(cafile=str(self.own.file))
        sender = HttpSender(("127.0.0.0/8",), trust=context)
        answer = await sender.send("GET", f"https://127.0.0.1:{self.management}/roots/0")
        await sender.close()
        return answer.body.decode()
