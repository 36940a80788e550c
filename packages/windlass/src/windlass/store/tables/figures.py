"""Figures of the whole installation for operators, read by one statement.

Of a table that grows it reads a bounded part.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.store.tables.deployments import OPEN_STATES
from windlass.store.tables.table import Table

MOST_COUNTED: Final = 10_000
"""The number of rows of one sort that are counted; there may be more."""

# From one queue to the next by the index, whatever lies between.
FIGURES: Final = f"""
WITH RECURSIVE waiting (lane) AS (
    SELECT min(lane) FROM work WHERE lease = 0
    UNION ALL
    SELECT (SELECT min(lane) FROM work WHERE lease = 0 AND work.lane > waiting.lane)
    FROM waiting WHERE waiting.lane IS NOT NULL
)
SELECT 'due', '', lane, (
    SELECT count(*) FROM (
        SELECT 1 FROM work WHERE work.lane = waiting.lane AND lease = 0 AND due <= $1 LIMIT $2
    ) AS pieces
), (SELECT min(due) FROM work WHERE work.lane = waiting.lane AND lease = 0), 0
FROM waiting WHERE lane IS NOT NULL
UNION ALL
SELECT 'held', '', lane, count(*), 0, 0 FROM work WHERE lease > 0 GROUP BY lane
UNION ALL
SELECT 'deployments', status, 0, count(*), min(created), 0 FROM (
    SELECT status, created FROM deployment WHERE status IN ({OPEN_STATES}) LIMIT $2
) AS deployments GROUP BY status
UNION ALL
SELECT 'deliveries', '', 0, count(*), COALESCE(min(created), 0), 0 FROM (
    SELECT created FROM delivery WHERE state = 'WAITING' LIMIT $2
) AS deliveries
UNION ALL
SELECT 'receivers', '', 0, count(*), COALESCE(min(failing), 0), 0 FROM (
    SELECT failing FROM receiver WHERE failing > 0 LIMIT $2
) AS receivers
UNION ALL
SELECT 'sessions', '', 0, count(*), 0, 0 FROM (
    SELECT 1 FROM browser_session WHERE is_open = 1 AND ends_at > $1 LIMIT $2
) AS sessions
UNION ALL
SELECT 'services', state, 0, count(*), 0, COALESCE(sum(instances), 0) FROM (
    SELECT state, CASE WHEN serving IS NULL THEN 0 ELSE instances END AS instances
    FROM status WHERE deployments > 0 LIMIT $2
) AS services GROUP BY state"""


class Figure(Struct, frozen=True, gc=False):
    sort: str
    """`due`, `held`, `deployments`, `deliveries`, `receivers`, `sessions` or `services`."""
    state: str
    """The state of these deployments or services; empty for other sorts."""
    queue: int
    """The queue of this work; 0 for other sorts."""
    count: int
    oldest: int
    """The time of the oldest; 0 where no time is read."""
    instances: int
    """The instances that these services should have; 0 for other sorts."""


class FigureTable(Table):
    __slots__ = ()

    async def all(self, now: int) -> list[Figure]:
        rows = await self._session.all(FIGURES, now, MOST_COUNTED)
        return [
            Figure(sort, state, queue, count, oldest, int(instances))
            for sort, state, queue, count, oldest, instances in rows
        ]
