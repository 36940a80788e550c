"""Databases started by their launchers, as an engine would start them, and asked by their own clients."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.free_ports import free_port
from windlass.builders.builder import BuildError
from windlass.engines.workload import Artifact
from windlass.process.databases import NativeDatabases

PATIENCE = 60
PASSWORD = 'it\'s a \\ "secret" ünd %s'


class Kind(NamedTuple):
    type: str
    password: str
    others: Mapping[str, str]
    make: str = ""
    put: str = ""
    get: str = ""


_FOLDER = tempfile.TemporaryDirectory(prefix="windlass-made-")
_MADE: dict[tuple[str, str], Path] = {}
KINDS = {
    "postgresql": Kind(
        "POSTGRESQL",
        "POSTGRES_PASSWORD",
        {"POSTGRES_USER": "me", "POSTGRES_DB": "shop"},
        "CREATE TABLE IF NOT EXISTS kept (word text)",
        "INSERT INTO kept VALUES ('{}')",
        "SELECT word FROM kept ORDER BY word",
    ),
    "mysql": Kind(
        "MYSQL",
        "MYSQL_PASSWORD",
        {"MYSQL_USER": "me", "MYSQL_DATABASE": "shop", "MYSQL_ROOT_PASSWORD": "another"},
        "CREATE TABLE IF NOT EXISTS kept (word text)",
        "INSERT INTO kept VALUES ('{}')",
        "SELECT word FROM kept ORDER BY word",
    ),
    "redis": Kind("REDIS", "REDIS_PASSWORD", {}, "", "SADD kept {}", "SORT kept ALPHA"),
}


class Database:
    """A place for a database, and the variables of its instance."""

    def __init__(self, name: str, folder: Path, version: str = "") -> None:
        self.kind = KINDS[name]
        self.name = name
        self.folder = folder
        # In two versions in the wheel; the older one is quicker to make its data folder.
        wanted = version or ("16" if name == "postgresql" else "latest")
        self._builder = NativeDatabases(folder / "artifacts")
        try:
            self.artifact: Artifact = asyncio.run(self._builder.artifact(self.kind.type, wanted, "db"))
        except BuildError as error:
            pytest.skip(str(error))
        self.port = free_port()
        self.password = PASSWORD
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def data(self) -> Path:
        return self.folder / "volume" / self.name

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def variables(self) -> dict[str, str]:
        own = {
            "PORT": str(self.port),
            "WINDLASS_VOLUME_DATA": str(self.folder / "volume"),
            "WINDLASS_MEMORY": "256",
            self.kind.password: self.password,
        }
        return {"PATH": os.defpath} | dict(self.artifact.environment) | dict(self.kind.others) | own

    def start(self, *before: str, **variables: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            started = subprocess.Popen(
                [*before, *self.artifact.command],
                env=self.variables | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._running.append(started)
        return started

    def started(self, *before: str, **variables: str) -> subprocess.Popen[bytes]:
        """One that is ready; or what it said instead."""
        process = self.start(*before, **variables)
        until = time.monotonic() + PATIENCE
        while self.ready(**variables) is not None:
            assert process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            time.sleep(0.03)
        return process

    def ready(self, **variables: str) -> str | None:
        """None if it is ready, and otherwise why not."""
        done = subprocess.run(
            self._builder.ready(self.kind.type),
            env=self.variables | variables,
            stderr=subprocess.PIPE,
            check=False,
        )
        assert done.returncode in (0, 1), done
        return None if done.returncode == 0 else done.stderr.decode()

    def ask(self, question: str) -> list[str]:
        done = subprocess.run(
            [*self._client(), question],
            env=self._login(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout.decode().split()

    def waiting(self) -> subprocess.Popen[bytes]:
        """A client that is connected and does not leave by itself."""
        client = subprocess.Popen(
            self._client(asking=False),
            env=self._login(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"PING\n" if self.name == "redis" else b"SELECT 1;\n")
        client.stdin.flush()
        assert client.stdout.read(1)
        return client

    def put(self, *words: str) -> None:
        for word in words:
            if self.kind.make:
                self.ask(self.kind.make)
            self.ask(self.kind.put.format(word))

    def get(self) -> list[str]:
        return self.ask(self.kind.get)

    def prepared(self) -> None:
        """With a data folder as a first start leaves it, for who is about something later: made only once."""
        made = _MADE.setdefault((self.name, self.artifact.key), Path(_FOLDER.name, f"{len(_MADE)}"))
        if not made.exists():
            self.stop(self.started())
            shutil.copytree(self.folder / "volume", made)
        else:
            shutil.copytree(made, self.folder / "volume")

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE)

    def end(self) -> None:
        """Ends all servers, also after a failed test."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait(PATIENCE)
        mark = os.fsencode(str(self.folder))
        for pid, words in command_lines():
            if mark in words:
                os.kill(pid, signal.SIGKILL)

    def _client(self, *, asking: bool = True) -> list[str]:
        place = ["-h", "127.0.0.1", "-p" if self.name != "mysql" else "-P", str(self.port)]
        if self.name == "postgresql":
            psql = Path(self.artifact.environment["WINDLASS_SERVER"]).with_name("psql")
            return [str(psql), "-X", "-A", "-t", *place, "-U", "me", "shop", *(["-c"] if asking else [])]
        if self.name == "mysql":
            return [
                "mariadb",
                "--no-defaults",
                "-n",
                "-N",
                "-B",
                *place,
                "-u",
                "me",
                "shop",
                *(["-e"] if asking else []),
            ]
        return (
            ["sh", "-c", f"exec redis-cli --no-auth-warning {' '.join(place)} $0"]
            if asking
            else ["redis-cli", *place]
        )

    def _login(self) -> dict[str, str]:
        names = {"postgresql": "PGPASSWORD", "mysql": "MYSQL_PWD", "redis": "REDISCLI_AUTH"}
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", names[self.name]: self.password}


@contextmanager
def database(name: str, version: str = "", *, new: bool = False) -> Iterator[Database]:
    """A place for one; not a `new` one has been started before."""
    with tempfile.TemporaryDirectory(prefix="windlass-db-") as folder:
        place = Database(name, Path(folder), version)
        try:
            if not new:
                place.prepared()
            yield place
        finally:
            place.end()


def command_lines() -> Iterator[tuple[int, bytes]]:
    """Yields the command lines that `ps` shows to every user."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes()
        except OSError:
            continue


def fallen(process: subprocess.Popen[bytes], *, alone: bool = True) -> None:
    """Ended without a word. If alone, its children go on, if they can."""
    if alone:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def absent(program: str) -> bool:
    return shutil.which(program) is None
