"""Requests of the Docker client. This module loads aiohttp, so it is imported with the first request."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aiohttp import ClientConnectionError, ClientRequest


class EngineRequest(ClientRequest):
    """A request whose connection may close before it is sent.

    aiohttp sends a request in a task, and its caller learns of a closed connection while it waits for the
    answer. Without this class, the event loop would report the end of the task as its own error.
    """

    async def write_bytes(self, *args: Any, **kwargs: Any) -> None:
        with suppress(ClientConnectionError):
            await super().write_bytes(*args, **kwargs)
