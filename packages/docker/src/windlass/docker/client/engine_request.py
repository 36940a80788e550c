"""Requests of the Docker client. This module loads aiohttp, so it is only imported for the first request."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aiohttp import ClientConnectionError, ClientRequest


class EngineRequest(ClientRequest):
    """A request that tolerates a connection that closes before the request is sent.

    aiohttp sends a request in a separate task; the caller notices the closed connection when it waits for the
    answer. Without this class, the event loop would additionally log the task's exception.
    """

    async def write_bytes(self, *args: Any, **kwargs: Any) -> None:
        with suppress(ClientConnectionError):
            await super().write_bytes(*args, **kwargs)
