"""Handlers that read and list resources, the same for every family."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from windlass.base.errors import Invalid
from windlass.base.fair_share import apply_to_each
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.request.hidden_fields import reveal_to_admins
from windlass.control.request.paths import parent_of, target
from windlass.control.request.permissions import (
    is_allowed_throughout,
    visible_below,
)
from windlass.core.declare.registry import Paging
from windlass.core.declare.resource import Family
from windlass.store import Reads, Row

UNPAGED = 2**31 - 1
MAX_UNPAGED_LENGTH: Final = 200_000
"""The largest length of a list that may be read without pages."""


RowFilter = Callable[[Context, Reads, Row, object], Awaitable[bool]]
"""Returns whether a row belongs to the list, by the value of a query field."""
ROW_FILTERS: dict[str, RowFilter] = {}
"""List filters by the query field that enables them."""


@reads("*.read")
async def read(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    row = await target(source, call)
    body = await reveal_to_admins(ctx, source, call, row) if call.family.redacted else row.body
    return Reply(in_dialect(call, body), row.tag)


@reads("*.list")
async def listing(ctx: Context, call: Call) -> Reply:
    source, family = ctx.store.reads, call.family
    parent = await parent_of(source, call)
    whole = is_allowed_throughout(call, parent.org)
    rows = None if whole else await visible_below(source, call.actor, parent, family)
    filters = [
        (row_filter, value)
        for name, row_filter in ROW_FILTERS.items()
        if (value := getattr(call.query, name, None))
    ]
    if rows is None and (family.redacted or filters):
        rows = await source.resources.of_parent(parent.id, family.name)
    for row_filter, value in filters:
        rows = await _matching(ctx, rows or (), row_filter, value)
    if rows is not None:
        return page_of(call, [await reveal_to_admins(ctx, source, call, row) for row in rows])
    page, size = paging(call)
    if size == UNPAGED and (length := await source.lists.length(parent.id, family.name)) > MAX_UNPAGED_LENGTH:
        raise Invalid(f"page_size: ask for pages of this list, which has {length:,} entries")
    bodies, total = await source.lists.page(parent.id, family.name, (page - 1) * size, size)
    return Reply(results(all_in_dialect(call, bodies), page, size, total))


async def _matching(ctx: Context, rows: Sequence[Row], row_filter: RowFilter, value: object) -> list[Row]:
    answers = await apply_to_each(lambda row: row_filter(ctx, ctx.store.reads, row, value), rows)
    return [row for row, is_match in zip(rows, answers, strict=True) if is_match]


def paging(call: Call) -> tuple[int, int]:
    """Returns the page number and size. Clients of the full interface that request no page get the whole
    list."""
    if call.dialect.is_full and not call.paging_asked:
        return 1, UNPAGED
    asked = call.asked(Paging)
    return asked.page, asked.page_size


def slice_of(call: Call) -> slice:
    """Returns the slice of a list for the requested page."""
    page, size = paging(call)
    return slice((page - 1) * size, page * size)


def page_of(call: Call, bodies: list[bytes]) -> Reply:
    """Returns the requested page of a list in memory."""
    return Reply(results(all_in_dialect(call, bodies[slice_of(call)]), *paging(call), len(bodies)))


def with_fields(body: bytes, fields: Mapping[str, object]) -> bytes:
    """Returns a JSON object with additional fields at its end."""
    return body[:-1] + b"," + encode(fields)[1:]


def in_dialect(call: Call, body: bytes, family: Family | None = None) -> bytes:
    """Returns a document in the caller's dialect. Stored documents use the dialect of the contract. `family`
    overrides the operation's family."""
    family = family or call.operation.family
    if family is None or family.in_full is None or not call.dialect.is_full:
        return body
    return encode(family.in_full(msgspec.json.decode(body)))


def all_in_dialect(call: Call, bodies: list[bytes]) -> list[bytes]:
    return bodies if not call.dialect.is_full else [in_dialect(call, body) for body in bodies]
