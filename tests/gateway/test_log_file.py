"""The log of a gateway has a largest size, also while the gateway runs."""

from __future__ import annotations

import os
from pathlib import Path

from tests.gateway.gateway_town import GatewayTown, processes_of
from tests.gateway.routers.town import SHOP, Heard, request, until
from windlass.gateway.files import LOG
from windlass.gateway.starting import MAX_LOG_BYTES, LogFile


def outputs(process: int) -> list[str]:
    return [str(Path(f"/proc/{process}/fd/{output}").readlink()) for output in (1, 2)]


def fill(log: Path) -> None:
    """Makes the log longer than it may be, without writing that much."""
    os.truncate(log, MAX_LOG_BYTES + 1)


def is_short(log: Path) -> bool:
    try:
        return log.stat().st_size < MAX_LOG_BYTES
    except FileNotFoundError:  # it was set aside, and the next one is not there yet
        return False


async def test_a_long_log_is_set_aside_while_the_gateway_runs(town: GatewayTown):
    log, process = town.folder / LOG, await town.process()
    for _ in range(2):
        fill(log)
        await until(lambda: outputs(process) == [str(log)] * 2 and is_short(log))
    assert sorted(file.name for file in town.folder.glob(f"{LOG}*")) == [LOG, f"{LOG}.1"]
    await town.replace()
    assert "the gateway serves" in log.read_text()


async def test_a_replaced_gateway_follows_the_rotated_log_of_its_successor(town: GatewayTown):
    async def echo(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        await heard.reader.read()

    await town.shop(await town.instance("one", echo))
    caller = await town.caller()
    await caller.send(request("/", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade"))
    await caller.reader.readuntil(b"\r\n\r\n")
    await town.replace()
    predecessor, successor = sorted(processes_of(town.folder))
    log = town.folder / LOG
    fill(log)
    await until(lambda: log.exists() and outputs(predecessor) == outputs(successor) == [str(log)] * 2)


def test_an_output_that_is_not_the_log_file_is_not_redirected(tmp_path: Path):
    log = tmp_path / LOG
    log.write_bytes(b"")
    fill(log)
    before = os.fstat(2)
    LogFile(log).look()
    assert os.path.samestat(os.fstat(2), before)
    assert log.stat().st_size > MAX_LOG_BYTES
