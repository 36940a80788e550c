"""Runs a command in a container, and kills all its processes after a timeout.

The engine can start a command in a container, but cannot stop it. Each command therefore gets a unique
environment variable as a mark. The processes with this mark are killed from inside the container, if its
image has a shell.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.client import Pace
from windlass.docker.client.raw_connection import pieces
from windlass.engines.engine import EngineError

MAX_OUTPUT_BYTES: Final = 64 * 1024
"""Maximum size of the output in bytes; only the end is kept."""
EXECUTION_VARIABLE: Final = "WINDLASS_EXECUTION"
MAX_OUTPUT_BYTES_PER_SECOND: Final = 1024 * 1024
"""Maximum rate at which output is read, in bytes per second. A faster command is slowed down by
back-pressure."""
END_TIMEOUT: Final = 5.0
TIMED_OUT: Final = 124
"""The exit code that the program `timeout` uses."""

_END_SCRIPT = """
for each in /proc/[0-9]*; do
    [ "${each#/proc/}" = "$$" ] || ! grep -q "$0" "$each/environ" 2>/dev/null || kill -9 "${each#/proc/}"
done
"""


async def execute(docker: Docker, container: str, command: Sequence[str], timeout: float) -> tuple[int, str]:
    mark = f"{EXECUTION_VARIABLE}={secrets.token_hex(8)}"
    output = bytearray()
    try:
        async with asyncio.timeout(timeout):
            code = await _run(docker, container, command, output, mark)
    except TimeoutError:
        await end_marked(docker, container, mark)
        output += f"\ndid not end within {timeout:g} s, and was ended".encode()
        return TIMED_OUT, _text(output).lstrip("\n")
    return code, _text(output)


async def create_command(docker: Docker, container: str, body: Mapping[str, object]) -> str:
    """Creates a command in a container. Returns its id. The caller tells `docker.commands` of its end."""
    await docker.commands.refuse_many(container)
    try:
        command = str((await docker.json("POST", f"/containers/{container}/exec", body=body))["Id"])
    except EngineRefused as refused:
        if refused.status in (404, 409):
            raise EngineError("The instance does not run") from refused
        raise
    except asyncio.CancelledError:
        docker.commands.rest(container)  # every further request would wait in the engine, too
        raise
    docker.commands.begun(container, command)
    return command


async def _run(
    docker: Docker, container: str, command: Sequence[str], output: bytearray, mark: str = ""
) -> int:
    body = {"Cmd": list(command), "AttachStdout": True, "AttachStderr": True, "Env": [mark] if mark else []}
    execution = await create_command(docker, container, body)
    begin, pace = {"Detach": False, "Tty": False}, Pace(MAX_OUTPUT_BYTES_PER_SECOND)
    async with docker.stream("POST", f"/exec/{execution}/start", body=begin, timeout=None) as answer:
        async for chunk in pieces(answer.chunks()):
            for piece in chunk:
                output += piece
            del output[:-MAX_OUTPUT_BYTES]
            await pace.keep(sum(map(len, chunk)))
    docker.commands.ended(container, execution)
    return int((await docker.json("GET", f"/exec/{execution}/json"))["ExitCode"])


async def end_marked(docker: Docker, container: str, mark: str) -> None:
    """Kills all processes of a container with this mark, from inside the container."""
    with suppress(TimeoutError, Away, EngineRefused, EngineError):
        async with asyncio.timeout(END_TIMEOUT):
            await _run(docker, container, ("sh", "-c", _END_SCRIPT, mark), bytearray())


def _text(output: bytearray) -> str:
    return output.decode(errors="replace")
