"""Build steps, each started by a launcher and awaited on the event loop; a step ends with its block."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import StreamReader
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final
from weakref import finalize

from windlass.base import subprocesses as group
from windlass.base.cleanup import on_failure
from windlass.base.isolation.launching import Launcher
from windlass.base.isolation.step import StepRequest

_END_SECONDS: Final = 2.0


class StepLauncher:
    """A launcher, and the thread that asks it to start steps. The kernel ends a step when this thread ends.
    Both end with this object."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "windlass-steps")
        self._launcher = Launcher()
        self.close = finalize(self, _close, self._thread, self._launcher)
        """Ends the launcher, and steps that still run."""

    @asynccontextmanager
    async def running(self, request: StepRequest) -> AsyncIterator[StepProcess]:
        """Runs a step, whose processes are ended at the end of the block. May raise an OSError."""
        (read_output, output), (read_errors, errors) = os.pipe(), os.pipe()
        try:
            with on_failure(partial(_close_all, read_output, read_errors)):
                process = StepProcess(await self._start(request, output, errors))
        finally:
            _close_all(output, errors)
        try:
            await process.listen(read_output, read_errors)
            yield process
        finally:
            await process.end()

    async def _start(self, request: StepRequest, output: int, errors: int) -> int:
        """Starts a step. A caller that is cancelled leaves none running."""
        loop = asyncio.get_running_loop()
        starting = loop.run_in_executor(self._thread, self._launcher.start_step, request, output, errors)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(OSError):
                await StepProcess(await starting).end()
            raise


class StepProcess:
    """A process that runs a step, with its output. Used as those of `asyncio.subprocess`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = StreamReader(), StreamReader()
        self._ended = asyncio.Event()
        self._transports: list[asyncio.ReadTransport] = []
        self._handle = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._handle, self._note_end)

    async def listen(self, output: int, errors: int) -> None:
        for reader, descriptor in ((self.stdout, output), (self.stderr, errors)):
            self._transports.append(await _read_from(descriptor, reader))

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def end(self) -> None:
        """Kills the process group of the step and waits until its output is closed."""
        self.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._ended.wait()
                if self._transports:
                    await asyncio.gather(self.stdout.read(), self.stderr.read())
        for transport in self._transports:
            transport.close()
        if not self._ended.is_set():
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)

    def kill(self) -> None:
        group.kill(self)
        if self.returncode is None:  # it may not have made its group yet
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _note_end(self) -> None:
        status = os.waitid(os.P_PIDFD, self._handle, os.WEXITED)
        assert status is not None
        is_exit = status.si_code == os.CLD_EXITED
        self.returncode = status.si_status if is_exit else -status.si_status
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self._ended.set()


async def _read_from(descriptor: int, reader: StreamReader) -> asyncio.ReadTransport:
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(descriptor, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return transport


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _close(thread: ThreadPoolExecutor, launcher: Launcher) -> None:
    launcher.close()
    thread.shutdown(wait=False)
