"""Starts of commands in containers that may hang.

At each start of a command, runc reads `/etc/passwd` and `/etc/group` of the container. So does the engine, if
the image names a user. A program can replace them by a FIFO. The start then hangs until the container ends,
with processes and threads of the engine's machine that no limit of the container counts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from windlass.engines.engine import EngineError

MAX_HANGING_COMMANDS: Final = 8
"""Maximum number of commands of a container whose start hangs."""
REST_SECONDS: Final = 10.0
"""Seconds for which a container takes no command after the engine did not create one in time."""
_MAX_CONTAINERS: Final = 10_000
_HANGS: Final = (
    "Restart the service: no command can be started in this instance, because the starts of others hang. A "
    "program may have replaced /etc/passwd or /etc/group"
)


class CommandStarts:
    def __init__(self, hangs: Callable[[str], Awaitable[bool]]) -> None:
        """`hangs` asks the engine whether the start of a command hangs."""
        self._hangs = hangs
        self._open: dict[str, set[str]] = {}
        """Commands by container whose end was not seen. One that was given up stays, because it may hang."""
        self._resting: dict[str, float] = {}

    async def refuse_many(self, container: str) -> None:
        """Raises EngineError if commands of a container hang at their start. Asks the engine only if many
        commands are open."""
        known = self._open.get(container, set())
        if time.monotonic() < self._resting.get(container, 0.0):
            raise EngineError(_HANGS)
        if len(known) < MAX_HANGING_COMMANDS:
            return
        for command in [*known]:
            if not await self._hangs(command):
                known.discard(command)
        if len(known) >= MAX_HANGING_COMMANDS:
            raise EngineError(_HANGS)

    def rest(self, container: str) -> None:
        """Notes that the engine did not create a command in time."""
        now = time.monotonic()
        self._resting = {each: until for each, until in self._resting.items() if now < until}
        self._resting[container] = now + REST_SECONDS

    def begun(self, container: str, command: str) -> None:
        if len(self._open) >= _MAX_CONTAINERS:
            del self._open[next(iter(self._open))]
        self._open.setdefault(container, set()).add(command)

    def ended(self, container: str, command: str) -> None:
        known = self._open.get(container, set())
        known.discard(command)
        if not known:
            self._open.pop(container, None)
