"""A package brings an engine: no file of the product changes, and nothing there names it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.fakes.router import FakeRouter
from tests.operate.test_commands import findings
from tests.world import ADMIN, HandClock, World
from windlass.base.clock import SystemClock
from windlass.config import BadSetting, Settings
from windlass.engines.workload import Phase
from windlass.install import engines
from windlass.install.installation import install
from windlass.install.parts import real_parts

PROVIDER = """
    from msgspec import Struct

    from tests.fakes.builder import FakeBuilder
    from tests.fakes.engine import FakeEngine
    from windlass.engines.findings import ok
    from windlass.engines.provider import OpenedEngine, Availability, StartReport
    from windlass.engines.servers import NoServers


    class ToySettings(Struct, frozen=True):
        public_domain: str


    class ToyProvider:
        name, takes, rank, is_of_server = "toy", "image", -1, True
        settings_type = ToySettings

        async def presence(self, settings):
            return Availability(True, "toys are everywhere")

        async def open(self, settings, server):
            engine = FakeEngine("image")
            engine.name = "toy"
            return OpenedEngine(engine=engine, builder=FakeBuilder("image"), servers=NoServers())

        def folders(self, data):
            return ()

        async def start_report(self, settings):
            return StartReport()

        async def diagnose(self, settings):
            yield ok("Toys", f"names end with {settings.public_domain}")

        async def diagnose_presence(self, settings, *, is_used):
            return None

        async def shared_resource(self, settings):
            return None

        async def server_host(self, settings):
            return ""

        def service_of(self, pid, data):
            return ""
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package with an engine, as a folder of the module path."""
    folder = tmp_path / "site"
    metadata = folder / "windlass_toy-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "windlass_toy.py").write_text(dedent(PROVIDER))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: windlass-toy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[windlass.engines]\ntoy = windlass_toy:ToyProvider\n")
    return folder


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(package))
    engines.providers.cache_clear()
    yield
    engines.providers.cache_clear()
    sys.modules.pop("windlass_toy", None)


def settings(folder: Path) -> Settings:
    return Settings(data_dir=str(folder), key="ab" * 32, admin_token=ADMIN, engine="toy", settle_seconds=0)


async def test_a_service_is_deployed_on_the_engine_of_a_package(installed, tmp_path):
    chosen = settings(tmp_path / "data")
    Path(chosen.data_dir).mkdir()
    parts = await real_parts(chosen, SystemClock(), "toys")
    installation = await install(chosen, parts=replace(parts, router=FakeRouter()))
    try:
        await parts.engine.start(installation.note_change, installation.ctx.logs.take)
        world = World(installation, HandClock(), cast(Any, parts.engine), tmp_path)
        world.org = (await world.get("/organization"))["id"]
        body = {"name": "web", "image_name": "nginx", "tag": "1"}
        path = f"/container/{await world.made(f'/environment/{await world.environment()}/container', body)}"
        assert (await world.post(f"{path}/deploy")).status == 202
        await world.settle()
        assert await world.state(path) == "RUNNING"
        assert [instance.phase for instance in await parts.engine.all()] == [Phase.RUNNING]
    finally:
        await installation.stop()


def test_doctor_shows_the_checks_of_an_engine_package(installed, tmp_path):
    told = findings("--data-dir", str(tmp_path / "data"), WINDLASS_ENGINE="toy")
    assert told["Engine"] == ("ok", "toy, as the settings say")
    assert told["Toys"] == ("ok", "names end with localhost")


def test_without_the_package_a_start_names_the_engines_that_there_are(tmp_path):
    with pytest.raises(BadSetting, match=f"choose {engines.names()}: there is no engine toy"):
        asyncio.run(engines.provider_in_use(settings(tmp_path)))
