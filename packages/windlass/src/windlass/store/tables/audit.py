"""The search for events of an organization, with the most selective index. Read-only."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from windlass.store.tables.events import SIZE, EventRow
from windlass.store.tables.table import NEVER, RowList, Table, columns

_MOST_KINDS, _MAX_FAMILIES = 4, 2
_INDEXED = ("subject", "environment", "project")
"""Columns with an index of their own, the most selective first."""


class EventFilter(Struct, frozen=True, kw_only=True):
    """A filter for events. An empty value matches every event."""

    org: str
    since: int = 0
    until: int = NEVER
    kinds: tuple[str, ...] = ()
    """At most four kinds."""
    subject_families: tuple[str, ...] = ()
    """At most two families."""
    family: str = ""
    subject: str = ""
    actor: str = ""
    origin: str = ""
    project: str = ""
    environment: str = ""

    @property
    def is_selective(self) -> bool:
        """Whether only a few of the events that are read match the filter."""
        named = [name for name in _INDEXED if getattr(self, name)]
        others = [self.kinds, self.subject_families, self.family, self.actor, self.origin, *named[1:]]
        return any(others) or self.since > 0 or self.until < NEVER

    @property
    def base(self) -> tuple[str, str]:
        """The filter's column with the most selective index, and the value to find."""
        for name in _INDEXED:
            if value := getattr(self, name):
                return name, value
        return "org", self.org

    @property
    def values(self) -> tuple[Any, ...]:
        return (
            self.org, self.since, self.until,
            *_fill(self.kinds, _MOST_KINDS), *_fill(self.subject_families, _MAX_FAMILIES),
            self.family, self.subject, self.actor, self.origin, self.project, self.environment,
        )  # fmt: skip


def _fill(values: tuple[str, ...], places: int) -> tuple[str, ...]:
    """Pads values to a number of placeholders by repeating the first value."""
    assert len(values) <= places
    return (*values, *[values[0] if values else ""] * (places - len(values)))


_COLUMNS: Final = columns(EventRow)
_MATCHES: Final = """
    AND org = $4 AND at >= $5 AND at <= $6
    AND ($7 = '' OR kind IN ($7, $8, $9, $10))
    AND ($11 = '' OR subject_family IN ($11, $12))
    AND ($13 = '' OR family = $13) AND ($14 = '' OR subject = $14)
    AND ($15 = '' OR actor = $15) AND ($16 = '' OR origin = $16)
    AND ($17 = '' OR project = $17) AND ($18 = '' OR environment = $18)"""


def _older(base: str, selected: str) -> str:
    where = f"{base} AND seq < $2 AND seq >= $3 {_MATCHES}"
    return f"SELECT {selected} FROM event WHERE {where} ORDER BY seq DESC LIMIT $19"


def _newer(base: str, selected: str) -> str:
    where = f"{base} AND seq > $2 AND seq <= $3 {_MATCHES}"
    return f"SELECT {selected} FROM event WHERE {where} ORDER BY seq LIMIT $19"


# The second part repeats the condition of the partial index, as both databases require.
_BASES: Final = {
    "org": "org = $1",
    **{name: f"{name} = $1 AND {name} <> ''" for name in _INDEXED},
}
OLDER: Final = {name: _older(base, _COLUMNS) for name, base in _BASES.items()}
SIZES_OF_OLDER: Final = {name: _older(base, SIZE) for name, base in _BASES.items()}
NEWER: Final = {name: _newer(base, _COLUMNS) for name, base in _BASES.items()}
SIZES_OF_NEWER: Final = {name: _newer(base, SIZE) for name, base in _BASES.items()}


class AuditSearch(Table):
    __slots__ = ()

    async def older(
        self, filter: EventFilter, below_number: int, down_to: int, limit: int
    ) -> RowList[EventRow]:
        """Returns matching events below a number, the newest first."""
        column, value = filter.base
        rows = await self._some(
            OLDER[column], SIZES_OF_OLDER[column], value, below_number, down_to, *filter.values, limit=limit
        )
        return RowList((EventRow(*row) for row in rows), is_cut=rows.is_cut)

    async def newer(
        self, filter: EventFilter, above_number: int, up_to: int, limit: int
    ) -> RowList[EventRow]:
        """Returns matching events above a number, the oldest first."""
        column, value = filter.base
        rows = await self._some(
            NEWER[column], SIZES_OF_NEWER[column], value, above_number, up_to, *filter.values, limit=limit
        )
        return RowList((EventRow(*row) for row in rows), is_cut=rows.is_cut)
