"""A Docker engine of another organization behind TLS: it runs nothing, and answers what a test says."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.certificates import Authority, authority, write_pair
from tests.engines.test_hostile_engine import HERE
from windlass.docker import names

VERSION = {"ApiVersion": "1.44", "MinAPIVersion": "1.24"}
ID = "a" * 64

Say = Callable[[web.Request], Awaitable[web.StreamResponse]]


def says(found: Any, status: int = 200) -> Say:
    async def say(request: web.Request) -> web.StreamResponse:
        return web.json_response(found, status=status, headers={"Api-Version": "1.44"})

    return say


def streams(*found: Any, then: Callable[[], Awaitable[Any]] | None = None) -> Say:
    """Sends objects, one a line, and then stays open. Events bear the name that an instance has."""

    async def say(request: web.Request) -> web.StreamResponse:
        for one in found:
            if "Actor" in one:
                _name(one["Actor"]["Attributes"], request)
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"".join(json.dumps(one).encode() + b"\n" for one in found))
        await (then or asyncio.Event().wait)()
        return answer

    return say


def _name(labels: dict[str, str], request: web.Request) -> None:
    asked = json.loads(request.query["filters"])["label"]
    (installation,) = (each.split("=")[1] for each in asked if each.startswith(names.INSTALLATION_LABEL))
    labels["name"] = names.container(installation, *names.identity(labels))


async def hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("it waits for ever")


def event(container: str, action: str, service: str, **more: str) -> dict[str, Any]:
    labels = {
        "windlass.service": service, "windlass.generation": "1", "windlass.index": "0",
        "windlass.pod": "pod",
    } | ({"exitCode": "1"} if action == "die" else {}) | more  # fmt: skip
    return {"Action": action, "timeNano": 1, "Actor": {"ID": container, "Attributes": labels}}


class HostileEngine:
    """Answers by the longest end of the path that a test names; anything else is 404."""

    def __init__(self, issuer: Authority) -> None:
        self.authority, self.port = issuer, 0
        self.asked: list[str] = []
        self.sent: list[bytes] = []
        """Whole requests: their heads and bodies."""
        self.answers: dict[str, Say] = {
            "/_ping": says("OK"),
            "/version": says(VERSION),
            "/info": says({"ID": "OURS"}),
            "/events": streams(),
            "/containers/json": says([]),
            "/networks": says([]),
            "/volumes": says({"Volumes": []}),
            "/images/json": says([]),
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/events") and '"network"' in request.query.get("filters", ""):
            return await hangs(request)  # nothing happens to its networks
        self.asked.append(f"{request.method} {request.path}")
        body = await request.read()
        head = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
        self.sent.append(f"{request.path_qs}\n{head}\n".encode() + body)
        ends = [end for end in self.answers if request.path.endswith(end)]
        missing = says({"message": "no such thing"}, 404)
        return await (self.answers[max(ends, key=len)] if ends else missing)(request)

    def fields(self) -> dict[str, Any]:
        """The fields of a cluster whose engine this is."""
        certificate, key = write_pair(self.authority, "windlass")
        return {
            "engine": "DOCKER",
            "engine_address": f"tcp://{HERE}:{self.port}",
            "engine_ca_certificate": self.authority.file.read_text(),
            "engine_certificate": certificate.read_text(),
            "engine_key": key.read_text(),
        }


@asynccontextmanager
async def hostile_engine(folder: Path) -> AsyncIterator[HostileEngine]:
    made = HostileEngine(authority(folder))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_pair(made.authority, "engine", HERE))
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, HERE, 0, ssl_context=context)
    await site.start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()
