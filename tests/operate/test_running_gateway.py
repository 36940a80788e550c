"""What commands of an operator see of the gateway of a data directory."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.gateway.gateway_town import make_gateway_town
from windlass.config import Settings
from windlass.operate import listeners, stopping
from windlass.operate.listeners import has_server, silent_gateway
from windlass.terminal.command_errors import CommandRefused


async def test_doctor_names_a_gateway_that_hangs_and_stop_all_leaves_the_gateway_of_a_running_server(
    tmp_path, monkeypatch
):
    async with make_gateway_town(tmp_path) as town:
        settings = Settings(data_dir=str(town.folder.parent))
        await town.shop(await town.instance("one"))
        process = await town.process()
        assert await asyncio.to_thread(silent_gateway, settings) == 0
        with pytest.raises(CommandRefused, match=r"^leave out --data-dir and name the server"):
            await stopping.here(settings, lambda count: None)
        await town.router.stop()
        assert not await asyncio.to_thread(has_server, settings)
        monkeypatch.setattr(listeners, "_GATEWAY_TIMEOUT", 0.2)
        os.kill(process, signal.SIGSTOP)
        assert await asyncio.to_thread(silent_gateway, settings) == process
