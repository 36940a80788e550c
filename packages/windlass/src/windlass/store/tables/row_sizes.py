"""The bytes that each organization has in the database, roughly: its documents, without indexes.

Lengths of long values are known without reading these.
"""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import Table

_ROW: Final = 200
"""Bytes that a row takes beside its documents."""
_DOCUMENTS: Final = {
    "resource": ("body", "sealed"),
    "deployment": ("body", "sealed"),
    "event": ("body",),
    "run": ("body",),
    "terraform_state": ("sealed", "shown"),
    "terraform_plan": ("sealed",),
    "job_output": ("sealed",),
}


def _of_table(table: str, documents: tuple[str, ...]) -> str:
    lengths = " + ".join(f"COALESCE(LENGTH({name}), 0)" for name in documents)
    return f"SELECT org, SUM({lengths} + {_ROW}) FROM {table} GROUP BY org"


SIZES: Final = {table: _of_table(table, documents) for table, documents in _DOCUMENTS.items()}


class RowSizeTable(Table):
    __slots__ = ()

    async def all(self) -> dict[str, int]:
        """Returns the bytes of each organization."""
        sizes: dict[str, int] = {}
        for statement in SIZES.values():  # one for each table: a statement may take 30 seconds
            for org, size in await self._session.all(statement):
                sizes[org] = sizes.get(org, 0) + int(size)
        return sizes
