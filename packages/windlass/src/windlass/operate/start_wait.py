"""Delays a start during temporary problems, such as an unreachable database or a full disk.

During the wait, the API responds to all requests except `/healthz` with 503 and the reason. The gateway
continues to serve.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
import uvicorn

from windlass.base.commit import commit
from windlass.base.errors import DatabaseUnavailable, Unavailable
from windlass.base.log import log
from windlass.base.version import VERSION
from windlass.config import Settings
from windlass.install.installation import Installation
from windlass.routers.router import RouteError
from windlass.serve.connection import Connection
from windlass.serve.port_state import PortState
from windlass.serve.server import ApiServer

_log = log("main")
_RETRY_PAUSE: Final = 1.0
"""Seconds between two attempts to start."""
_MIN_FREE_BYTES: Final = 256 * 1024
"""Free bytes below which a disk counts as full. Opening a database needs some space."""
_DISK_FULL_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT}


async def begin_when_possible(
    begin: Callable[[], Awaitable[Installation]],
    settings: Settings,
    listening_socket: socket.socket,
    report_line: Callable[[str], None],
) -> Installation:
    """Starts the installation, and retries while a temporary problem exists. Other errors end the start.

    `report_line` is called with the reason of the wait.
    """
    async with AsyncExitStack() as answering:
        waits_for = ""
        while True:
            try:
                return await begin()
            except Exception as error:  # `reason_to_wait` selects the errors to wait for
                reason = reason_to_wait(error, Path(settings.data_dir))
                if not reason:
                    raise
                _log.debug("the start waits", extra={"error": repr(error)})
            if reason != waits_for:
                _log.warning("the start waits, and is tried again each second", extra={"reason": reason})
                await answering.aclose()
                await answering.enter_async_context(_answer_while_waiting(listening_socket, reason))
                waits_for = reason
                report_line(reason)
            await asyncio.sleep(_RETRY_PAUSE)


def reason_to_wait(error: Exception, folder: Path) -> str:
    """Returns the reason why a start has to wait, as text for API clients; empty if waiting would not
    help."""
    match error:
        case DatabaseUnavailable():
            return f"Windlass is starting, and waits for its database. {error}"
        case OSError() if error.errno in _DISK_FULL_ERRORS:
            return _FULL_DISK
        case OSError() | apsw.Error() | Unavailable() | RouteError() if _is_full(folder):
            return _FULL_DISK
        case _:
            return ""


_FULL_DISK: Final = "Windlass is starting, and waits for disk space: the disk of its data directory is full"


def _is_full(folder: Path) -> bool:
    with suppress(OSError):
        disk = os.statvfs(folder)
        has_files = disk.f_favail > 0 or disk.f_files == 0  # some file systems have no limit for files
        return disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES or not has_files
    return False


@asynccontextmanager
async def _answer_while_waiting(listening_socket: socket.socket, reason: str) -> AsyncIterator[None]:
    """Responds to all API requests with the reason why the start waits."""
    config = uvicorn.Config(
        partial(_answer, reason),
        interface="asgi3",
        http=partial(Connection, port=PortState()),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = ApiServer(config, lambda: None)
    serving = asyncio.create_task(server.serve(sockets=[listening_socket.dup()]))
    try:
        yield
    finally:
        server.end()
        await serving


async def _answer(reason: str, scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    status = 200
    body: dict[str, str | int] = {"status": "ok", "version": VERSION, "commit": commit()}
    if scope["path"] != "/healthz":
        status = 503
        body = {"status": 503, "error": "Service Unavailable", "message": reason, "detail": reason}
        headers.append((b"retry-after", b"2"))
    content = msgspec.json.encode(body)
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
