"""The clock of PostgreSQL. All servers of a database follow it, so that they agree on the ends of leases."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from windlass.base.clock import SECOND, Clock, SystemClock, uptime
from windlass.base.log import log

NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_MIN_REPORTED_DIFFERENCE: Final = 5 * SECOND
"""Smallest difference between two clocks that is reported."""
_log = log("store")


async def follow_clock(connection: asyncpg.Connection[Any], clock: Clock) -> None:
    """Sets a server's clock to the time of the database. Warns if they differ considerably."""
    if not isinstance(clock, SystemClock):
        return  # a manual clock of tests
    asked = uptime()
    shown: int = await connection.fetchval(NOW)
    apart = clock.follow(shown, uptime() - asked)
    if abs(apart) > _MIN_REPORTED_DIFFERENCE:
        _log.warning(
            "set the clock of this machine, or that of the database: they differ, and servers follow that of "
            "the database",
            extra={"seconds": apart / SECOND},
        )
