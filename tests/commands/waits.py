"""Commands of tests that wait for what they have started."""

from __future__ import annotations

import asyncio
import threading

import pytest

from windlass.cli.waiting import DeploymentWait


async def meanwhile(windlass, *words, **options):
    """The command, while time passes for the server that it waits for."""
    saying = asyncio.create_task(windlass(*words, **options))
    while not saying.done():
        await windlass.world.run(1)
        await asyncio.sleep(0.01)
    return saying.result()


async def held(windlass, *words):
    """The command, with a build that takes half a second."""
    gate = windlass.world.builder.gate = asyncio.Event()
    saying = asyncio.create_task(meanwhile(windlass, *words))
    await asyncio.sleep(0.5)
    gate.set()
    return await saying


async def watch(windlass, *words):
    """The command, with a build that waits until the command has shown its state and its log."""
    is_said, is_shown = threading.Event(), threading.Event()
    print_state, show_line = DeploymentWait._print_state, DeploymentWait._print_line

    def _say(wait, state):
        print_state(wait, state)
        if state == "BUILDING":
            is_said.set()

    def _show(wait, line):
        show_line(wait, line)
        is_shown.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeploymentWait, "_print_state", _say)
        patch.setattr(DeploymentWait, "_print_line", _show)
        gate = windlass.world.builder.gate = asyncio.Event()
        saying = asyncio.create_task(meanwhile(windlass, *words))
        while not saying.done() and not (is_said.is_set() and is_shown.is_set()):  # noqa: ASYNC110 (threads set them)
            await asyncio.sleep(0.01)
        gate.set()
        return await saying


def states(said, name: str = "web") -> list[str]:
    return [line.removeprefix(f"{name}: ") for line in said.err.splitlines() if line.startswith(f"{name}: ")]
