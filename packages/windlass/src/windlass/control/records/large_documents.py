"""Limits of the sizes of many large documents together.

Lists, deployments and other requests read all resources of a kind at once. So the memory that these take is
limited when a resource is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from windlass.base.errors import Conflict
from windlass.control.records.disk_shares import LARGE_BODY_BYTES, refuse_above_share
from windlass.store import Row, Tx

LARGE_DOCUMENT_BYTES: Final = 16 * 1024
"""The size of a resource that is counted. Smaller ones are limited by their number alone."""
MAX_BYTES_OF_PARENT: Final = 16 * 1024 * 1024
"""The bytes of all large resources of one family with the same parent, such as the variables of a service."""
MAX_BYTES_OF_ORGANIZATION: Final = 64 * 1024 * 1024
"""The bytes of all large resources of one family in an organization."""


async def refuse_large_change(tx: Tx, old_row: Row, new_row: Row) -> None:
    """Raises Conflict if the event of a change, which contains both documents, is large, and the organization
    exceeds its disk quota. A small request may change a large document."""
    is_much_smaller = len(new_row.body) < len(old_row.body) // 2
    if len(old_row.body) + len(new_row.body) > LARGE_BODY_BYTES and not is_much_smaller:
        await refuse_above_share(tx, new_row.org)


async def refuse_many_large(tx: Tx, row: Row, noun: str) -> None:
    """Raises Conflict if a resource, which is not stored yet, is large and would be one too many."""
    size = _large_size(row)
    if size:
        of_parent, of_org = await tx.resources.large_beside(row, LARGE_DOCUMENT_BYTES)
        _refuse_above_limits(noun, of_parent + size, of_org + size)


async def refuse_many_larger(tx: Tx, changes: Iterable[tuple[Row, Row]], noun: str) -> None:
    """Raises Conflict if resources of one family, which are not stored yet, make the large ones too many.
    `changes`: each resource before and after its change."""
    growths = Counter[str]()
    beside: dict[str, Row] = {}
    for before, after in changes:
        growths[after.parent] += _large_size(after) - _large_size(before)
        beside[after.parent] = replace(after, id="")
    whole = growths.total()
    for parent, growth in growths.items():
        if growth > 0:
            of_parent, of_org = await tx.resources.large_beside(beside[parent], LARGE_DOCUMENT_BYTES)
            _refuse_above_limits(noun, of_parent + growth, of_org + whole)


def _large_size(row: Row) -> int:
    """Returns the size of a resource; 0 if it is not large."""
    size = len(row.body) + len(row.sealed or b"")
    return size if size > LARGE_DOCUMENT_BYTES else 0


def _refuse_above_limits(noun: str, of_parent: int, of_org: int) -> None:
    if of_parent > MAX_BYTES_OF_PARENT:
        raise Conflict(_advice(noun, "here", MAX_BYTES_OF_PARENT))
    if of_org > MAX_BYTES_OF_ORGANIZATION:
        raise Conflict(_advice(noun, "of the organization", MAX_BYTES_OF_ORGANIZATION))


def _advice(noun: str, where: str, most: int) -> str:
    return (
        f"Make this {noun} smaller, or delete others: each {noun} {where} that is larger than "
        f"{LARGE_DOCUMENT_BYTES >> 10} KiB counts, and together they may have {most >> 20} MiB"
    )
