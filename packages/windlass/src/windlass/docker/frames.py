"""The two streams of a container in one, as the engine sends them: a kind and a length before each piece."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from struct import Struct as Layout
from typing import Final

from windlass.docker.failures import EngineRefused

HEAD: Final = Layout(">BxxxI")
LONGEST: Final = 1024 * 1024
"""Bytes of one piece; an engine cuts what is written at 16 KB, or at what was written at once."""


class Frames:
    """Takes bytes as they come, gives whole pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        data = self._rest + chunk if self._rest else chunk
        pieces, at, end = [], 0, len(data)
        while end - at >= HEAD.size:
            _, length = HEAD.unpack_from(data, at)
            if length > LONGEST:
                raise EngineRefused(500, f"The Docker engine announces a piece of {length} bytes")
            upto = at + HEAD.size + length
            if upto > end:
                break
            pieces.append(data[at + HEAD.size : upto])
            at = upto
        self._rest = data[at:]
        return pieces


async def pieces(chunks: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    """As many at a time as arrived together."""
    frames = Frames()
    async for chunk in chunks:
        if complete := frames.feed(chunk):
            yield complete
