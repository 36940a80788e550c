"""Finds the ports on which a container listens, by the tables of its own network."""

from __future__ import annotations

from typing import Final

from windlass.docker import Docker
from windlass.engines.by_hand.listeners import ListeningPort, listening_sockets
from windlass.engines.docker.execute import execute

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_NAME_SERVER: Final = "127.0.0.11"
"""The address at which the Docker engine itself listens in each container."""
_PATIENCE: Final = 5.0


async def listeners(docker: Docker, container: str) -> list[ListeningPort]:
    """Returns none for an image without `cat`."""
    _, tables = await execute(docker, container, ("cat", *_TABLES), _PATIENCE)
    listening = {listener for listener, _ in listening_sockets(tables)}
    return sorted(listener for listener in listening if listener.address != _NAME_SERVER)
