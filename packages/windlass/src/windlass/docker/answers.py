"""Answers of the Docker engine, as they arrive. An engine may send more than it should, or never end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from windlass.docker.decoding import an_object, decode
from windlass.docker.failures import EngineRefused

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
                raise EngineRefused(500, f"The Docker engine says more than {LONGEST_OBJECT} bytes at once")
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
