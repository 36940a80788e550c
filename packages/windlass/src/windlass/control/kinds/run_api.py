"""The requests that runs of a kind send to this server, at their own paths.

A kind that has it answers below `/{word}/{service}/`, whatever the method. The API reads the request; the
kind knows which run has sent it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.store import DeploymentRow


class RunMessage(Struct, frozen=True):
    """A request of a run."""

    service: str
    method: str
    what: str
    """The rest of the path, such as `state`, or `plan/…`."""
    query: Mapping[str, str]
    body: bytes


class RunAnswer(Struct, frozen=True):
    body: bytes
    status: int = 200


class RunApi(Protocol):
    """Requests of the runs of a kind."""

    word: str
    """The first part of their paths."""
    operation: str
    """Their name in metrics and logs."""

    def most_bytes(self, settings: Settings) -> int:
        """Returns the length that a body may have."""
        ...

    async def find_run(
        self, ctx: Context, service: str, what: str, authorization: bytes | None
    ) -> DeploymentRow:
        """Returns the run that sends a request; raises Unauthorized for any other sender."""
        ...

    async def answer(self, ctx: Context, run: DeploymentRow, request: RunMessage) -> RunAnswer:
        """Answers a request of a run; raises a Failure."""
        ...
