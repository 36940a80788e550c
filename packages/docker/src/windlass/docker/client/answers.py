"""Answers of the Docker engine, as they arrive. An engine may send more than it should, or never end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from windlass.base.foreign_json import BadJson, read_json

REFUSES: Final = "Check the settings of the service, or ask the operator: the Docker engine refuses"
"""Begins the message about a refusal that has no better remedy."""
_NO_ADDRESS: Final = "no available IPv4 addresses"
_NO_USER: Final = re.compile(r"unable to find (user|group) ([\w.-]{1,100}): no matching entries")


def refusal(message: str) -> str:
    """Returns what to do about the refusal of an engine to start a container, and its reason."""
    if match := _NO_USER.search(message):
        kind, name = match.groups()
        return f"Correct USER in the Dockerfile, or add the {kind} {name} there: the image has no such {kind}"
    if _NO_ADDRESS in message:
        return "Run fewer instances, or move services to another environment: the network of this one is full"
    return f"{REFUSES}: {message}"


class Away(Exception):
    """The engine does not answer; the message has the address that was tried, and the remedy."""


class WrongEngine(Away):
    """Raised if another engine answers at the address; the message does not contain the address."""


class EngineRefused(Exception):
    """The engine refused the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class AnswerTooLong(EngineRefused):
    """The engine answered with more than is read."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)


NONSENSE: Final = "Check the address: a Docker engine does not answer like this"


def decode(body: bytes, type: Any = Any) -> Any:
    """Raises EngineRefused for anything but JSON of this type, and for JSON nested too deep to be read."""
    try:
        return read_json(body, type)
    except BadJson as error:
        raise EngineRefused(500, NONSENSE) from error


def an_object(value: Any) -> dict[str, Any]:
    """Raises EngineRefused for anything but a JSON object."""
    if not isinstance(value, dict):
        raise EngineRefused(500, NONSENSE)
    return value


if TYPE_CHECKING:
    import aiohttp

CONNECTING: Final = 5.0
LONGEST_REASON: Final = 16 * 1024
LONGEST_OBJECT: Final = 1024 * 1024
"""Bytes of one object in a stream."""
LONGEST_EVENT: Final = 256 * 1024


class EngineAnswer:
    """The answer of the engine, as a stream."""

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
        """Yields JSON objects, one after the other, as builds and pulls write them."""
        rest = b""
        async for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            if max(map(len, (*lines, rest))) > LONGEST_OBJECT:
                raise EngineRefused(500, f"The Docker engine sends more than {LONGEST_OBJECT} bytes at once")
            for line in lines:
                if line.strip():
                    yield an_object(decode(line))
        if rest.strip():
            yield an_object(decode(rest))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yields events, but none that is longer than LONGEST_EVENT: the labels of any container are in its
        events."""
        rest, is_long = b"", False
        async for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip() and not is_long and len(line) <= LONGEST_EVENT:
                    yield an_object(decode(line))
                is_long = False
            if len(rest) > LONGEST_EVENT:
                rest, is_long = b"", True


async def read_short(
    response: aiohttp.ClientResponse, most: int = LONGEST_REASON, patience: float = CONNECTING
) -> bytes:
    """Reads a short answer, such as a version or the reason of a refusal; no more than its beginning."""
    kept = bytearray()
    async with asyncio.timeout(patience):
        while len(kept) < most and (more := await response.content.read(most - len(kept))):
            kept += more
    return bytes(kept)
