"""Limits the memory that a local Docker engine uses while it reads an image's manifest from a registry.

The engine reads manifests and configurations as a whole, however long they are, and a registry can send
blanks compressed to a thousandth of their size. If the engine exhausted the memory, the kernel would kill the
machine's services before the engine. A cancelled call is not repeated, and its data is not unpacked, which
would take many times the memory. Some engines continue to read after a cancelled call: only a control group
limits those.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base.cgroups import limits_memory
from windlass.base.log import log
from windlass.base.process_memory import available_memory
from windlass.base.subprocesses import in_thread
from windlass.docker.client.answers import EngineRefused
from windlass.docker.client.client import Docker

MAX_GROWTH_BYTES: Final = 256 << 20
"""Maximum growth of the engine's memory during a call, in bytes. Unpacking a configuration would need far
more."""
MEMORY_DIVISOR: Final = 8
"""Divisor of the machine's total memory: the growth is limited to one part in `MEMORY_DIVISOR`."""
TOO_MUCH: Final = "the engine needs too much memory for it"
PAUSED_REASON: Final = "the engine needed too much memory for others of the organization"
FIRST_PAUSE, MAX_PAUSE = 60.0, 3600.0
"""Pause in seconds before an organization may pull again: the first pause (after the second such pull), and
the maximum."""
_CGROUP_FOLDER: Final = Path("/sys/fs/cgroup")
_CHECK_INTERVAL: Final = 0.05
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_ENGINE_COMMAND: Final = "dockerd\n"
_log = log("engines.docker")


@asynccontextmanager
async def limited_memory(docker: Docker) -> AsyncIterator[None]:
    """Raises EngineRefused in the block if the engine's memory grows too much. Concurrent calls are cancelled
    together. An engine whose process is not visible, for example on another machine, is not limited."""
    process = await in_thread(_process_of, docker.host)
    before = _resident_bytes(process)
    if not process or not before:
        yield
        return
    most = before + min(MAX_GROWTH_BYTES, available_memory()[1] // MEMORY_DIVISOR)
    try:
        async with asyncio.timeout(None) as limit:
            watching = asyncio.create_task(_end_above(most, process, limit))
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise EngineRefused(413, TOO_MUCH) from error


class PullBackoff:
    """Exponential back-off for an organization's pulls after pulls that needed too much memory. The first
    such pull has no consequence, because concurrent innocent pulls are cancelled together with the
    culprit."""

    def __init__(self) -> None:
        self._pauses: dict[str, tuple[float, float]] = {}
        """Length and end of the last pause, by organization."""

    @contextmanager
    def of(self, org: str) -> Iterator[None]:
        now = time.monotonic()
        self._pauses = {each: pause for each, pause in self._pauses.items() if now < pause[1] + MAX_PAUSE}
        if now < self._pauses.get(org, (0.0, now))[1]:
            raise EngineRefused(429, PAUSED_REASON)
        try:
            yield
        except EngineRefused as refused:
            if refused.message == TOO_MUCH and org:
                self._extend_pause(org)
            raise

    def _extend_pause(self, org: str) -> None:
        last = self._pauses.get(org)
        pause = 0.0 if last is None else min(max(2 * last[0], FIRST_PAUSE), MAX_PAUSE)
        self._pauses[org] = (pause, time.monotonic() + pause)
        _log.warning(
            "the Docker engine needs too much memory for an image", extra={"org": org, "pause": pause}
        )


def is_limited(host: str, proc: Path = Path("/proc"), groups: Path = _CGROUP_FOLDER) -> bool | None:
    """Returns whether a control group limits the engine's memory; None if the engine's process is not
    visible."""
    try:
        lines = (proc / str(_process_of(host)) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    return limits_memory(group for line in lines for group in _memory_cgroups(line, groups))


def is_preferred(host: str, proc: Path = Path("/proc")) -> bool:
    """Returns whether the engine has a negative OOM score adjustment, so that the kernel kills other programs
    first. BuildKit's steps inherit it."""
    with suppress(OSError, ValueError):
        return int((proc / str(_process_of(host)) / "oom_score_adj").read_text()) < 0
    return False


def _memory_cgroups(line: str, groups: Path) -> Iterator[str]:
    """Yields the control group in a line of /proc/PID/cgroup and all its parents, if the hierarchy controls
    memory."""
    number, controllers, path = line.split(":", 2)
    if number == "0" or "memory" in controllers.split(","):
        root = groups if number == "0" else groups / "memory"
        own = root / path.lstrip("/")
        yield from map(str, (own, *own.parents[: len(own.relative_to(root).parts)]))


async def _end_above(most: int, process: int, limit: asyncio.Timeout) -> None:
    while _resident_bytes(process) <= most:  # noqa: ASYNC110 (another process grows)
        await asyncio.sleep(_CHECK_INTERVAL)
    limit.reschedule(0)


def _resident_bytes(process: int) -> int:
    """Returns the resident memory of a process in bytes; 0 if the process does not exist."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def _process_of(host: str) -> int:
    """Returns the process id of the engine at a local socket; 0 if unknown."""
    scheme, _, path = host.partition("://")
    if scheme != "unix":
        return 0
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        process, *_ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        # With socket activation, the peer is systemd (process 1) instead of the engine.
        return int(process) if process != 1 else _only_engine()
    return 0


def _only_engine() -> int:
    found = [
        entry.parent.name
        for entry in Path("/proc").glob("[0-9]*/comm")
        if _process_name(entry) == _ENGINE_COMMAND
    ]
    return int(found[0]) if len(found) == 1 else 0


def _process_name(entry: Path) -> str:
    with suppress(OSError):
        return entry.read_text()
    return ""
