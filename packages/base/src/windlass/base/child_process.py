"""Runs a child process, whose output and end can be awaited on the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from asyncio import StreamReader
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from windlass.base.cleanup import on_failure
from windlass.base.oom_score import STEPS_SCORE, set_oom_score

_END_SECONDS: Final = 2.0
_CHUNK_BYTES: Final = 64 * 1024


class ProcessUsage(Struct, frozen=True):
    """What a process and its descendants used, of those that were waited for."""

    cpu_ms: int
    largest_bytes: int
    """The most memory of one process."""


class ChildProcess:
    """A child process that leads a process group. Call `listen` before its output is read."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.usage: ProcessUsage | None = None
        """What the process used; None until it ends."""
        self.stdout, self.stderr = StreamReader(), StreamReader()
        self._ended = asyncio.Event()
        self._pipes: list[_OutputPipe] = []
        self._handle = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._handle, self._note_end)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        output: int,
        errors: int,
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
    ) -> Self:
        """Starts a program with `subprocess`, which uses `vfork`. `stdin` is its standard input.

        asyncio would use `fork` and copy the server's page tables. That takes longer than most git commands.
        """
        program = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        program.returncode = 0  # the child still runs: this keeps the Popen object from waiting for it
        # The child runs for a moment with the old score: setting it earlier would need `fork` or a shell.
        set_oom_score(STEPS_SCORE, program.pid)
        with on_failure(partial(_kill_and_reap, program.pid)):
            return cls(program.pid)

    def listen(self, output: int, errors: int) -> None:
        """Reads standard output and standard error from these pipes, and closes the pipes at their end."""
        self._pipes = [_OutputPipe(output, self.stdout), _OutputPipe(errors, self.stderr)]

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def end(self) -> None:
        """Kills the process group and waits until all its processes have closed the pipes.

        A pipe ends when the last process with its descriptor ends. Checking the process group instead would
        include zombies that no parent has reaped, as in a container without an init process.
        """
        self.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._ended.wait()
                if self._pipes:
                    await asyncio.gather(self.stdout.read(), self.stderr.read())
        for pipe in self._pipes:
            pipe.close()
        if not self._ended.is_set():
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)

    def kill(self) -> None:
        """Kills the process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.returncode is None:  # the child may not have created its process group yet
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _note_end(self) -> None:
        _, status, used = os.wait4(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self.usage = ProcessUsage(round((used.ru_utime + used.ru_stime) * 1000), used.ru_maxrss * 1024)
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self._ended.set()


class _OutputPipe(asyncio.ReadTransport):
    """Passes the data of a pipe to a stream reader.

    Transports of uvloop close a descriptor twice; by then, the number may belong to another file.
    """

    def __init__(self, descriptor: int, reader: StreamReader) -> None:
        super().__init__()
        os.set_blocking(descriptor, False)
        self._descriptor, self._reader = descriptor, reader
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        reader.set_transport(self)
        self.resume_reading()

    def pause_reading(self) -> None:
        self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._reader.feed_eof()  # otherwise a later read would wait for ever

    def _read(self) -> None:
        with suppress(BlockingIOError):
            if piece := os.read(self._descriptor, _CHUNK_BYTES):
                self._reader.feed_data(piece)
                return
            self.close()


def _kill_and_reap(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
