"""The machine of a Docker engine: its resource limits and its identity."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.atomic_files import write_whole
from windlass.base.subprocesses import in_thread
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.transports import LOOPBACK
from windlass.docker.create import SERVER_HOST, limits_of
from windlass.docker.descriptions import MachineSummary
from windlass.engines.engine import EngineLimits

_TIMEOUT: Final = 5.0
_MAX_ID_LENGTH: Final = 128
_MACHINE_KIND: Final = "docker"


class DockerMachine:
    def __init__(self, docker: Docker, file: Path) -> None:
        """`file`: stores the identity for a start during which the engine is unavailable."""
        self._docker, self._file = docker, file

    def remembered(self) -> str:
        """Returns the stored identity of the last reachable engine; empty if there is none."""
        with suppress(FileNotFoundError):
            return self._file.read_text()
        return ""

    async def learn(self) -> tuple[EngineLimits, str]:
        """Returns limits and identity of the machine. If a proxy refuses the request, returns the limits
        common to all engines."""
        machine = MachineSummary()
        with suppress(EngineRefused):
            machine = await self._docker.read_list("/info", MachineSummary, timeout=_TIMEOUT)
        identity = f"{_MACHINE_KIND}:{machine.ID[:_MAX_ID_LENGTH]}" if machine.ID else _MACHINE_KIND
        if identity != self.remembered():
            await in_thread(self._store_identity, identity)
        return limits_of(machine), identity

    def _store_identity(self, identity: str) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._file, identity.encode())


def server_host_of(docker: Docker) -> str:
    """Returns the host name of this server's machine inside containers; empty if the engine is on another
    machine. An engine of this machine publishes ports on loopback."""
    try:
        is_here = not docker.is_elsewhere and docker.address == LOOPBACK
    except EngineRefused:
        return ""
    return SERVER_HOST if is_here else ""
