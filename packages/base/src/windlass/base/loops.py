"""Runs background loops for the lifetime of the process."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Final

from windlass.base.errors import DatabaseUnavailable
from windlass.base.log import log

RESTART_PAUSE: Final = 1.0
"""The seconds until a failed loop restarts."""
_DISK_FULL_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT}
_log = log("loops")


async def keep_running(loop: Callable[[], Awaitable[None]], pause: float = RESTART_PAUSE) -> None:
    """Runs a loop until it returns, and restarts it after each failure. Without a restart, the loop would end
    unnoticed."""
    while True:
        try:
            return await loop()
        except Exception as error:  # noqa: BLE001 (the loop must survive every failure)
            if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRORS:
                _log.error(
                    "free space on the disk: it is full, and a loop waits", extra={"loop": loop.__name__}
                )
            elif isinstance(error, DatabaseUnavailable):
                _log.warning("the database is away, and a loop waits", extra={"loop": loop.__name__})
            else:
                _log.exception("a loop failed and begins again", extra={"loop": loop.__name__})
        await asyncio.sleep(pause)
