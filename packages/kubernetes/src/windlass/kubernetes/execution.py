"""Runs commands in containers, over a WebSocket with a channel for each stream.

Nothing ends a command when its connection does. Each command therefore has a mark in its environment
variables, and a locked file named after the mark. The lock ends with the server process, even if it is
killed. The next start of the server kills the commands whose files are not locked.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from windlass.base import filelock
from windlass.base.foreign_json import BadJson, read_json
from windlass.engines.engine import EngineError, ExecutionRequest, TerminalSize
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable

if TYPE_CHECKING:
    import aiohttp

MAX_OUTPUT_BYTES: Final = 64 * 1024
"""Maximum size of the kept output in bytes; only the end is kept."""
EXECUTION_VARIABLE: Final = "WINDLASS_EXECUTION"
TIMED_OUT: Final = 124
_END_TIMEOUT: Final = 5.0
_LOST_EXIT_CODE: Final = 137
"""The exit code of a command that ended with its container: that of SIGKILL."""
_STDIN, _RESIZE, _CLOSE = 0, 4, 255
"""Channels, besides 1 and 2 for output and 3 for the end."""
_RESIZE_SECONDS: Final = 0.2
"""Seconds for which input waits after a change of the terminal size, which a node applies in parallel."""
_END_OF_INPUT: Final = b"\x04"
_PIECE: Final = 32 * 1024
_CODE_PATTERN: Final = re.compile(r"[0-9]{1,9}")
_NOT_FOUND_PATTERN: Final = re.compile(r'exec: "([^"]{1,300})": (.{1,200}?)(?:: unknown|$)')
_NO_SHELL: Final = "Use an image with a shell: this one has no `sh`, which commands in instances need"

_WRAPPER: Final = 'export "$0"; exec "$@"'
_BEGUN: Final = b"\x1b]windlass;begun\x07"
"""Written to a terminal when its command begins: sizes that come earlier are lost. Terminals show nothing."""
_TERMINAL_WRAPPER: Final = f"printf '\\033]windlass;begun\\007'; export TERM=xterm-256color; {_WRAPPER}"
_START_PATIENCE: Final = 15.0
_END_SCRIPT: Final = """
for each in /proc/[0-9]*; do
    [ "${each#/proc/}" = "$$" ] || ! grep -q "$0" "$each/environ" 2>/dev/null || kill -9 "${each#/proc/}"
done
"""


class PodName(Struct, frozen=True):
    namespace: str
    name: str


class _ExitCause(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(Struct, frozen=True):
    causes: list[_ExitCause] | None = None


class _ExecStatus(Struct, frozen=True):
    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class CommandNotStarted(Exception):
    """Raised if a command could not be started. The message is that of the node."""


class ExecutionChannels:
    """One command in a container, over an open WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._exit: int | None = None
        self._failure = ""
        self._is_over = False
        self._resized_at = 0.0

    async def read(self) -> bytes:
        """Returns the next output; empty at the end."""
        import aiohttp  # noqa: PLC0415 (300 ms and 15 MB, and many installations have no cluster)

        while not self._is_over:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    self._is_over = True
                continue
            data: bytes = message.data
            match data[0] if data else _CLOSE:
                case 1 | 2 if len(data) > 1:
                    return data[1:]
                case 3:
                    self._note_status(data[1:])
                    self._is_over = True
        return b""

    async def write(self, data: bytes) -> None:
        if (pause := self._resized_at + _RESIZE_SECONDS - monotonic()) > 0:
            await asyncio.sleep(pause)
        with suppress(ConnectionError, RuntimeError):  # the command has ended
            for start in range(0, len(data), _PIECE):
                await self._socket.send_bytes(bytes([_STDIN]) + data[start : start + _PIECE])

    async def end_input(self) -> None:
        with suppress(ConnectionError, RuntimeError):
            await self._socket.send_bytes(bytes([_CLOSE, _STDIN]))

    async def resize(self, size: TerminalSize) -> None:
        self._resized_at = monotonic()
        document = msgspec.json.encode({"Width": size.columns, "Height": size.rows})
        with suppress(ConnectionError, RuntimeError):
            await self._socket.send_bytes(bytes([_RESIZE]) + document)

    def exit_code(self) -> int:
        """Returns the exit code after the end. Raises CommandNotStarted if the command was not started."""
        if self._failure:
            raise CommandNotStarted(self._failure)
        return _LOST_EXIT_CODE if self._exit is None else self._exit

    def _note_status(self, body: bytes) -> None:
        try:
            found = read_json(body, _ExecStatus)
        except BadJson:
            return
        if found.status == "Success":
            self._exit = 0
        elif found.reason == "NonZeroExitCode":
            causes = (found.details.causes if found.details else None) or ()
            codes = [cause.message for cause in causes if cause.reason == "ExitCode"]
            self._exit = int(codes[0]) if codes and _CODE_PATTERN.fullmatch(codes[0]) else 1
        else:
            self._failure = found.message or "the command was not started"


def _parameters(command: Sequence[str], *, has_input: bool, has_terminal: bool) -> list[tuple[str, str]]:
    streams = {"stdin": has_input, "stdout": True, "stderr": not has_terminal, "tty": has_terminal}
    return [
        ("container", names.CONTAINER),
        *(("command", word) for word in command),
        *((name, "true") for name, wanted in streams.items() if wanted),
    ]


def _path(pod: PodName) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/exec"


def _marked(mark: str, command: Sequence[str], wrapper: str = _WRAPPER) -> list[str]:
    return ["sh", "-c", wrapper, f"{EXECUTION_VARIABLE}={mark}", *command]


