"""Limits of the sizes of many large documents together.

Lists, deployments and other requests read all resources of a kind at once. So the memory that these take is
limited when a resource is stored.
"""

from __future__ import annotations

from typing import Final

from windlass.base.errors import Conflict
from windlass.control.records.disk_shares import LARGE_BODY_BYTES, refuse_above_share
from windlass.store import Row, Tx

LARGE_DOCUMENT_BYTES: Final = 16 * 1024
"""The size of a resource that is counted. Smaller ones are limited by their number alone."""
MAX_BYTES_OF_PARENT: Final = 16 * 1024 * 1024
"""The bytes of all large resources of one family with the same parent, such as the variables of a service."""
MAX_BYTES_OF_ORGANIZATION: Final = 64 * 1024 * 1024
"""The bytes of all large resources of one family in an organization."""


async def refuse_large_change(tx: Tx, before: Row, after: Row) -> None:
    """Raises Conflict if the event of a change, which contains both documents, is large, and the organization
    exceeds its disk quota. A small request may change a large document."""
    is_much_smaller = len(after.body) < len(before.body) // 2
    if len(before.body) + len(after.body) > LARGE_BODY_BYTES and not is_much_smaller:
        await refuse_above_share(tx, after.org)


async def refuse_many_large(tx: Tx, row: Row, noun: str) -> None:
    """Raises Conflict if a resource, which is not stored yet, is large and would be one too many."""
    size = len(row.body) + len(row.sealed or b"")
    if size <= LARGE_DOCUMENT_BYTES:
        return
    of_parent, of_org = await tx.resources.large_beside(row, LARGE_DOCUMENT_BYTES)
    if of_parent + size > MAX_BYTES_OF_PARENT:
        raise Conflict(_advice(noun, "here", MAX_BYTES_OF_PARENT))
    if of_org + size > MAX_BYTES_OF_ORGANIZATION:
        raise Conflict(_advice(noun, "of the organization", MAX_BYTES_OF_ORGANIZATION))


def _advice(noun: str, where: str, most: int) -> str:
    return (
        f"Make this {noun} smaller, or delete others: each {noun} {where} that is larger than "
        f"{LARGE_DOCUMENT_BYTES >> 10} KiB counts, and together they may have {most >> 20} MiB"
    )
