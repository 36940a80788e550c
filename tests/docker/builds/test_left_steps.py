"""Waiting for steps that a killed engine left in the network of BuildKit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack

import pytest

from tests.needs import needs_root
from windlass.builders.builder import BuildError
from windlass.docker.builds import leftover_steps
from windlass.docker.builds.leftover_steps import LeftSteps
from windlass.docker.client import Docker


class Bridge:
    """The interfaces of left steps, and how often a build looked for them."""

    def __init__(self) -> None:
        self.left = self.looks = 0

    async def count(self, docker: Docker) -> int:
        self.looks += 1
        await asyncio.sleep(0)
        return self.left


@pytest.fixture
def bridge(monkeypatch):
    made = Bridge()
    monkeypatch.setattr(leftover_steps, "_count_interfaces", made.count)
    monkeypatch.setattr(leftover_steps, "_CHECK_INTERVAL", 0.001)
    monkeypatch.setattr(leftover_steps, "_INTERFACE_REMOVAL_SECONDS", 0.01)
    return made


@pytest.fixture
async def steps():
    docker = Docker("unix:///nowhere")
    yield LeftSteps(docker)
    await docker.close()


async def waited(steps: LeftSteps) -> None:
    async with steps.absent(lambda line: None):
        pass


async def test_builds_that_have_their_turns_after_each_other_wait_together(bridge, steps, monkeypatch):
    bridge.left = 1
    monkeypatch.setattr(leftover_steps, "_TIMEOUT", 0.1)
    with pytest.raises(BuildError, match="kill -9"):
        await waited(steps)
    monkeypatch.setattr(leftover_steps, "_TIMEOUT", 60)
    steps._seen = (steps._seen[0] - 60, steps._seen[1])
    before = bridge.looks
    with pytest.raises(BuildError):
        await waited(steps)
    assert bridge.looks == before + 1
    steps._seen = (steps._seen[0], steps._seen[1] - 60)  # the control: nobody has waited for long
    waiting = asyncio.create_task(waited(steps))
    while bridge.looks < before + 5:  # noqa: ASYNC110 (it looks)
        await asyncio.sleep(0.001)
    bridge.left = 0
    await waiting


async def test_steps_of_the_builds_that_have_the_turn_are_not_waited_for(bridge, steps):
    async with AsyncExitStack() as turn:
        await turn.enter_async_context(steps.absent(lambda line: None))
        bridge.left = 1
        assert not await steps.are_there()
        await waited(steps)
    assert await steps.are_there()


MEMBERS = (
    "ip link add wdlb type bridge && ip link add wdlv type veth peer name wdlw && "
    """ip link set wdlv master wdlb && exec "$0" -c 'from windlass.base.isolation.netlink import Netlink; """
    """print(Netlink().count_members("wdlb"))'"""
)


@needs_root
def test_members_of_a_bridge_are_those_in_the_network_of_the_process():
    """The files below /sys are still those of the network in which it was mounted."""
    command = ["unshare", "--net", "sh", "-c", MEMBERS, sys.executable]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "1\n"
