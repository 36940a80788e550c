"""A server says at its start if its clock differs from that of the database."""

from __future__ import annotations

import pytest

from tests.world import HandClock
from windlass.base.clock import HOUR, SECOND, SystemClock
from windlass.store.postgres import warn_of_clock


class ConnectionToClock:
    """A connection to a database whose clock is right."""

    async def fetchval(self, statement: str) -> int:
        return SystemClock().now()


@pytest.mark.parametrize(("apart", "is_told"), [(0, False), (2 * SECOND, False), (HOUR, True), (-HOUR, True)])
async def test_a_clock_that_differs_from_that_of_the_database_is_told(caplog, apart, is_told):
    await warn_of_clock(ConnectionToClock(), HandClock(SystemClock().now() + apart))  # type: ignore[arg-type]
    assert ("set the clock of this machine" in caplog.text) is is_told
