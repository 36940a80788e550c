"""Changes for the tests of transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.store.stores import add
from windlass.store import Row, Tx

MEGABYTE = b"x" * 1_000_000


class Mishap(Exception):
    """Raised by a change that fails."""


async def fails_late(tx: Tx) -> None:
    await add(tx, "never seen")
    raise Mishap


def adds(name: str, **options: Any) -> Callable[[Tx], Awaitable[Row]]:
    return lambda tx: add(tx, name, **options)


async def together(*changes: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*changes, return_exceptions=True)
