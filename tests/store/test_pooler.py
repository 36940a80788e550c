"""pgbouncer before PostgreSQL: with a connection for each client it works, and otherwise it is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.free_ports import free_port
from tests.store.changes import adds
from tests.store.held import Way, way_to
from tests.store.stores import Place, names
from windlass.config import BadSetting
from windlass.store import Tx
from windlass.store.nudges import MAY_HAVE_MISSED

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed")


@contextlib.asynccontextmanager
async def pooled(place: Place, mode: str) -> AsyncIterator[Place]:
    """The same database behind pgbouncer, which never runs as root."""
    with tempfile.TemporaryDirectory(prefix="windlass-pooler-") as folder:
        Path(folder).chmod(0o755)
        async with way_to(place.url) as way, _pooled(way, mode, Path(folder)) as url:
            yield Place(url, place.folder)


@contextlib.asynccontextmanager
async def _pooled(way: Way, mode: str, folder: Path) -> AsyncIterator[str]:
    parts, port = urlsplit(way.url), free_port()
    (folder / "users.txt").write_text(f'"{parts.username}" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={way.port} user={parts.username}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"auth_file = {folder}/users.txt\npool_mode = {mode}\n"
    )
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    assert PROGRAM
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "-q", *user, str(folder / "pgbouncer.ini"), stderr=asyncio.subprocess.DEVNULL
    )
    url = f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}"
    try:
        await _answers(url)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def _answers(url: str) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                connection = await asyncpg.connect(url)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            await connection.close()
            return


async def test_a_pooler_with_a_connection_for_each_client_works(served: Place):
    async with pooled(served, "session") as place, place.opened() as store:
        heard: asyncio.Queue[str] = asyncio.Queue()
        store.listen(heard.put_nowait)
        while await heard.get() != MAY_HAVE_MISSED:
            """It listens from now on."""
        await store.write(adds("one"))
        async with served.opened() as other:
            await other.write(lambda tx: nudge(tx, "hello"))
        while await heard.get() != "hello":
            """Other words come before."""
        await asyncio.gather(*(names(store) for _ in range(20)))
        assert await names(store) == ["one"]
        assert await store.problem() == ""


async def nudge(tx: Tx, word: str) -> None:
    tx.nudge(word)
    await tx.facts.set(word, b"")


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_in_transaction_mode_is_refused_at_the_start(served: Place, mode):
    async with pooled(served, mode) as place:
        with pytest.raises(BadSetting, match="pool_mode = session"):
            async with place.opened():
                pass
