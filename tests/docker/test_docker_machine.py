"""The Docker engine tells what its machine is and has at each connection, and not only at the first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.watched import until
from windlass.docker import watch
from windlass.docker.engine import DockerEngine
from windlass.docker.inspection import milliseconds, outcome_of
from windlass.engines.engine import UNKNOWN_LIMITS

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Machine:
    """Answers as a Docker engine without containers does."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.info: dict[str, Any] | None = {"ID": "ONE", "NCPU": 2}
        """The answer to /info; None refuses it, as a proxy in front of the engine may."""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def begin(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.socket)

    async def end(self) -> None:
        if self._server is not None:
            self._server.close()
        self.socket.unlink(missing_ok=True)
        for connection in self._open:
            connection.transport.abort()

    async def _serve(self, into: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self._open.add(out)
        try:
            while head := await into.readuntil(b"\r\n\r\n"):
                self._answer(head.split()[1].decode(), out)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The client has gone, or the machine was ended.
        finally:
            self._open.discard(out)
            out.transport.abort()

    def _answer(self, path: str, out: asyncio.StreamWriter) -> None:
        if path.endswith("/info") and self.info is None:
            out.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        elif "/events" in path:
            out.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        else:
            answers = {"/version": {"ApiVersion": "1.41"}, "/info": self.info}
            body = json.dumps(answers.get(path.removeprefix("/v1.41"), [])).encode()
            out.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path / "docker.sock")
    yield machine
    await machine.end()


@pytest.fixture
async def engine(machine: Machine, tmp_path: Path, monkeypatch) -> AsyncIterator[DockerEngine]:
    monkeypatch.setattr(watch, "FIRST_PAUSE", 0.01)
    made = DockerEngine(host=f"unix://{machine.socket}", folder=tmp_path / "docker", installation="here")
    yield made
    await made.stop()


async def begin(engine: DockerEngine) -> None:
    await engine.start(lambda service: None, lambda service, lines: None)


async def test_resource_limits_are_read_when_the_engine_is_started(machine, engine):
    await machine.begin()
    await begin(engine)
    assert (engine.limits.cpu, engine.identity) == (2000, "docker:ONE")


async def test_limits_of_an_engine_that_was_away_at_the_start_are_learned_when_it_comes(machine, engine):
    await begin(engine)
    assert (engine.limits, engine.identity) == (UNKNOWN_LIMITS, "")
    await machine.begin()
    await until(lambda: engine.limits.cpu == 2000)


async def test_limits_are_learned_again_when_the_engine_comes_back_with_another_machine(machine, engine):
    await machine.begin()
    await begin(engine)
    await machine.end()
    machine.info = {"ID": "TWO", "NCPU": 8}
    await machine.begin()
    await until(lambda: engine.limits.cpu == 8000)
    assert engine.identity == "docker:TWO"


async def test_the_engines_id_is_remembered_while_it_is_unavailable(machine, engine, tmp_path):
    await machine.begin()
    await begin(engine)
    await machine.end()
    again = DockerEngine(host=f"unix://{machine.socket}", folder=tmp_path / "docker", installation="here")
    assert again.identity == "docker:ONE"


async def test_an_engine_without_machine_information_is_used_without_limits(machine, engine):
    machine.info = None
    await machine.begin()
    await begin(engine)
    assert (engine.limits.cpu, engine.identity) == (None, "docker")


def test_a_run_does_not_end_before_it_started():
    """A busy engine notes the start of a short run after its end."""
    state = {
        "Running": False,
        "Status": "exited",
        "ExitCode": 3,
        "OOMKilled": False,
        "Error": "",
        "StartedAt": "2026-01-31T09:05:00.200000000Z",
        "FinishedAt": "2026-01-31T09:05:00.100000000Z",
    }
    ended = outcome_of({"State": state, "HostConfig": {"Memory": 0}})
    assert ended.exit_code == 3
    assert ended.started_at == ended.ended_at == milliseconds("2026-01-31T09:05:00.100000000Z")
