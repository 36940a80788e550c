"""Figures of the whole installation for metrics, read by one statement.

For large tables, the statement reads a limited number of rows.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.store.tables.certificates import RENEWAL_GRACE_MILLISECONDS
from windlass.store.tables.deployments import OPEN_STATES
from windlass.store.tables.table import Table

MAX_COUNTED_ROWS: Final = 10_000
"""Limit for the number of rows that are counted, per sort."""

# A recursive query finds the next queue through the index, without reading the rows between them.
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
) AS services GROUP BY state
UNION ALL
SELECT 'certificates', origin, 0, count(*), min(expires), 0 FROM certificate GROUP BY origin
UNION ALL
SELECT 'renewals', '', 0, count(*), 0, 0 FROM certificate
WHERE origin = 'ACME' AND renew < $1 - {RENEWAL_GRACE_MILLISECONDS}"""


class Figure(Struct, frozen=True, gc=False):
    sort: str
    """The subject: `due`, `held`, `deployments`, `deliveries`, `receivers`, `sessions`, `services`,
    `certificates` or `renewals`."""
    state: str
    """The state of the counted deployments or services, or the origin of the certificates; empty for other
    sorts."""
    queue: int
    """The number of the work queue; 0 for other sorts."""
    count: int
    oldest: int
    """The time of the oldest row, or the first end of a certificate; 0 if no time is read."""
    instances: int
    """The number of instances that the counted services should have; 0 for other sorts."""


class FigureTable(Table):
    __slots__ = ()

    async def all(self, now: int) -> list[Figure]:
        rows = await self._session.all(FIGURES, now, MAX_COUNTED_ROWS)
        return [
            Figure(sort, state, queue, count, oldest, int(instances))
            for sort, state, queue, count, oldest, instances in rows
        ]
