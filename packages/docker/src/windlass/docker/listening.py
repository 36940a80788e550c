"""Finds the ports on which a container listens, from the socket tables of its network namespace."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.subprocesses import in_thread
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.containers import ContainerClient, Inspection
from windlass.docker.execute import execute
from windlass.docker.inspection import is_same_run
from windlass.engines.engine import EngineError, InstanceEnded
from windlass.engines.rollout.listeners import ListeningPort, listening_sockets, queued_at

_TCP_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_NAME_SERVER: Final = "127.0.0.11"
"""The address of the Docker engine's own DNS server in each container."""
_TIMEOUT: Final = 5.0
_ID_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


async def listeners(docker: Docker, container: str) -> list[ListeningPort]:
    """Returns the listening ports of a container; an empty list if its image has no `cat`."""
    _, tables = await execute(docker, container, ("cat", *_TCP_TABLES), _TIMEOUT)
    listening = {listener for listener, _ in listening_sockets(tables)}
    return sorted(listener for listener in listening if listener.address != _NAME_SERVER)


async def queued(docker: Docker, containers: ContainerClient, name: str, port: int) -> int | None:
    """Returns the number of connections to a container port that wait to be accepted.

    Returns None if the number is unavailable: for containers on another machine or of an image without `cat`,
    or if a proxy restricts the API. Raises InstanceEnded if the container ended meanwhile."""
    before, count = await containers.inspect(name), None
    with suppress(EngineError, EngineRefused):
        count = await _count_queued(docker, before, port) if before else None
    # The number is also unavailable if the container has just ended.
    if count is None and not is_same_run(before, await containers.inspect(name)):
        raise InstanceEnded("The instance does not run")
    return count


async def _count_queued(docker: Docker, detail: Inspection, port: int) -> int | None:
    pid, container = int(detail["State"]["Pid"]), str(detail["Id"])
    if not pid:
        return None
    tables = None if docker.is_elsewhere else await in_thread(_read_here, pid, container)
    if tables is None:
        _, tables = await execute(docker, container, ("cat", *_TCP_TABLES), _TIMEOUT)
    return queued_at(tables, port)


def _read_here(pid: int, container: str) -> str | None:
    """Returns the socket tables of a process's network namespace. Returns None if the process does not belong
    to the container: the engine may run in another process namespace."""
    process = Path(f"/proc/{pid}")
    with suppress(OSError):
        if _ID_PATTERN.fullmatch(container) and container in (process / "cgroup").read_text():
            return "".join((process / table).read_text() for table in ("net/tcp", "net/tcp6"))
    return None
