"""Runs a command in the cell (sandbox) of a running instance, with its input and output connected to pipes or
a terminal.

The command also runs in the instance's control groups. An environment variable marks all processes of the
command, so that they can be ended together. A process that clears its environment and leaves the session is
not found, and ends with the instance. Commands of a killed server are ended when the engine starts again
(orphans.py).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
import struct
import termios
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import structs

from windlass.base import kernel
from windlass.base.cleanup import on_failure
from windlass.base.isolation import launcher_client
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.launcher_client import StartedProgram
from windlass.base.kernel import Process, Stat
from windlass.engines.engine import EngineError, TerminalSize
from windlass.process.execute import start_beside
from windlass.process.kill import end_these, wait_for_ends
from windlass.process.spawn import Spawner, SpawnRequest

EXECUTION_VARIABLE: Final = "WINDLASS_EXECUTION"
TERMINAL_VARIABLES: Final = {"TERM": "xterm-256color"}
_CHUNK_BYTES: Final = 32 * 1024
_END_OF_INPUT: Final = b"\x04"
_END_CHECK_INTERVAL: Final = 60.0
_PTMX: Final = os.makedev(5, 2)
_UNLOCK: Final = 0x40045431
_OPEN_PEER: Final = 0x5441
"""ioctl requests for a new terminal: TIOCSPTLCK and TIOCGPTPEER."""
_CLOSED_ERRORS: Final = frozenset({errno.EIO, errno.EPIPE})
"""Error codes of a terminal or pipe whose other end the command has closed."""


async def open_execution(
    spawner: Spawner, request: SpawnRequest, process: Process, terminal: TerminalSize | None
) -> ProcessExecution:
    """Starts a command in the cell of `process`. Raises an EngineError if it cannot be started."""
    mark = secrets.token_hex(16)
    own = {EXECUTION_VARIABLE: mark}
    variables = own | (TERMINAL_VARIABLES if terminal else {}) | dict(request.environment) | own
    request = structs.replace(request, environment=variables)
    channel = (
        _CommandStreams.terminal(terminal, request.cell, process.pid) if terminal else _CommandStreams.pipes()
    )
    with on_failure(channel.close):
        try:
            started = await start_beside(
                spawner, request, process, channel.output, channel.input, has_terminal=terminal is not None
            )
        except OSError as error:
            raise EngineError(f"The command was not started: {error.strerror or error}") from error
        channel.close_inner()
        return ProcessExecution(started, channel, mark)


class _CommandStreams:
    """Both ends of the pipes or the terminal: the command's ends and the ends of this process."""

    def __init__(self, reads: int, writes: int, input: int, output: int, *, is_terminal: bool) -> None:
        self.reads, self.writes = reads, writes
        self.input, self.output = input, output
        self.is_terminal = is_terminal
        self._open = {reads, writes, input, output}
        for descriptor in {reads, writes}:
            os.set_blocking(descriptor, False)

    @classmethod
    def terminal(cls, size: TerminalSize, cell: Cell | None, pid: int) -> _CommandStreams:
        outer, inner = _open_terminal(pid)
        channel = cls(outer, outer, inner, inner, is_terminal=True)
        with on_failure(channel.close):
            channel.resize(size)
            _keep_from_others(inner, cell)
        return channel

    @classmethod
    def pipes(cls) -> _CommandStreams:
        input, writes = os.pipe()
        reads, output = os.pipe()
        return cls(reads, writes, input, output, is_terminal=False)

    def resize(self, size: TerminalSize) -> None:
        fcntl.ioctl(self.writes, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))

    def is_open(self, descriptor: int) -> bool:
        return descriptor in self._open

    def close_inner(self) -> None:
        self._close({self.input, self.output})

    def close_input(self) -> None:
        self._close({self.writes})

    def close(self) -> None:
        self._close(set(self._open))

    def _close(self, descriptors: Collection[int]) -> None:
        for descriptor in self._open.intersection(descriptors):
            os.close(descriptor)
        self._open.difference_update(descriptors)


