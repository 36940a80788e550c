"""Streamed answers of the Docker engine. Their size is limited, because an engine may send too much, or never
end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from windlass.base.foreign_json import BadJson, read_json

REFUSED_PREFIX: Final = "Check the settings of the service, or ask the operator: the Docker engine refuses"
"""Prefix of the error message for a refusal without a specific remedy."""
_NO_ADDRESS: Final = "no available IPv4 addresses"
_NO_USER_PATTERN: Final = re.compile(r"unable to find (user|group) ([\w.-]{1,100}): no matching entries")


def refusal(message: str) -> str:
    """Returns the remedy and the reason for the engine's refusal to start a container."""
    if match := _NO_USER_PATTERN.search(message):
        kind, name = match.groups()
        return f"Correct USER in the Dockerfile, or add the {kind} {name} there: the image has no such {kind}"
    if _NO_ADDRESS in message:
        return "Run fewer instances, or move services to another environment: the network of this one is full"
    return f"{REFUSED_PREFIX}: {message}"


class Away(Exception):
    """Raised if the engine is unavailable. The message contains the address and a remedy."""


class WrongEngine(Away):
    """Raised if another engine answers at the address. The message does not contain the address."""


class EngineRefused(Exception):
    """Raised if the engine refuses a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class AnswerTooLong(EngineRefused):
    """Raised if an answer exceeds its size limit."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)


NOT_AN_ENGINE: Final = "Check the address: a Docker engine does not answer like this"


def decode(body: bytes, type: Any = Any) -> Any:
    """Decodes JSON of a type. Raises EngineRefused for any other content, including JSON that is nested too
    deeply."""
    try:
        return read_json(body, type)
    except BadJson as error:
        raise EngineRefused(500, NOT_AN_ENGINE) from error


def an_object(value: Any) -> dict[str, Any]:
    """Returns the value if it is a JSON object. Raises EngineRefused for any other value."""
    if not isinstance(value, dict):
        raise EngineRefused(500, NOT_AN_ENGINE)
    return value


if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT: Final = 5.0
MAX_REASON_BYTES: Final = 16 * 1024
MAX_OBJECT_BYTES: Final = 1024 * 1024
"""Maximum size of one object in a stream, in bytes."""
MAX_EVENT_BYTES: Final = 256 * 1024


class EngineAnswer:
    """An answer of the engine, as a stream."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        translated: Callable[[], AbstractContextManager[None]],
        keep_pace: Callable[[int], Awaitable[None]],
    ) -> None:
        self.response = response
        self._translated, self._keep_pace = translated, keep_pace

    async def chunks(self) -> AsyncIterator[bytes]:
        with self._translated():
            async for chunk in self.response.content.iter_any():
                yield chunk
                await self._keep_pace(len(chunk))

    async def objects(self) -> AsyncIterator[dict[str, Any]]:
        """Yields the JSON objects of a stream, such as the progress of a build or a pull."""
        rest = bytearray()
        async for chunk in self.chunks():
            lines = _whole_lines(rest, chunk)
            if max(map(len, (*lines, rest))) > MAX_OBJECT_BYTES:
                raise EngineRefused(
                    500, f"The Docker engine sends more than {MAX_OBJECT_BYTES} bytes at once"
                )
            for line in lines:
                if line.strip():
                    yield an_object(decode(line))
        if rest.strip():
            yield an_object(decode(bytes(rest)))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yields events. Skips events longer than MAX_EVENT_BYTES: an event contains its container's labels,
        which can be long."""
        rest, is_long = bytearray(), False
        async for chunk in self.chunks():
            for line in _whole_lines(rest, chunk):
                if line.strip() and not is_long and len(line) <= MAX_EVENT_BYTES:
                    yield an_object(decode(line))
                is_long = False
            if len(rest) > MAX_EVENT_BYTES:
                rest.clear()
                is_long = True


def _whole_lines(incomplete_line: bytearray, chunk: bytes) -> list[bytes]:
    """Adds a chunk to the rest of a stream, and removes the lines that are complete. The rest of a long line
    is not copied for each chunk, because an engine may send single bytes."""
    incomplete_line += chunk
    if b"\n" not in chunk:
        return []
    *lines, last = bytes(incomplete_line).split(b"\n")
    incomplete_line[:] = last
    return lines


async def read_short(
    response: aiohttp.ClientResponse, limit: int = MAX_REASON_BYTES, timeout: float = CONNECT_TIMEOUT
) -> bytes:
    """Reads at most the first `limit` bytes of a short answer, such as a version or an error message."""
    kept = bytearray()
    async with asyncio.timeout(timeout):
        while len(kept) < limit and (more := await response.content.read(limit - len(kept))):
            kept += more
    return bytes(kept)