async def execute(api: ClusterApi, pod: PodName, command: Sequence[str], timeout: float) -> tuple[int, str]:
    """Runs a command. Returns its exit code and its output."""
    mark, output = secrets.token_hex(8), bytearray()
    try:
        async with asyncio.timeout(timeout):
            try:
                code = await _run(api, pod, _marked(mark, command), output)
            except CommandNotStarted as failure:
                if not _lacks_shell(str(failure)):
                    raise
                code = await _run(api, pod, command, output)
    except TimeoutError:
        await end_marked(api, pod, mark)
        output += f"\ndid not end within {timeout:g} s, and was ended".encode()
        return TIMED_OUT, output.decode(errors="replace").lstrip("\n")
    except CommandNotStarted as failure:
        return 127, _explain(str(failure))
    return code, output.decode(errors="replace")


async def _run(api: ClusterApi, pod: PodName, command: Sequence[str], output: bytearray) -> int:
    parameters = _parameters(command, has_input=False, has_terminal=False)
    async with api.websocket(_path(pod), parameters) as opened:
        socket = ExecutionChannels(opened)
        while piece := await socket.read():
            output += piece
            del output[:-MAX_OUTPUT_BYTES]
        return socket.exit_code()


async def end_marked(api: ClusterApi, pod: PodName, mark: str) -> None:
    """Kills all processes with this mark, from inside the container."""
    with suppress(TimeoutError, ClusterUnavailable, ClusterRefusal, CommandNotStarted):
        async with asyncio.timeout(_END_TIMEOUT):
            script = ("sh", "-c", _END_SCRIPT, f"{EXECUTION_VARIABLE}={mark}")
            await _run(api, pod, script, bytearray())


def _lacks_shell(message: str) -> bool:
    match = _NOT_FOUND_PATTERN.search(message)
    return match is not None and match[1] == "sh"


def _explain(message: str) -> str:
    if match := _NOT_FOUND_PATTERN.search(message):
        return f"There is no program {match[1]} in this instance.\n"
    return f"The command cannot be started: {message[:300]}\n"


class ExecutionRecords:
    """The files of commands in progress. Each is named after the command's mark, and names the Pod."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ending: asyncio.Task[None] | None = None

    def begin(self, pod: PodName) -> tuple[str, int]:
        """Creates and locks the file of a command. Returns the mark, and the file descriptor that holds the
        lock."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            path = self._folder / secrets.token_hex(16)
            descriptor = filelock.try_hold(path)
            if descriptor is None:
                continue
            if filelock.is_at(descriptor, path):
                os.write(descriptor, msgspec.json.encode(pod))
                return path.name, descriptor
            os.close(descriptor)

    def end(self, mark: str, descriptor: int) -> None:
        (self._folder / mark).unlink(missing_ok=True)
        os.close(descriptor)

    def look(self, api: ClusterApi) -> None:
        """Starts a background task that kills the commands of servers that were killed."""
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end_left(api))

    async def stop(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)

    async def _end_left(self, api: ClusterApi) -> None:
        for path in [*self._folder.glob("*")] if self._folder.is_dir() else ():
            descriptor = filelock.try_hold(path)
            if descriptor is None:
                continue
            try:
                with suppress(BadJson):  # an empty file: no command had begun
                    await end_marked(api, read_json(path.read_bytes(), PodName), path.name)
                path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


class KubernetesExecution:
    """A command with its input and output; see `windlass.engines.engine.Execution`."""

    def __init__(self, api: ClusterApi, pod: PodName, files: ExecutionRecords, *, has_terminal: bool) -> None:
        self._api, self._pod, self._files = api, pod, files
        self._has_terminal = has_terminal
        self._open = AsyncExitStack()
        self._ahead: deque[bytes] = deque()
        """Output that was read while the end was waited for."""
        self._socket: ExecutionChannels

    async def start(self, request: ExecutionRequest) -> None:
        async with AsyncExitStack() as opening:
            mark, descriptor = self._files.begin(self._pod)
            opening.callback(self._files.end, mark, descriptor)
            wrapper = _TERMINAL_WRAPPER if self._has_terminal else _WRAPPER
            words = _marked(mark, request.command, wrapper)
            parameters = _parameters(words, has_input=True, has_terminal=self._has_terminal)
            opened = await opening.enter_async_context(self._api.websocket(_path(self._pod), parameters))
            opening.push_async_callback(end_marked, self._api, self._pod, mark)
            self._socket = ExecutionChannels(opened)
            if request.terminal:
                await self._until_begun()
                await self.resize(request.terminal)
            self._open = opening.pop_all()

    async def _until_begun(self) -> None:
        """Waits until the command runs in its terminal."""
        said = b""
        async with asyncio.timeout(_START_PATIENCE):
            while _BEGUN not in said and (piece := await self._socket.read()):
                said += piece
                if len(said) > MAX_OUTPUT_BYTES:  # nothing else is written before the mark
                    break
        if rest := said.replace(_BEGUN, b"", 1):
            self._ahead.append(rest)

    async def read(self) -> bytes:
        return self._ahead.popleft() if self._ahead else await self._socket.read()

    async def write(self, data: bytes) -> None:
        await self._socket.write(data)

    async def end_input(self) -> None:
        if self._has_terminal:
            await self.write(_END_OF_INPUT)
        else:
            await self._socket.end_input()

    async def resize(self, size: TerminalSize) -> None:
        if self._has_terminal:
            await self._socket.resize(size)

    async def wait(self) -> int:
        while piece := await self._socket.read():
            self._ahead.append(piece)
        try:
            return self._socket.exit_code()
        except CommandNotStarted as failure:
            raise EngineError(
                _NO_SHELL if _lacks_shell(str(failure)) else _explain(str(failure))
            ) from failure

    async def close(self) -> None:
        await asyncio.shield(asyncio.ensure_future(self._open.aclose()))
