"""Runs functions that read untrusted files. Each call runs in its own process, with limits of time and
memory, and each organization has a limited number of concurrent calls.

If the caller is cancelled, the process is killed. Calls do not use the common thread pool.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Final, TypeVar, cast
from weakref import WeakValueDictionary

from msgspec import Struct

from windlass.base.bounded.child import CallReply, CallRequest
from windlass.base.child_process import ChildProcess
from windlass.base.cleanup import on_failure
from windlass.base.isolation.launcher_client import PACKAGE_FOLDERS
from windlass.base.subprocesses import close_all

T = TypeVar("T")
_WALL_TIME_FACTOR: Final = 3
"""The maximum duration of a call, as a multiple of its processor time, because the machine may be busy."""
_PROGRAM: Final = (
    "import sys; sys.path[:0] = sys.argv[1].split(':'); from windlass.base.bounded.child import main; "
    "main(int(sys.argv[2]))"
)


class CallLimits(Struct, frozen=True):
    memory: int = 512
    """The maximum address space of a call, in MiB."""
    seconds: int = 20
    """The maximum processor time of a call, in seconds."""
    of_one: int = 2
    """The maximum number of concurrent calls of one organization."""
    most: int = 8
    """The maximum number of concurrent calls of all organizations."""


class OutOfBounds(Exception):
    """A call exceeded its limits. The message says what to do."""


class BoundedCalls:
    def __init__(self, limits: CallLimits, load: str) -> None:
        """`load` is the name of a function (`module:function`) that imports the code of all calls."""
        self._limits, self._load = limits, load
        self._free = asyncio.Semaphore(limits.most)
        self._free_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def prepare(self) -> None:
        """Starts the process from which calls are forked, so that the first call does not wait for it."""
        server = _call_server(self._load)
        server.thread.submit(server.prepare)

    async def run(self, org: str, function: Callable[..., T], *arguments: object) -> T:
        """Calls a module's function in its own process. Returns its result or raises its exception.

        Arguments and result are copied between the processes. May raise OutOfBounds.
        """
        own = self._free_of.setdefault(org, asyncio.Semaphore(self._limits.of_one))
        async with own, self._free:
            reply = await self._reply(function, arguments)
        if isinstance(reply.error, MemoryError):
            raise self._too_large()
        if reply.error is not None:
            raise reply.error
        return cast(T, reply.result)

    async def _reply(self, function: Callable[..., object], arguments: tuple[object, ...]) -> CallReply:
        limits = self._limits
        request = CallRequest(function, arguments, os.get_exec_path(), limits.memory << 20, limits.seconds)
        (read_reply, reply), (read_errors, errors) = os.pipe(), os.pipe()
        try:
            with on_failure(partial(close_all, read_reply, read_errors)):
                process = ChildProcess(await self._start(pickle.dumps(request), reply, errors))
        finally:
            close_all(reply, errors)
        try:
            process.listen(read_reply, read_errors)
            async with asyncio.timeout(limits.seconds * _WALL_TIME_FACTOR):
                written = await process.stdout.read()
                code = await process.wait()
        except TimeoutError:
            raise self._too_long() from None
        finally:
            await process.end()
        if code == 0 and written:
            return cast(CallReply, pickle.loads(written))  # noqa: S301 (this package has written it)
        if code == -signal.SIGXCPU:
            raise self._too_long()
        if code < 0:  # killed by the kernel for its memory, or for a stack overflow
            raise self._too_large()
        why = (await process.stderr.read()).decode(errors="replace")
        raise RuntimeError(f"the process of a call ended with {code}: {why}")

    async def _start(self, request: bytes, reply: int, errors: int) -> int:
        """Starts the process of a call. Kills it if the caller is cancelled meanwhile."""
        server = _call_server(self._load)
        starting = asyncio.get_running_loop().run_in_executor(
            server.thread, server.start, request, reply, errors
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(OSError):
                await ChildProcess(await starting).end()
            raise

    def _too_long(self) -> OutOfBounds:
        return OutOfBounds(
            "Make the project files smaller, such as pyproject.toml and "
            f"package.json, or raise detection_seconds: to read them took more than {self._limits.seconds} "
            "seconds of processor time."
        )

    def _too_large(self) -> OutOfBounds:
        return OutOfBounds(
            "Make the project files smaller, such as pyproject.toml and "
            "package.json, or raise detection_memory: to read them needed more than "
            f"{self._limits.memory} MiB."
        )


@cache
def _call_server(load: str) -> CallServer:
    """Returns the call server of this process. All installations share it, because it has no state."""
    return CallServer(load)


class CallServer:
    """The process that forks calls, and the thread that talks to it.

    The kernel kills running calls when this thread ends.
    """

    def __init__(self, load: str) -> None:
        self.thread = ThreadPoolExecutor(1, "windlass-calls")
        self._load = load
        self._channel: socket.socket | None = None

    def prepare(self) -> None:
        self._open()

    def start(self, request: bytes, reply: int, errors: int) -> int:
        """Starts the process of a call as a child of this process. Returns its pid. May raise an OSError."""
        file = os.memfd_create("call", os.MFD_CLOEXEC)
        with os.fdopen(file, "wb") as sent:
            sent.write(request)
            sent.flush()
            os.lseek(file, 0, os.SEEK_SET)
            for _ in range(2):
                channel = self._open()
                with suppress(ConnectionError):
                    socket.send_fds(channel, [b"call"], [file, reply, errors])
                    if answer := channel.recv(64):
                        return int(answer)
                self._close()  # the call server was killed: start it again
        raise OSError(
            "the process that runs calls was killed twice: free memory on this machine, and try again"
        )

    def _open(self) -> socket.socket:
        if self._channel is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-W",
                        "ignore",
                        "-c",
                        _PROGRAM,
                        ":".join(PACKAGE_FOLDERS),
                        str(theirs.fileno()),
                        self._load,
                    ],
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._channel = ours
        return self._channel

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._process.wait()
            self._channel = None
