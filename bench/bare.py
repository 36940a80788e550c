"""The least that an HTTP server in Python can be: the same uvicorn, an application of two sends.

`--body FILE` answers everything with these bytes; `--database-url URL` with the row whose id ends the path.
`--unmodified` leaves out the one class that Windlass puts over uvicorn's own protocol.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def fixed(body: bytes) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _answer(send, body)

    return app


def looked_up(pool: Any) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        id = scope["path"].rpartition("/")[2]
        row = await pool.fetchrow("SELECT body FROM resource WHERE id = $1", id)
        await _answer(send, row[0] if row else b"{}")

    return app


async def _answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _protocol() -> Any:
    """Imports most of Windlass: a bare server whose start and memory are measured goes without."""
    from windlass.serve.connection import Connection

    return Connection


async def _pool(url: str) -> Any:
    import asyncpg

    return await asyncpg.create_pool(url, min_size=1, max_size=8, reset=_no_reset)


async def _no_reset(connection: object) -> None:
    """As Windlass' own pool: a reset would cost the limit a second round trip for each read."""


async def serve(given: argparse.Namespace) -> None:
    if given.database_url:
        app = looked_up(await _pool(given.database_url))
    else:
        app = fixed(Path(given.body).read_bytes())
    config = uvicorn.Config(
        app,
        port=given.port,
        http=HttpToolsProtocol if given.unmodified else _protocol(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=65,
        backlog=2048,
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--body")
    parser.add_argument("--database-url")
    parser.add_argument("--unmodified", action="store_true")
    uvloop.run(serve(parser.parse_args()))
