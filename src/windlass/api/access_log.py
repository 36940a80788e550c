"""The access log: one JSON object a line for each request that was answered.

Lines are collected and written by a thread a moment later, so that no request waits for a disk. Lines that
cannot be written in time are dropped, and the log of the server says how many.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.api.requests import Request
from windlass.base.log import log
from windlass.base.subprocesses import in_thread
from windlass.base.trace import start_untraced
from windlass.config import BadSetting, Settings

WRITTEN_EVERY: Final = 0.2
"""Seconds in which lines are collected."""
MOST_WAITING: Final = 20_000
"""Lines that wait while a disk or a pipe takes none."""
LONGEST_PATH: Final = 512
# Clients put anything into a path and a user agent, also their token.
_SECRETS: Final = re.compile(r"wdl_\w+|eyJ[\w-]+(\.[\w-]*)*")
_COMMANDS: Final = re.compile(r"[\x7f-\x9f\u2028\u2029]")
"""Commands of a terminal and ends of lines that JSON does not escape."""
_log = log("access")
_encode = msgspec.json.Encoder().encode


class AccessLine(Struct, frozen=True, gc=False):
    time: str
    message: str
    """The method, the path and the status, for people."""
    method: str
    path: str
    """Without the query: it may contain a secret."""
    operation: str
    status: int
    ms: float
    bytes: int
    """Of the body; 0 for a stream, which has only begun."""
    actor: str | None
    """The id of the token or of the person, if it was known."""
    organization: str | None
    address: str
    """The address of the client, as told by a trusted proxy if there is one."""
    user_agent: str
    request_id: str
    trace_id: str
    level: str = "info"
    logger: str = "windlass.access"


class AccessLog:
    def __init__(self, file: str = "") -> None:
        """Writes to a file, or to standard error. A file that is moved away is begun again."""
        self._path = Path(file) if file else None
        self._descriptor = self._open()
        self._second: tuple[int, str] = (0, "")
        """The last second, as text: it is formatted once."""
        self._lines: list[bytes] = []
        self._dropped = 0
        self._turn = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None

    def note(self, request: Request, status: int, size: int, seconds: float) -> None:
        if len(self._lines) >= MOST_WAITING:
            self._dropped += 1
            return
        method, path, actor = _clean(request.method), _clean(request.path), request.actor
        self._lines.append(
            _encode(
                AccessLine(
                    time=self._stamp(time.time()),
                    message=f"{method} {path} {status}",
                    method=method,
                    path=path,
                    operation=request.operation,
                    status=status,
                    ms=round(seconds * 1000, 2),
                    bytes=size,
                    actor=actor.id if actor else None,
                    organization=_organization(request),
                    address=request.client,
                    user_agent=_clean(request.user_agent),
                    request_id=request.id.decode(),
                    trace_id=request.trace.id,
                )
            )
        )
        if self._writing is None:
            self._writing = start_untraced(self._write_all())

    async def close(self) -> None:
        """Writes what is left."""
        if self._writing:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self.write()
        if self._path:
            os.close(self._descriptor)

    async def _write_all(self) -> None:
        """Writes until there is nothing left for a moment."""
        while self._lines:
            await asyncio.sleep(WRITTEN_EVERY)
            await asyncio.shield(self.write())
        self._writing = None

    async def write(self) -> None:
        """Writes the lines that wait; earlier ones are written when this returns."""
        async with self._turn:
            await self._write()

    async def _write(self) -> None:
        lines, self._lines = self._lines, []
        dropped, self._dropped = self._dropped, 0
        try:
            await in_thread(self._put, b"".join(line + b"\n" for line in lines))
        except OSError as error:
            dropped += len(lines)
            _log.error("the access log cannot be written", extra={"error": error.strerror})
        if dropped:
            _log.warning("lines of the access log were dropped", extra={"lines": dropped})

    def _put(self, data: bytes) -> None:
        if self._path and not self._is_in_place(self._path):
            # Opened first: if that fails, the number of a closed file could soon be that of another one.
            opened = self._open()
            os.close(self._descriptor)
            self._descriptor = opened
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _stamp(self, now: float) -> str:
        second = int(now)
        if self._second[0] != second:
            self._second = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second[1]}.{int(now % 1 * 1000):03d}Z"

    def _is_in_place(self, path: Path) -> bool:
        try:
            return os.path.samestat(path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def _open(self) -> int:
        if self._path is None:
            return sys.stderr.fileno()
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def access_log_of(settings: Settings) -> AccessLog | None:
    """Returns the access log that the settings ask for, if they do."""
    if not settings.access_log:
        return None
    try:
        return AccessLog(settings.access_log_file)
    except OSError as error:
        raise BadSetting(
            f"access_log_file: {settings.access_log_file} cannot be written: {error.strerror}"
        ) from error


def _clean(text: str) -> str:
    if "wdl_" in text or "eyJ" in text:
        text = _SECRETS.sub("***", text)
    if not text.isprintable():
        text = _COMMANDS.sub("\ufffd", text)
    return text[:LONGEST_PATH]


def _organization(request: Request) -> str | None:
    """Returns the organization of the caller; of several the one that the path names."""
    if request.actor is None:
        return None
    organizations = request.actor.organizations
    if len(organizations) == 1:
        return organizations[0]
    return next((piece for piece in request.path.split("/") if piece in organizations), None)
