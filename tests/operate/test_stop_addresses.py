"""`windlass stop --all` asks the server of this machine, wherever its settings put it, and no other."""

from __future__ import annotations

import pytest

from tests.commands.line import Line
from tests.operate.test_stop_all import deployed, meanwhile
from tests.schemathesis.serving import served
from tests.world import make_world
from windlass.cli.client import Api
from windlass.operate import stopping
from windlass.terminal.command_errors import CommandFailed


@pytest.fixture
async def windlass():
    async with make_world() as world, served(world) as url:
        yield Line(world, url)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_stop_all_calls_the_server_at_the_address_of_its_settings(windlass, monkeypatch, host):
    """With `port` set to another one, whatever listens at the usual address is not asked. The control is the
    end: the same call without the setting asks there."""
    first, second, _ = await deployed(windlass.world)
    port = windlass.url.rpartition(":")[2]
    monkeypatch.setenv("WINDLASS_HOST", host)
    monkeypatch.setenv("WINDLASS_PORT", port)
    said = await meanwhile(windlass, "stop", "--all", url="")
    assert (said.code, said.out[:22]) == (0, "2 services are stopped"), said
    for app in (first, second):
        assert await windlass.world.state(f"/application/{app}") == "STOPPED"
    monkeypatch.delenv("WINDLASS_PORT")
    asked: list[str] = []

    def answers(api: Api) -> bool:
        asked.append(api.url)
        raise CommandFailed("This is enough to know")

    monkeypatch.setattr(stopping, "answers", answers)
    assert (await windlass("stop", "--all", url="")).code == 1
    assert asked == ["http://127.0.0.1:8080"]
