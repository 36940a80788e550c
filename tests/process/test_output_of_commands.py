"""The output of health checks and of other short commands, however much a command writes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from windlass.process import execute

MIB = 1024 * 1024


@pytest.mark.parametrize("pieces", [3, 16])
def test_a_process_that_writes_without_end_does_not_keep_the_server_reading(
    monkeypatch: pytest.MonkeyPatch, pieces: int
):
    """A command may leave such a process behind. The control is the number of pieces."""
    reads: list[int] = []

    def read(descriptor: int, size: int) -> bytes:
        reads.append(descriptor)
        return b"x" * size

    monkeypatch.setattr(execute, "_MAX_LAST_PIECES", pieces)
    with opened() as output, monkeypatch.context() as patch:
        patch.setattr(os, "read", read)
        output.read_all()
    assert len(reads) == pieces


def test_all_that_is_in_a_pipe_is_read_at_the_end_of_a_command():
    with opened() as output:
        os.write(output.write_end, b"first")
        output._read_some()
        os.write(output.write_end, b", last")
        output.read_all()
        assert output.text == "first, last"


@pytest.mark.parametrize("is_slow", [True, False])
async def test_a_command_that_writes_without_pause_is_slowed_down(
    monkeypatch: pytest.MonkeyPatch, is_slow: bool
):
    """The control: at an unlimited rate, the same command writes megabytes."""
    rate = 1 if is_slow else 1024 * MIB
    monkeypatch.setattr(execute, "_MAX_OUTPUT_BYTES_PER_SECOND", rate)
    output = execute._CommandOutput()
    written = 0
    has_written = asyncio.Event()
    loop = asyncio.get_running_loop()

    def write() -> None:
        nonlocal written
        with suppress(OSError):  # the pipe is closed
            while written < 4 * MIB:
                written += os.write(descriptor, b"x" * 1024)
        loop.call_soon_threadsafe(has_written.set)

    descriptor = os.dup(output.write_end)
    writer = threading.Thread(target=write)
    try:
        output.listen()
        writer.start()
        if is_slow:
            await asyncio.sleep(0.5)
            assert written < MIB
        else:
            async with asyncio.timeout(60):
                await has_written.wait()
            assert written == 4 * MIB
    finally:
        output.close()
        await asyncio.to_thread(writer.join)
        os.close(descriptor)


@contextmanager
def opened() -> Iterator[execute._CommandOutput]:
    output = execute._CommandOutput()
    try:
        yield output
    finally:
        os.close(output._read_end)
        os.close(output.write_end)
