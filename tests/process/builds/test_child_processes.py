"""Programs that the server starts: their output arrives whole, and nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.process.builds.test_native_runs import until
from windlass.base.subprocesses import running

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
LARGE = 3_000_000


def shell(script: str):
    return running(["sh", "-c", script], cwd=Path("/"), env=ENVIRONMENT)


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def is_running(pid: int) -> bool:
    """True unless it has ended. Where no parent waits for it, it stays as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def test_the_output_of_a_program_is_not_buffered_before_it_is_read():
    async with shell(f"head -c {LARGE} /dev/zero") as process:
        await asyncio.sleep(0.2)
        assert process.returncode is None, "it waits for its reader"
        assert len(await process.stdout.read()) == LARGE
        assert await process.wait() == 0


async def test_the_exit_code_of_a_program_is_its_status_or_the_negative_signal():
    for script, code in (("exit 3", 3), ("kill -9 $$", -9)):
        async with shell(script) as process:
            assert await process.wait() == code


async def test_processes_left_by_a_program_are_killed_at_the_end_of_its_block():
    async with shell("sleep 60 & echo $!") as process:
        left = int(await process.stdout.readline())
        assert await process.wait() == 0
        assert is_running(left)
    await until(lambda: not is_running(left))  # it closes its output a moment before it has ended


async def test_reading_output_ends_with_the_program_even_if_a_detached_process_holds_the_pipe():
    async with shell("setsid sh -c 'echo $$; exec sleep 60' & wait") as process:
        left = int(await process.stdout.readline())
    try:
        assert is_running(left), "the control: something holds the output"
        assert await process.stdout.read() == b""
    finally:
        os.kill(left, signal.SIGKILL)


async def test_no_descriptor_stays_open_and_none_is_closed_twice():
    async def run() -> None:
        async with shell("echo a; sleep 60") as process:
            await process.stdout.read()

    async with shell("true") as process:
        await process.wait()
    before = descriptors()
    for number in range(30):
        task = asyncio.ensure_future(run())
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    with pytest.raises(FileNotFoundError):
        async with running(["no such program"], cwd=Path("/"), env=ENVIRONMENT):
            pass
    assert descriptors() == before
