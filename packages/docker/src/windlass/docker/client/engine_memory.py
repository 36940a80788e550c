"""The memory of a Docker engine of this machine while it reads the manifest of an image from a registry.

The engine reads manifests and configurations whole, however long they are, and a registry can compress blanks
to a thousandth. Before the kernel ends an engine that needs all memory, it ends the services of this machine.
A call that is given up here is not repeated, and what it brought is not unpacked, which takes many times the
memory. Some engines read to its end what they have begun to read: only a control group bounds that.
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

MOST_GROWTH: Final = 256 << 20
"""Bytes by which an engine may grow meanwhile. It needs far more for a configuration that it has read."""
PART: Final = 8
"""At most this fraction (one part in so many) of the machine's memory."""
TOO_MUCH: Final = "the engine needs too much memory for it"
PAUSED: Final = "the engine needed too much memory for others of the organization"
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds in which an organization pulls nothing after the second such pull, and at most."""
_GROUPS: Final = Path("/sys/fs/cgroup")
_PAUSE: Final = 0.05
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_NAME: Final = "dockerd\n"
_log = log("engines.docker")


@asynccontextmanager
async def limited_memory(docker: Docker) -> AsyncIterator[None]:
    """Ends the block with EngineRefused once the engine has grown too much. Calls that began at the same time
    end together. An engine that cannot be seen, such as one on another machine, has no limit."""
    process = await in_thread(_process_of, docker.host)
    before = _resident(process)
    if not process or not before:
        yield
        return
    most = before + min(MOST_GROWTH, available_memory()[1] // PART)
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
    """Refuses pulls of an organization for longer after each one for which the engine needed too much
    memory. One costs nothing: pulls that are in progress at the same time end together."""

    def __init__(self) -> None:
        self._pauses: dict[str, tuple[float, float]] = {}
        """Keyed by organization: how long the last pause was, and when it ended."""

    @contextmanager
    def of(self, org: str) -> Iterator[None]:
        now = time.monotonic()
        self._pauses = {each: pause for each, pause in self._pauses.items() if now < pause[1] + LONGEST_PAUSE}
        if now < self._pauses.get(org, (0.0, now))[1]:
            raise EngineRefused(429, PAUSED)
        try:
            yield
        except EngineRefused as refused:
            if refused.message == TOO_MUCH and org:
                self._extend(org)
            raise

    def _extend(self, org: str) -> None:
        last = self._pauses.get(org)
        pause = 0.0 if last is None else min(max(2 * last[0], FIRST_PAUSE), LONGEST_PAUSE)
        self._pauses[org] = (pause, time.monotonic() + pause)
        _log.warning(
            "the Docker engine needs too much memory for an image", extra={"org": org, "pause": pause}
        )


def is_limited(host: str, proc: Path = Path("/proc"), groups: Path = _GROUPS) -> bool | None:
    """Returns whether a control group bounds the memory of an engine; None if the engine cannot be seen."""
    try:
        lines = (proc / str(_process_of(host)) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    return limits_memory(group for line in lines for group in _groups(line, groups))


def is_preferred(host: str, proc: Path = Path("/proc")) -> bool:
    """Returns whether the kernel ends an engine later than other programs. Steps of BuildKit inherit that."""
    with suppress(OSError, ValueError):
        return int((proc / str(_process_of(host)) / "oom_score_adj").read_text()) < 0
    return False


def _groups(line: str, groups: Path) -> Iterator[str]:
    """Yields the group of a line, and those above it, where groups limit memory."""
    number, controllers, path = line.split(":", 2)
    if number == "0" or "memory" in controllers.split(","):
        root = groups if number == "0" else groups / "memory"
        own = root / path.lstrip("/")
        yield from map(str, (own, *own.parents[: len(own.relative_to(root).parts)]))


async def _end_above(most: int, process: int, limit: asyncio.Timeout) -> None:
    while _resident(process) <= most:  # noqa: ASYNC110 (another process grows)
        await asyncio.sleep(_PAUSE)
    limit.reschedule(0)


def _resident(process: int) -> int:
    """Returns the bytes of memory of a process; 0 if there is none."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    return 0


def _process_of(host: str) -> int:
    """Returns the process of the engine at a socket of this machine; 0 if it is unknown."""
    scheme, _, path = host.partition("://")
    if scheme != "unix":
        return 0
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        process, *_ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        # systemd listens for an engine that it starts.
        return int(process) if process != 1 else _only_engine()
    return 0


def _only_engine() -> int:
    found = [entry.parent.name for entry in Path("/proc").glob("[0-9]*/comm") if _name(entry) == _NAME]
    return int(found[0]) if len(found) == 1 else 0


def _name(entry: Path) -> str:
    with suppress(OSError):
        return entry.read_text()
    return ""
