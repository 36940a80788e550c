"""Runs an interactive command in a container, with its input and output.

The engine cannot stop a command. Each command therefore has a mark in its environment variables (execute.py),
and a locked file named after the mark. The lock ends with the server process, even if it is killed. The next
start of the server kills the commands whose files are not locked.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

from windlass.base import filelock
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.raw_connection import RawConnection, pieces
from windlass.docker.execute import EXECUTION_VARIABLE, create_command, end_marked
from windlass.engines.engine import EngineError, ExecutionRequest, TerminalSize

_TERMINAL_VARIABLE: Final = "TERM=xterm-256color"
_END_OF_INPUT: Final = b"\x04"
_CHECK_INTERVAL, _END_TIMEOUT = 0.02, 5.0
_START_REFUSED_PATTERN: Final = re.compile(rb'OCI runtime exec failed: .*?exec: "([^"]{1,300})": (.+)', re.S)
"""Matches the engine's output for a program that could not be started."""
_MAX_REFUSAL_BYTES: Final = 4096
"""Maximum size of this output in bytes. A program may write the same, followed by much more."""
_NOT_FOUND_ERRORS: Final = (b"not found in $PATH", b"no such file or directory")
_LOST_EXIT_CODE: Final = 137
"""The exit code for a command that ended with its container: that of SIGKILL."""


class ExecutionFiles:
    """The files of commands in progress. Each is named after the command's mark, and contains the container
    id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ending: asyncio.Task[None] | None = None

    def begin(self, container: str) -> tuple[str, int]:
        """Creates and locks the file of a command. Returns the mark, and the file descriptor that holds the
        lock.

        Never waits for a lock: another server may mistake the new file for a leftover, lock it, and be
        suspended."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            path = self._folder / secrets.token_hex(16)
            descriptor = filelock.try_hold(path)
            if descriptor is None:
                continue
            if filelock.is_at(descriptor, path):
                os.write(descriptor, container.encode())
                return path.name, descriptor
            os.close(descriptor)

    def end(self, mark: str, descriptor: int) -> None:
        (self._folder / mark).unlink(missing_ok=True)
        os.close(descriptor)

    def start_ending_orphans(self, docker: Docker) -> None:
        """Starts a background task that kills the commands of servers that were killed."""
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end_left(docker))

    async def stop(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)

    async def _end_left(self, docker: Docker) -> None:
        for path in [*self._folder.glob("*")] if self._folder.is_dir() else ():
            descriptor = filelock.try_hold(path)
            if descriptor is None:
                continue
            try:
                if container := path.read_text():
                    await end_marked(docker, container, f"{EXECUTION_VARIABLE}={path.name}")
                path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


class DockerExecution:
    def __init__(self, docker: Docker, container: str, files: ExecutionFiles, *, has_terminal: bool) -> None:
        self._docker, self._container, self._files = docker, container, files
        self._has_terminal = has_terminal
        self._mark = ""
        self._open = AsyncExitStack()
        self._id = ""

    async def start(self, request: ExecutionRequest) -> None:
        """Starts the command. Raises EngineError, or the errors of the Docker client."""
        self._mark, descriptor = self._files.begin(self._container)
        self._open.callback(self._files.end, self._mark, descriptor)
        try:
            self._id = await self._create(request)
            begin = {"Detach": False, "Tty": self._has_terminal}
            self._open.push_async_callback(self._end)
            answer = await self._open.enter_async_context(
                self._docker.stream("POST", f"/exec/{self._id}/start", body=begin, timeout=None)
            )
            self._raw = RawConnection(answer)
            self._pieces = _with_explanation(self._demultiplex(answer.chunks()))
            if request.terminal:
                await self.resize(request.terminal)
        except BaseException:  # the caller cannot close an execution whose start has failed
            await self._open.aclose()
            raise

    async def _create(self, request: ExecutionRequest) -> str:
        variables = [
            f"{EXECUTION_VARIABLE}={self._mark}",
            *([_TERMINAL_VARIABLE] if self._has_terminal else []),
        ]
        body = {
            "Cmd": list(request.command),
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": self._has_terminal,
            "Env": variables,
        }
        return await create_command(self._docker, self._container, body)

    async def _demultiplex(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        if self._has_terminal:
            async for chunk in chunks:
                yield chunk
            return
        async for several in pieces(chunks):
            yield b"".join(several)

    async def read(self) -> bytes:
        while (piece := await anext(self._pieces, None)) is not None:
            if piece:
                return piece
        return b""

    async def write(self, data: bytes) -> None:
        with suppress(ConnectionError):  # the command has ended
            await self._raw.write(data)

    async def end_input(self) -> None:
        if self._has_terminal:
            await self.write(_END_OF_INPUT)
        elif not self._raw.end():
            raise EngineError(
                "Use a terminal, or a command that ends by itself: over TLS, its input cannot be closed"
            )

    async def resize(self, size: TerminalSize) -> None:
        if self._has_terminal:
            with suppress(EngineRefused):  # the command has ended
                await self._docker.raw(
                    "POST", f"/exec/{self._id}/resize", params={"h": size.rows, "w": size.columns}
                )

    async def wait(self) -> int:
        """Waits for the end of the command, which follows shortly after the end of its output. Returns the
        exit code."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _END_TIMEOUT
        while True:
            try:
                state: Any = await self._docker.json("GET", f"/exec/{self._id}/json")
            except EngineRefused as refused:
                if refused.status == 404:
                    return _LOST_EXIT_CODE
                raise
            if not state["Running"] and state["ExitCode"] is not None:
                self._docker.commands.ended(self._container, self._id)
                return int(state["ExitCode"])
            if loop.time() > until:
                raise EngineError("The command keeps running without its output: its program left it running")
            await asyncio.sleep(_CHECK_INTERVAL)

    async def close(self) -> None:
        await asyncio.shield(asyncio.ensure_future(self._open.aclose()))

    async def _end(self) -> None:
        await end_marked(self._docker, self._container, f"{EXECUTION_VARIABLE}={self._mark}")


async def _with_explanation(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the output of a command. Replaces the engine's error message for a program that cannot be
    started by an explanation."""
    is_first = True
    async for piece in chunks:
        yield _explain_refused_start(piece) if is_first else piece
        is_first = is_first and not piece


def _explain_refused_start(piece: bytes) -> bytes:
    refused = _START_REFUSED_PATTERN.fullmatch(piece) if len(piece) <= _MAX_REFUSAL_BYTES else None
    if not refused:
        return piece
    program, reason = refused[1], refused[2].rstrip().removesuffix(b": unknown")
    if reason.endswith(_NOT_FOUND_ERRORS):
        return b"There is no program " + program + b" in this instance.\r\n"
    return b"The program " + program + b" cannot be started: " + reason + b".\r\n"
