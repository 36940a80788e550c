"""The access log of a service: a line for each of its requests, which the users of the service read.

The lines are a stream among the logs of the service (`base/segments`), so that they are searched, followed,
limited and removed like its output. Several processes may write to one stream. A thread writes the collected
lines a moment later, so that no request waits for the disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.segments import Segments
from windlass.base.subprocesses import in_thread
from windlass.routers.builtin.access_log import GatewayAccessLine, OwnLog, encode_line
from windlass.routers.rules import RouteLog

ACCESS_STREAM: Final = "access"
"""The name of the stream within the logs of a service."""
_WRITER: Final = "gateway"
_WRITE_INTERVAL: Final = 0.2
MAX_WAITING_LINES: Final = 20_000
"""Number of lines of all services that wait for the disk. Further ones are dropped."""
_MAX_OPEN_FILES: Final = 16
_QUOTES: Final = str.maketrans({'"': "\\x22", "\\": "\\x5c"})


class LoggedLine(Struct, frozen=True, gc=False):
    """A line, as `LogMessage` describes it."""

    at: int
    message: str
    pod: str = _WRITER
    version: str = ""
    stage: str = ""


class ServiceLogs:
    """The access logs of all services of a router."""

    def __init__(self) -> None:
        self.dropped = 0
        self._segments: dict[RouteLog, Segments] = {}
        self._waiting: list[tuple[RouteLog, str, LoggedLine]] = []
        self._writing: asyncio.Task[None] | None = None

    def of(self, log: RouteLog, service: str) -> OwnLog:
        return partial(self._queue_line, log, service)

    def _queue_line(self, log: RouteLog, service: str, line: GatewayAccessLine, referer: str) -> None:
        if len(self._waiting) >= MAX_WAITING_LINES:
            self.dropped += 1
            return
        text = encode_line(line).decode() if log.form == "json" else combined(line, referer)
        self._waiting.append((log, service, LoggedLine(time.time_ns() // 1_000_000, text)))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        self._write(self._take_lines())
        for segments in self._segments.values():
            segments.close()

    async def _write_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(_WRITE_INTERVAL)
            await asyncio.shield(in_thread(self._write, self._take_lines()))
        self._writing = None

    def _take_lines(self) -> Sequence[tuple[RouteLog, str, LoggedLine]]:
        lines, self._waiting = self._waiting, []
        return lines

    def _write(self, lines: Sequence[tuple[RouteLog, str, LoggedLine]]) -> None:
        streams: dict[tuple[RouteLog, str], list[LoggedLine]] = {}
        for log, service, line in lines:
            streams.setdefault((log, service), []).append(line)
        for (log, service), of_stream in streams.items():
            segments = self._segments.get(log)
            if segments is None:
                segments = Segments(Path(log.folder), log.bytes, voice=_WRITER, most_open=_MAX_OPEN_FILES)
                self._segments[log] = segments
            segments.append(f"{service}/{ACCESS_STREAM}", of_stream)


def combined(line: GatewayAccessLine, referer: str) -> str:
    """Returns a line in the *combined* form of Apache and nginx. The path and the referer have no query,
    which may contain a secret."""
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
    request = f"{line.method} {line.path} {line.protocol}" if line.method else "-"
    texts = [text.translate(_QUOTES) for text in (request, referer or "-", line.user_agent or "-")]
    return '{} - - [{}] "{}" {} {} "{}" "{}"'.format(
        line.address, stamp, texts[0], line.status or 499, line.bytes, *texts[1:]
    )
