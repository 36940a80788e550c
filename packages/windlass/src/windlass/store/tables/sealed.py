"""The columns with sealed values. Each is declared here, with the owner that its values are bound to.

Code that seals a value gets the owner from the declaration of the column. A key rotation therefore finds all
sealed values, and opens each with the right owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.base.encryption import HEAD_BYTES
from windlass.store.tables.table import ChangeSession, Table, places

ISSUER_KEY: Final = "issuer_key"
"""Name of the fact with the key that signs sessions."""
DIGEST_KEY: Final = "digest_key"
"""Name of the fact with the key for digests. Without this fact, digests depend on the
sealing key."""
ACME_ACCOUNTS: Final = "acme_accounts"
"""Name of the fact with the accounts at authorities that give certificates, and their keys."""
_WORD: Final = ":"


class SealedValue(Struct, frozen=True, gc=False):
    key: tuple[str, ...]
    """The primary key of the row."""
    owner: tuple[str, ...]
    value: bytes


class SealedColumn(Struct, frozen=True):
    table: str
    column: str
    key: tuple[str, ...]
    """The columns of the primary key."""
    bound_to: tuple[str, ...]
    """The parts of the owner: names of columns, and fixed words after a colon."""
    only: str = ""
    """SQL condition for rows with sealed values, if other rows of the table have plain values."""

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are parts of the owner."""
        return tuple(part for part in self.bound_to if not part.startswith(_WORD))

    @property
    def condition(self) -> str:
        return f"{self.column} IS NOT NULL{f' AND {self.only}' if self.only else ''}"

    def owner(self, **values: str) -> tuple[str, ...]:
        """Returns the owner of a row's value. `values`: the row's columns, by name."""
        return tuple(part[1:] if part.startswith(_WORD) else values[part] for part in self.bound_to)


RESOURCE: Final = SealedColumn("resource", "sealed", ("id",), ("org", "id", ":hidden", "tag"))
VERSION: Final = SealedColumn("resource_version", "sealed", ("id", "tag"), RESOURCE.bound_to)
DEPLOYMENT: Final = SealedColumn("deployment", "sealed", ("id",), ("org", "id", ":wanted", ":1"))
ANSWER: Final = SealedColumn("idempotency", "answer", ("caller", "key"), ("caller", "key"))
ONCE: Final = SealedColumn("idempotency", "once", ("caller", "key"), ("caller", "key", ":once"))
FACT: Final = SealedColumn(
    "fact",
    "value",
    ("name",),
    ("name",),
    only=f"name IN ('{ISSUER_KEY}', '{DIGEST_KEY}', '{ACME_ACCOUNTS}')",
)
STATE: Final = SealedColumn("terraform_state", "sealed", ("id",), ("org", "service", "id", ":state"))
RESOURCES: Final = SealedColumn("terraform_state", "shown", ("id",), ("org", "service", "id", ":shown"))
PLAN: Final = SealedColumn(
    "terraform_plan", "sealed", ("deployment",), ("org", "service", "deployment", ":plan")
)
OUTPUTS: Final = SealedColumn("job_output", "sealed", ("job",), ("org", "job", ":outputs"))
SECOND_FACTOR: Final = SealedColumn("second_factor", "sealed", ("person",), ("person", ":second factor"))
GIT_WEBHOOK: Final = SealedColumn("git_webhook", "sealed", ("id",), ("org", "id", ":git webhook"))
REGISTRY_WEBHOOK: Final = SealedColumn(
    "registry_webhook", "sealed", ("id",), ("org", "id", ":registry webhook")
)
CERTIFICATE_KEY: Final = SealedColumn("certificate", "sealed", ("id",), ("id", ":certificate"))
ORDER_KEY: Final = SealedColumn("acme_order", "sealed", ("id",), ("id", ":order"))
COLUMNS: Final = (
    RESOURCE,
    VERSION,
    DEPLOYMENT,
    ANSWER,
    ONCE,
    FACT,
    STATE,
    RESOURCES,
    PLAN,
    OUTPUTS,
    SECOND_FACTOR,
    GIT_WEBHOOK,
    REGISTRY_WEBHOOK,
    CERTIFICATE_KEY,
    ORDER_KEY,
)


def _page(column: SealedColumn) -> str:
    key, count = ", ".join(column.key), len(column.key)
    return f"""
SELECT {", ".join((*column.key, *column.columns))}, {column.column} FROM {column.table}
WHERE ({key}) > ({places(count)}) AND {column.condition} ORDER BY {key} LIMIT ${count + 1}"""


def _replace(column: SealedColumn) -> str:
    place = " AND ".join(f"{name} = ${number}" for number, name in enumerate(column.key, 2))
    return f"""
UPDATE {column.table} SET {column.column} = $1
WHERE {place} AND {column.column} = ${len(column.key) + 2} RETURNING {column.key[0]}"""


def _count(column: SealedColumn) -> str:
    head = f"substr({column.column}, 1, {HEAD_BYTES})"
    return f"SELECT {head}, count(*) FROM {column.table} WHERE {column.condition} GROUP BY {head}"


PAGES: Final = {sealed.name: _page(sealed) for sealed in COLUMNS}
REPLACE: Final = {sealed.name: _replace(sealed) for sealed in COLUMNS}
COUNTS: Final = {sealed.name: _count(sealed) for sealed in COLUMNS}


class SealedTable(Table):
    __slots__ = ()

    async def page(self, column: SealedColumn, after_key: Sequence[str], limit: int) -> list[SealedValue]:
        """Returns up to `limit` values after a primary key, in the order of the keys."""
        rows = await self._session.all(PAGES[column.name], *after_key, limit)
        return [_value(column, row) for row in rows]

    async def counts(self) -> Mapping[bytes, int]:
        """Returns the number of values by their first bytes, which identify the key. Slow, because it reads
        all sealed values."""
        counts: dict[bytes, int] = {}
        for statement in COUNTS.values():
            for head, count in await self._session.all(statement):
                counts[bytes(head)] = counts.get(bytes(head), 0) + count
        return counts


class SealedChanges(SealedTable):
    __slots__ = ()
    _session: ChangeSession

    async def replace(self, column: SealedColumn, old_value: SealedValue, value: bytes) -> bool:
        """Replaces a sealed value. Returns False if the value was changed or removed meanwhile."""
        statement = REPLACE[column.name]
        return await self._session.one(statement, value, *old_value.key, old_value.value) is not None


def _value(column: SealedColumn, row: Sequence[str | bytes]) -> SealedValue:
    *texts, value = row
    count = len(column.key)
    values = dict(zip(column.columns, map(str, texts[count:]), strict=True))
    return SealedValue(tuple(map(str, texts[:count])), column.owner(**values), bytes(value))  # type: ignore[arg-type]
