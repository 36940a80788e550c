"""The checks of domains, with limited concurrency: each asks name servers often.

All organizations share the questions that wait for an answer at a time, and the owner of a name decides how
long its name servers take.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from windlass.base.errors import Unavailable

MAX_CHECKS_OF_ORG: Final = 2
"""The number of requests of one organization that check domains at a time. Further ones wait."""
MAX_LOOKS_OF_ORG: Final = 8
"""The number of domains of one organization whose records are looked at in a row, at a time."""
_WAIT_TIMEOUT: Final = 15.0


class DomainChecks:
    def __init__(self) -> None:
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self._looks: dict[str, asyncio.Semaphore] = {}

    def look_room(self, org: str) -> asyncio.Semaphore:
        """Returns the room for looks at one domain after the other: of the worker, or of a whole service."""
        return self._looks.setdefault(org, asyncio.Semaphore(MAX_LOOKS_OF_ORG))

    @asynccontextmanager
    async def room(self, org: str) -> AsyncIterator[None]:
        """Waits for the checks of an organization. Raises Unavailable if they take too long."""
        room = self._rooms.setdefault(org, asyncio.Semaphore(MAX_CHECKS_OF_ORG))
        try:
            async with asyncio.timeout(_WAIT_TIMEOUT):
                await room.acquire()
        except TimeoutError as error:
            raise Unavailable(
                "Check domains again in a few seconds: others of this organization are being checked now",
                {"retry-after": "5"},
            ) from error
        try:
            yield
        finally:
            room.release()
