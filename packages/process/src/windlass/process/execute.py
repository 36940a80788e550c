"""Runs a command in the cell (sandbox) of an instance, with the instance's variables, and waits for the
result."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from contextlib import suppress
from typing import Final

from windlass.base import kernel
from windlass.base.isolation import launcher_client
from windlass.base.isolation.launcher_client import StartedProgram
from windlass.base.kernel import Process
from windlass.process.kill import wait_for_ends
from windlass.process.spawn import Spawner, SpawnRequest

_MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""Maximum bytes of output that are kept. Further output is discarded."""
_PIECE_BYTES: Final = 64 * 1024
_MAX_LAST_PIECES: Final = 16
"""Maximum number of pieces that are read at the end of a command. This is as much as a pipe of an ordinary
user contains. A background process may write faster than the pieces are read."""
_MAX_OUTPUT_BYTES_PER_SECOND: Final = 1024 * 1024
"""Maximum rate at which output is read, as with the Docker engine. Otherwise, commands that write all the
time would occupy the event loop. A faster command is slowed down by back-pressure."""
_NO_TIME: Final = 124
_REFUSED_EXIT_CODE: Final = 126
_NOT_FOUND: Final = 127


async def execute(
    spawner: Spawner, request: SpawnRequest, process: Process, timeout: float
) -> tuple[int, str]:
    """Runs a command in the cell of `process`, and returns its exit code and output.

    As in a shell, the exit code is 124 after the timeout and 127 if the command does not exist.
    """
    output = _CommandOutput()
    try:
        started = await start_beside(spawner, request, process, output.write_end)
    except OSError as error:
        output.close()
        return _refusal_of(request, error)
    handle = os.pidfd_open(started.pid)
    try:
        output.listen()
        await wait_for_ends([handle], timeout)
        status = kernel.status(handle)
        output.read_all()
        failure = launcher_client.reported_failure(started)
    finally:
        await _kill_command(started.pid, handle)
        launcher_client.close(started)
        output.close()
    if failure is not None:
        return _refusal_of(request, failure)
    if status is None:
        return _NO_TIME, f"{output.text}\n{request.command[0]} did not end within {timeout:g} s".lstrip()
    return status if status >= 0 else 128 - status, output.text


def _refusal_of(request: SpawnRequest, error: OSError) -> tuple[int, str]:
    code = _NOT_FOUND if error.errno == errno.ENOENT else _REFUSED_EXIT_CODE
    return code, f"{request.command[0]}: {error.strerror or error}"


async def start_beside(
    spawner: Spawner,
    request: SpawnRequest,
    process: Process,
    output: int,
    input: int | None = None,
    *,
    has_terminal: bool = False,
) -> StartedProgram:
    """Starts a command in the cell of `process`. Ends the command if the caller is cancelled."""

    def start() -> StartedProgram:
        handle = kernel.handle(process.pid, process.start)
        if handle is None:
            raise ProcessLookupError(errno.ESRCH, "the instance has ended")
        try:
            return spawner.beside(request, output, handle, input, has_terminal=has_terminal)
        finally:
            os.close(handle)

    starting = asyncio.get_running_loop().run_in_executor(spawner.thread, start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            started = await starting
            await _kill_command(started.pid, os.pidfd_open(started.pid))
            launcher_client.close(started)
        raise


async def _kill_command(child: int, handle: int) -> None:
    """Kills the command and its process group. The group's id is not reused before the command is reaped."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    await wait_for_ends([handle], 5.0)
    kernel.reap(handle)
    os.close(handle)


class _CommandOutput:
    """The output of a command. It is read while the command runs, because a full pipe would block the
    command."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._kept = bytearray()
        self._pause: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")

    def listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._read_end, self._read_some_and_pause)

    def read_all(self) -> None:
        """Reads the available output. Does not wait for the end of the output, because a background process
        may keep the pipe open, and does not read all of it if such a process keeps writing."""
        for _ in range(_MAX_LAST_PIECES):
            if not self._read_some():
                break

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        asyncio.get_running_loop().remove_reader(self._read_end)
        os.close(self._read_end)
        os.close(self.write_end)

    def _read_some_and_pause(self) -> None:
        if size := self._read_some():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._read_end)
            self._pause = loop.call_later(size / _MAX_OUTPUT_BYTES_PER_SECOND, self.listen)

    def _read_some(self) -> int:
        """Reads a piece of the output. Returns its size; 0 if there is none now."""
        try:
            piece = os.read(self._read_end, _PIECE_BYTES)
        except BlockingIOError:
            return 0
        self._kept += piece[: _MAX_OUTPUT_BYTES - len(self._kept)]
        return len(piece)
