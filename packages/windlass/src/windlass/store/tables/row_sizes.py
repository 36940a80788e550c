"""The approximate size of each organization in the database: its documents, without indexes.

Databases return the length of a long value without reading the value.
"""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import Table

_ROW_BYTES: Final = 200
"""Estimated bytes of a row in addition to its documents."""
_DOCUMENTS: Final = {
    "resource": ("body", "sealed"),
    "resource_version": ("body", "sealed"),
    "deployment": ("body", "sealed"),
    "event": ("body",),
    "run": ("body",),
    "terraform_state": ("sealed", "shown"),
    "terraform_plan": ("sealed",),
    "job_output": ("sealed",),
}


def _of_table(table: str, documents: tuple[str, ...]) -> str:
    lengths = " + ".join(f"COALESCE(LENGTH({name}), 0)" for name in documents)
    return f"SELECT org, SUM({lengths} + {_ROW_BYTES}) FROM {table} GROUP BY org"


_OF_INPUTS: Final = f"""
SELECT resource.org, SUM(LENGTH(deployment_inputs.body) + {_ROW_BYTES})
FROM deployment_inputs JOIN resource ON resource.id = deployment_inputs.service GROUP BY resource.org"""
_OF_ANSWERS: Final = f"""
SELECT resource.org, SUM(LENGTH(idempotency.answer) + {_ROW_BYTES})
FROM idempotency CROSS JOIN resource
WHERE SUBSTR(idempotency.caller, 1, 6) = 'token:' AND resource.id = SUBSTR(idempotency.caller, 7)
GROUP BY resource.org"""
SIZE_BY_TABLE: Final = {
    **{table: _of_table(table, documents) for table, documents in _DOCUMENTS.items()},
    "deployment_inputs": _OF_INPUTS,
    "idempotency": _OF_ANSWERS,
}


class RowSizeTable(Table):
    __slots__ = ()

    async def all(self) -> dict[str, int]:
        """Returns the number of bytes, by organization."""
        sizes: dict[str, int] = {}
        for statement in SIZE_BY_TABLE.values():  # one per table: statements have a time limit
            for org, size in await self._session.all(statement):
                sizes[org] = sizes.get(org, 0) + int(size)
        return sizes