def _open_terminal(pid: int) -> tuple[int, int]:
    """Opens a terminal in the mount namespace of a process, so that its path is valid there. Without a mount
    namespace of its own, the process uses the terminals of the machine."""
    with suppress(OSError):
        outer = os.open(f"/proc/{pid}/root/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        with on_failure(partial(os.close, outer)):
            if os.fstat(outer).st_rdev != _PTMX:
                raise OSError("the program has put something else there")
            fcntl.ioctl(outer, _UNLOCK, struct.pack("i", 0))
            return outer, fcntl.ioctl(outer, _OPEN_PEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    return os.openpty()


def _keep_from_others(terminal: int, cell: Cell | None) -> None:
    """Restricts who can open the terminal by its path to the service.

    If services share one user, the kernel cannot distinguish them. Then no process can open the path, and the
    command uses its inherited file descriptors.
    """
    if cell and cell["identity"] == "user":
        os.fchown(terminal, cell["uid"], -1)
        os.fchmod(terminal, 0o600)
    elif cell:
        os.fchmod(terminal, 0)


class ProcessExecution:
    def __init__(self, program: StartedProgram, channel: _CommandStreams, mark: str) -> None:
        self._started, self._channel, self._mark = program, channel, mark
        self._handle = os.pidfd_open(program.pid)
        self._is_closed = False

    async def read(self) -> bytes:
        has_ended = False
        while self._channel.is_open(self._channel.reads):
            try:
                return os.read(self._channel.reads, _CHUNK_BYTES)
            except BlockingIOError:
                # A background process may keep the output open forever.
                if has_ended:
                    return b""
            except OSError as error:
                if error.errno in _CLOSED_ERRORS:
                    return b""
                raise
            has_ended = await self._wait_for_output()
        return b""

    async def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left and self._channel.is_open(self._channel.writes):
            try:
                left = left[os.write(self._channel.writes, left) :]
            except BlockingIOError:
                await self._wait_for_room()
            except OSError as error:
                if error.errno not in _CLOSED_ERRORS:
                    raise
                return

    async def end_input(self) -> None:
        if self._channel.is_terminal:
            await self.write(_END_OF_INPUT)
        else:
            self._channel.close_input()

    async def resize(self, size: TerminalSize) -> None:
        if self._channel.is_terminal and self._channel.is_open(self._channel.writes):
            self._channel.resize(size)

    async def wait(self) -> int:
        handle = os.dup(self._handle)  # `read` may wait for the original descriptor
        try:
            while (status := kernel.status(handle)) is None:
                await wait_for_ends([handle], _END_CHECK_INTERVAL)
        finally:
            os.close(handle)
        return status if status >= 0 else 128 - status

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._channel.close()  # the kernel then signals the programs of a terminal
        await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        """Ends all processes of the command. A process that is forked during a scan may be missed, so two
        consecutive scans must find none."""
        session: int | None = self._started.pid
        empty_counts = 0
        try:
            while empty_counts < 2:
                left = await asyncio.to_thread(_find_members, self._mark, session)
                empty_counts = 0 if left else empty_counts + 1
                await end_these(left)
                session = None  # once the leader is reaped, its id may be reused
        finally:
            kernel.reap(self._handle)
            os.close(self._handle)
            launcher_client.close(self._started)

    async def _wait_for_output(self) -> bool:
        """Waits for output or the end of the command. Returns whether the command has ended."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._channel.reads, news.set)
        loop.add_reader(self._handle, news.set)
        try:
            await news.wait()
        finally:
            loop.remove_reader(self._channel.reads)
            loop.remove_reader(self._handle)
        return kernel.status(self._handle) is not None

    async def _wait_for_room(self) -> None:
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._channel.writes, news.set)
        try:
            await news.wait()
        finally:
            loop.remove_writer(self._channel.writes)


def _find_members(mark: str, session: int | None) -> list[Stat]:
    """Returns the living processes that have the mark or belong to the session."""
    wanted = mark.encode()
    return [
        stat
        for stat in kernel.all_processes()
        if not stat.dead
        and (
            stat.session == session
            or (kernel.marks(stat.thread, [EXECUTION_VARIABLE]) or {}).get(EXECUTION_VARIABLE, b"") == wanted
        )
    ]
