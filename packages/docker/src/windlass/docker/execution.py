"""Runs a command beside the program of a container, with its input and output.

The engine cannot end a command. So each command has a mark among its variables (execute.py), and a locked
file with this name as long as it runs. The lock ends with the server, however that ends, and the next start
of the engine ends the commands of files without a lock.
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
from windlass.docker.execute import MARK, end_marked
from windlass.engines.engine import EngineError, ExecutionRequest, TerminalSize

_TERMINAL: Final = "TERM=xterm-256color"
_END_OF_INPUT: Final = b"\x04"
_MOMENT, _PATIENCE = 0.02, 5.0
_REFUSED: Final = re.compile(
    rb'OCI runtime exec failed: .*?exec: "([^"]{1,300})": (.+?)(?:: unknown)?\s*', re.S
)
"""The output of a command whose program the engine could not start."""
_ABSENT: Final = (b"not found in $PATH", b"no such file or directory")
_LOST: Final = 137
"""The exit code of a command that ended with its container: that of SIGKILL."""


class ExecutionFiles:
    """The files of commands in progress: one for each, named after its mark, with the id of its container."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ending: asyncio.Task[None] | None = None

    def begin(self, container: str) -> tuple[str, int]:
        """Makes the file of a command. Returns its mark, and the descriptor that holds the lock.

        Waits for no lock: another server that takes a new file for one that was left may be paused."""
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

    def look(self, docker: Docker) -> None:
        """Ends in the background the commands that a killed server has left."""
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
                    await end_marked(docker, container, f"{MARK}={path.name}")
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
        """Starts the command. May raise an EngineError, and the failures of the Docker client."""
        self._mark, descriptor = self._files.begin(self._container)
        self._open.callback(self._files.end, self._mark, descriptor)
        try:
            self._id = await self._create(request)
            begin = {"Detach": False, "Tty": self._has_terminal}
            self._open.push_async_callback(self._end)
            answer = await self._open.enter_async_context(
                self._docker.stream("POST", f"/exec/{self._id}/start", body=begin, patience=None)
            )
            self._raw = RawConnection(answer)
            self._pieces = _with_explanation(self._split(answer.chunks()))
            if request.terminal:
                await self.resize(request.terminal)
        except BaseException:  # nothing is left of a command that was not handed over
            await self._open.aclose()
            raise

    async def _create(self, request: ExecutionRequest) -> str:
        variables = [f"{MARK}={self._mark}", *([_TERMINAL] if self._has_terminal else [])]
        body = {
            "Cmd": list(request.command),
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": self._has_terminal,
            "Env": variables,
        }
        try:
            created = await self._docker.json("POST", f"/containers/{self._container}/exec", body=body)
        except EngineRefused as refused:
            if refused.status in (404, 409):
                raise EngineError("The instance does not run") from refused
            raise
        return str(created["Id"])

    async def _split(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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
            with suppress(EngineRefused):  # it has ended
                await self._docker.raw(
                    "POST", f"/exec/{self._id}/resize", params={"h": size.rows, "w": size.columns}
                )

    async def wait(self) -> int:
        """Returns the exit code. Waits for the end of the command, which comes shortly after that of its
        output."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE
        while True:
            try:
                state: Any = await self._docker.json("GET", f"/exec/{self._id}/json")
            except EngineRefused as refused:
                if refused.status == 404:
                    return _LOST
                raise
            if not state["Running"] and state["ExitCode"] is not None:
                return int(state["ExitCode"])
            if loop.time() > until:
                raise EngineError("The command keeps running without its output: its program left it running")
            await asyncio.sleep(_MOMENT)

    async def close(self) -> None:
        await asyncio.shield(asyncio.ensure_future(self._open.aclose()))

    async def _end(self) -> None:
        await end_marked(self._docker, self._container, f"{MARK}={self._mark}")


async def _with_explanation(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields the output of a command. If its program could not be started, the message of the engine is
    replaced by the reason."""
    is_first = True
    async for piece in pieces:
        yield _explain(piece) if is_first else piece
        is_first = is_first and not piece


def _explain(piece: bytes) -> bytes:
    refused = _REFUSED.fullmatch(piece)
    if not refused:
        return piece
    program, reason = refused[1], refused[2]
    if reason.endswith(_ABSENT):
        return b"There is no program " + program + b" in this instance.\r\n"
    return b"The program " + program + b" cannot be started: " + reason + b".\r\n"
