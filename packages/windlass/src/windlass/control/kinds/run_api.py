"""The API through which runs of a kind send requests to this server, on their own paths.

A kind with a run API handles all methods below `/{word}/{service}/`. The HTTP API parses the request, and the
kind authenticates the run.
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
    """Handles the requests of a kind's runs."""

    word: str
    """The first part of the paths."""
    operation: str
    """The name of the requests in metrics and logs."""

    def most_bytes(self, settings: Settings) -> int:
        """Returns the largest allowed length of a body."""
        ...

    async def find_run(
        self, ctx: Context, service: str, run_id: str, authorization: bytes | None
    ) -> DeploymentRow:
        """Returns the run that sent a request. Raises Unauthorized for any other sender."""
        ...

    async def answer(self, ctx: Context, run: DeploymentRow, request: RunMessage) -> RunAnswer:
        """Handles a request of a run. Raises a Failure."""
        ...
