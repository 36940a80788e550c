"""The clock of PostgreSQL, which all servers of a database follow: they judge each other's leases by it."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from windlass.base.clock import SECOND, Clock, SystemClock, uptime
from windlass.base.log import log

NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_APART: Final = 5 * SECOND
"""The difference that is reported."""
_log = log("store")


async def follow_clock(connection: asyncpg.Connection[Any], clock: Clock) -> None:
    """Makes the clock of a server follow that of the database; warns if they are far apart."""
    if not isinstance(clock, SystemClock):
        return  # one that is turned by hand
    asked = uptime()
    shown: int = await connection.fetchval(NOW)
    apart = clock.follow(shown, uptime() - asked)
    if abs(apart) > _APART:
        _log.warning(
            "set the clock of this machine, or that of the database: they differ, and servers follow that of "
            "the database",
            extra={"seconds": apart / SECOND},
        )
