"""A start waits for its database and for room on its disk, and leaves no visitor alone meanwhile."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import apsw
import pytest

from tests import free_ports
from tests.gateway.gateway_town import processes_of
from tests.routing.test_restarting import ServerProcess, application
from tests.whole import page, place, until
from tests.world import ADMIN
from windlass.base.errors import DatabaseUnavailable, Unavailable
from windlass.operate import start_wait
from windlass.operate.listeners import is_windlass
from windlass.operate.start_wait import reason_to_wait


@pytest.mark.parametrize(
    ("error", "when_full", "reason"),
    [
        (DatabaseUnavailable("It does not answer"), False, "waits for its database. It does not answer"),
        (Unavailable("Another key"), False, ""),
        (Unavailable("Is the disk full?"), True, "disk of its data directory is full"),
        (OSError(errno.ENOSPC, "No space left on device"), False, "disk of its data directory is full"),
        (OSError(errno.EACCES, "Permission denied"), False, ""),
        (apsw.CantOpenError("unable to open database file"), True, "disk of its data directory is full"),
        (apsw.CantOpenError("unable to open database file"), False, ""),
        (ValueError("a bug"), True, ""),
    ],
)
def test_a_server_start_waits_only_for_errors_that_can_resolve_by_themselves(
    monkeypatch, error, when_full, reason
):
    monkeypatch.setattr(start_wait, "_is_full", lambda folder: when_full)
    found = reason_to_wait(error, Path("/"))
    assert reason in found
    assert bool(reason) == bool(found)


async def test_a_waiting_server_start_identifies_itself_as_windlass_on_its_port() -> None:
    """The advice for the port of another program would end it."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        async with start_wait._answer_while_waiting(listening, "it waits"):
            assert await asyncio.to_thread(is_windlass, "127.0.0.1", port)


@pytest.fixture
def database(postgres):
    with postgres.fresh_database() as url:
        yield url


@pytest.mark.slow
async def test_a_start_waits_for_its_database(tmp_path: Path, database: str) -> None:
    """A database of this machine is away while its socket is."""
    (tmp_path / "db").mkdir()
    (folder,) = parse_qs(urlsplit(database).query)["host"]
    away = database.replace(folder, str(tmp_path / "db"))
    port = free_ports.free_port()
    log = (tmp_path / "log").open("wb")
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "windlass", "serve", "--port", str(port), "--gateway-port", "0"),
        *("--data-dir", str(tmp_path / "data"), "--engine", "process"),
        env={"WINDLASS_DATABASE_URL": away, "WINDLASS_ADMIN_TOKEN": ADMIN, "PATH": os.environ["PATH"]},
        stderr=log,
    )
    try:

        async def waits() -> bool:
            return "waits for its database" in (await asyncio.to_thread(_answer, port, "/readyz"))[1]

        await until(waits)
        assert await asyncio.to_thread(_answer, port, "/readyz") == (503, _answer_text(port))
        assert (await asyncio.to_thread(_answer, port, "/organization"))[0] == 503
        assert (await asyncio.to_thread(_answer, port, "/healthz"))[0] == 200
        (tmp_path / "db/.s.PGSQL.5432").symlink_to(f"{folder}/.s.PGSQL.5432")

        async def serves() -> bool:
            return (await asyncio.to_thread(_answer, port, "/organization"))[0] == 200

        await until(serves)
    finally:
        server.terminate()
        await server.wait()
        log.close()


def _answer_text(port: int) -> str:
    return _answer(port, "/readyz")[1]


def _answer(port: int, path: str) -> tuple[int, str]:
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Token {ADMIN}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())["message"]
    except OSError:
        return 0, ""


@pytest.mark.slow
async def test_the_gateway_serves_requests_while_a_server_start_is_refused() -> None:
    """Server and gateway were killed, and the next start has another key."""
    async with place("process") as there, application(there) as (server, _, url):
        await server.end(signal.SIGKILL)
        for process in processes_of(Path(there.folder) / "gateway"):
            os.kill(process, signal.SIGKILL)
        refused = ServerProcess(there, WINDLASS_KEY="5e" * 32)
        with pytest.raises(AssertionError, match="key"):
            await refused.start()

        async def are_served() -> bool:
            try:
                return (await page(url)).text == "me"
            except OSError:
                return False

        await until(are_served)
        await server.start()
        await server.end(signal.SIGTERM)
