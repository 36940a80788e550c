"""A gateway goes on with its access log after a crash and a handover, without any server."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.gateway.routers.town import Instance, calling, request, route
from tests.metrics.prometheus import value
from tests.world import HandClock
from windlass.api.prometheus import text_of
from windlass.config import BadSetting, Settings
from windlass.gateway.doors import Doors
from windlass.gateway.journal import Journal
from windlass.gateway.messages import Open, SetRoutes
from windlass.gateway.router import GatewayRouter
from windlass.gateway.traffic import metrics_of
from windlass.install.connecting import gateway_access_log
from windlass.install.parts import real_parts


@asynccontextmanager
async def doors_of(journal: Path) -> AsyncIterator[Doors]:
    """Opens the doors that the journal names, as a gateway that begins."""
    kept = Journal(journal)
    kept.open()
    doors = Doors(kept, journal.parent)
    await doors.restore({})
    try:
        yield doors
    finally:
        await doors.stop()
        kept.close()


@pytest.fixture
async def one() -> AsyncIterator[Instance]:
    made = Instance("one")
    await made.start()
    yield made
    await made.stop()


async def ask(doors: Doors, target: str) -> None:
    async with calling(doors.port("local")) as caller:
        await caller.ask(request(target))


def paths(file: Path) -> list[str]:
    return [json.loads(line)["path"] for line in file.read_text().splitlines()]


async def test_a_restarted_gateway_appends_to_its_access_log(tmp_path: Path, one: Instance):
    file = tmp_path / "access.log"
    async with doors_of(tmp_path / "journal") as doors:
        await doors.change(Open("local", "127.0.0.1", 0, access_log=str(file)))
        await doors.change(SetRoutes("local", "shop", (route([one.endpoint]),)))
        await ask(doors, "/before")
    async with doors_of(tmp_path / "journal") as doors:
        await ask(doors, "/after")
    assert paths(file) == ["/before", "/after"]


async def test_a_server_started_without_the_access_log_setting_ends_the_gateways_access_log(
    tmp_path: Path, one: Instance
):
    file = tmp_path / "access.log"
    async with doors_of(tmp_path / "journal") as doors:
        await doors.change(Open("local", "127.0.0.1", 0, access_log=str(file)))
        await doors.change(SetRoutes("local", "shop", (route([one.endpoint]),)))
        await ask(doors, "/before")
        await doors.change(Open("local", "127.0.0.1", doors.port("local")))
        await ask(doors, "/after")
    assert paths(file) == ["/before"]


async def test_access_log_lines_that_a_gateway_cannot_write_are_counted_in_a_metric(
    tmp_path: Path, one: Instance
):
    async with doors_of(tmp_path / "journal") as doors:
        await doors.change(Open("local", "127.0.0.1", 0, access_log=str(tmp_path / "missing" / "log")))
        await doors.change(SetRoutes("local", "shop", (route([one.endpoint]),)))
        await ask(doors, "/")
        await doors.change(Open("local", "127.0.0.1", doors.port("local")))
        text = text_of("windlass", metrics_of((), doors.dropped_lines)).decode()
    assert value(text, "gateway_access_log_dropped_total") == 1


def test_the_gateway_gets_the_absolute_path_of_its_access_log(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gateway_access_log(Settings(gateway_access_log_file="log")) == str(tmp_path / "log")
    assert gateway_access_log(Settings()) == ""


async def test_an_installation_opens_its_gateway_with_the_access_log(tmp_path: Path):
    settings = Settings(
        data_dir=str(tmp_path), engine="process", gateway_access_log_file=str(tmp_path / "log")
    )
    router = (await real_parts(settings, HandClock(), "installation")).router
    assert isinstance(router, GatewayRouter)
    assert router._opening.access_log == str(tmp_path / "log")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_an_access_log_that_cannot_be_written_is_refused_with_the_setting(tmp_path: Path, kind: str):
    path = tmp_path / kind
    match kind:
        case "missing":
            path /= "log"
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
    with pytest.raises(BadSetting, match=r"^gateway_access_log_file: .* cannot be written: "):
        gateway_access_log(Settings(gateway_access_log_file=str(path)))
