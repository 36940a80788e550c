"""A newcomer's first minute: the demonstration on a whole Windlass that runs real processes."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

from tests.cli.conftest import say
from tests.schemathesis.serving import served
from tests.world import ADMIN, World
from windlass.base.clock import SystemClock
from windlass.builders.bundled import WithBundled
from windlass.builders.databases import NativeDatabases
from windlass.builders.git import Git
from windlass.builders.native import NativeBuilder
from windlass.config import Settings
from windlass.engines.probes import probe
from windlass.engines.process import ProcessEngine
from windlass.installation import install
from windlass.parts import Parts
from windlass.routers.builtin import BuiltinRouter


@contextlib.asynccontextmanager
async def real_windlass(folder: Path):
    settings = Settings(data_dir=str(folder), admin_token=ADMIN, engine="process", gateway_port=0)
    clock = SystemClock()
    git = Git(allow_local=False, outbound_allow=(), home=folder / "git")
    parts = Parts(
        engine=ProcessEngine(folder / "run", clock),
        builder=NativeBuilder(folder / "builds"),
        router=BuiltinRouter("127.0.0.1", 0),
        git=WithBundled(git, folder / "bundled"),
        servers=NativeDatabases(folder / "databases"),
        probe=probe,
    )
    installation = await install(settings, parts=parts)
    await installation.start()
    try:
        async with served(cast(World, SimpleNamespace(installation=installation))) as url:
            yield url
    finally:
        await installation.stop()


async def page(url: str) -> str:
    """As a browser asks for it, which knows that *.localhost is this machine."""
    place = urlsplit(url)
    asking = urllib.request.Request(f"http://127.0.0.1:{place.port}/", headers={"Host": place.netloc})
    opened: Any = await asyncio.to_thread(urllib.request.urlopen, asking)
    with opened:
        return str(opened.read().decode())


async def test_one_command_leads_to_a_page_that_counts_and_another_takes_it_all_away():
    with tempfile.TemporaryDirectory(prefix="windlass-") as name:
        folder = Path(name)
        async with real_windlass(folder) as url:
            said = await asyncio.to_thread(say, "demo", url=url)
            assert said.code == 0, said
            address = said.json["url"]
            assert 'class="count">1<' in await page(address)
            assert 'class="count">2<' in await page(address)
            again = await asyncio.to_thread(say, "demo", url=url)
            assert again.json["url"] == address
            assert (await asyncio.to_thread(say, "demo", "--remove", url=url)).code == 0
            await gone(folder)


async def gone(folder: Path) -> None:
    async with asyncio.timeout(60):
        while instances(folder):  # noqa: ASYNC110 (nobody tells of the end of another's process)
            await asyncio.sleep(0.1)


def instances(folder: Path) -> list[int]:
    """Processes that were started for this installation, and their data."""
    mark = f"WINDLASS_FILES={folder}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found
