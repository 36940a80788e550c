"""What the edge of the API costs a request, in µs: who is calling, what is left, and which headers say so.

Inside one process, without a socket: a hundred thousand calls of the very functions that serve, less those of
functions that do nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from bench.machine import SERVER_CORE, run_module
from windlass.api.answers import HttpAnswer
from windlass.api.requests import PLAIN_DIALECT, Request
from windlass.config import Settings
from windlass.install.installation import Installation, install

Spent = dict[str, list[float]]


class Edging(Struct, frozen=True):
    folder: str
    calls: int
    rounds: int


def spent(given: Edging) -> Spent:
    """Of each part, round by round."""
    return msgspec.json.decode(run_module("bench.edge", msgspec.json.encode(given), SERVER_CORE), type=Spent)


async def measure(given: Edging) -> Spent:
    settings = Settings(data_dir=given.folder, rate_limit=1_000_000_000)
    installation = await install(settings)
    try:
        parts = await _parts(installation)
        rounds = [
            {name: await part(given.calls) for name, part in parts.items()} for _ in range(given.rounds)
        ]
    finally:
        await installation.stop()
    return {name: [one[name] for one in rounds] for name in parts}


async def _parts(installation: Installation) -> dict[str, Callable[[int], Awaitable[float]]]:
    app, authenticator, budgets = installation.app, installation.authenticator, installation.budgets
    header = f"Token {installation.first_token}".encode()
    request, answer = _request(header), HttpAnswer(200, b"{}", ((b"etag", b'"0123456789abcdef"'),))
    now = installation.ctx.clock.now()
    actor = await authenticator.admit(header)
    await budgets.take(actor.subject, actor.limit)

    async def check(calls: int) -> float:
        """As the server does it, the new look at the token once a second included."""
        callers = app._callers

        async def identify(request: Request) -> Any:
            return callers.at_hand(request) or await callers.identify(request)

        return await _each(calls, identify, request) - await _each(calls, _nothing, request)

    async def headers(calls: int) -> float:
        """More than an answer with content type and length alone would cost."""
        return await _each(calls, app._send, request, answer, _nothing) - await _each(
            calls, _bare_send, request, answer, _nothing
        )

    async def known(calls: int) -> float:
        return _of(calls, authenticator.recent_verdict, header, now) - _of(calls, _idle, header, now)

    async def quickly(calls: int) -> float:
        given = (actor.subject, actor.limit, now)
        return _of(calls, budgets.take_from_grant, *given) - _of(calls, _idle, *given)

    return {"check": check, "headers": headers, "known": known, "quickly": quickly}


def _request(header: bytes) -> Request:
    path = "/project/00000000-0000-4000-8000-000000000000"
    headers = [(b"host", b"127.0.0.1"), (b"authorization", header)]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
    return Request(b"0123456789abcdef00000001", scope, "GET", path, PLAIN_DIALECT, dict(headers))


async def _each(calls: int, deed: Callable[..., Awaitable[Any]], *given: Any) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        await deed(*given)
    return (time.perf_counter() - began) / calls * 1e6


def _of(calls: int, deed: Callable[..., Any], *given: Any) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        deed(*given)
    return (time.perf_counter() - began) / calls * 1e6


async def _nothing(*given: Any) -> None:
    return None


def _idle(*given: Any) -> None:
    return None


async def _bare_send(request: Request, answer: HttpAnswer, send: Callable[..., Awaitable[None]]) -> None:
    headers = [answer.content_type, (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Edging)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(measure(asked))))
