"""A server replaces a gateway that was started with something else, and no other."""

from __future__ import annotations

import asyncio
import resource
import sys
from asyncio.subprocess import DEVNULL

import pytest

from tests.gateway.gateway_town import GatewayTown
from tests.gateway.routers.town import request
from windlass.gateway.files import build

FEW = 600


def limit_of(process: int) -> int:
    return resource.prlimit(process, resource.RLIMIT_NOFILE)[1]


async def test_a_gateway_with_another_limit_of_open_files_is_replaced(town: GatewayTown):
    await town.shop(await town.instance("one"))
    kept = await town.caller()
    await kept.ask(request())
    wide = await town.process()
    command = (sys.executable, "-m", "windlass.gateway", town.folder)
    narrow = await asyncio.create_subprocess_exec(
        "prlimit", f"--nofile={FEW}:{FEW}", *command, stderr=DEVNULL
    )
    while await town.process() == wide:  # noqa: ASYNC110 (another program decides)
        await asyncio.sleep(0.01)
    assert limit_of(await town.process()) == FEW
    await town.new_server()
    assert limit_of(await town.process()) > FEW
    assert (await kept.ask(request())).body == b"one"
    assert await narrow.wait() == 0


async def test_a_gateway_with_the_same_limit_and_python_stays(town: GatewayTown):
    process = await town.process()
    await town.new_server()
    assert await town.process() == process


@pytest.mark.parametrize(("name", "other"), [("executable", "/usr/bin/other"), ("version", "9.9")])
def test_another_python_interpreter_or_version_changes_the_gateways_build_id(
    monkeypatch: pytest.MonkeyPatch, name: str, other: str
):
    before = build.__wrapped__()
    monkeypatch.setattr(sys, name, other)
    assert build.__wrapped__() != before
