"""Answers lists of the full interface that are not there yet, to its clients: they are empty."""

from __future__ import annotations

from typing import NamedTuple

from windlass.api.answers import HttpAnswer
from windlass.api.requests import Request
from windlass.control.context.context import Context
from windlass.control.request.permissions import absent, is_visible
from windlass.core.access import Actor
from windlass.core.words.later_lists import holder_of

_EMPTY = b'{"results":[],"page":1,"page_size":20}'


class LaterList(NamedTuple):
    """A list that is not there yet, by the resource to which it belongs."""

    family: str
    id: str

    async def answer(self, ctx: Context, actor: Actor) -> HttpAnswer:
        """Returns the empty list. Raises Missing unless the caller may read the resource."""
        row = await ctx.store.reads.resources.find(self.family, self.id)
        if row is None or not await is_visible(ctx.store.reads, actor, row):
            raise absent(ctx.registry[self.family].noun)
        return HttpAnswer(200, _EMPTY)


def later_list_of(request: Request) -> LaterList | None:
    """Returns the list that a client of the full interface reads; None for other requests."""
    is_read = request.dialect.is_full and request.method in {"GET", "HEAD"}
    holder = holder_of(request.path) if is_read else None
    return LaterList(*holder) if holder else None
