"""Reads a log: its last lines as a list, or as a stream that continues with new lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing, suppress
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from windlass.base.errors import Missing
from windlass.base.segments import Gone, LineFilter, id_of, line_filter, moment
from windlass.control.context.call import Call, Dialect, Reply, reads, results
from windlass.control.context.context import Context
from windlass.control.records.reachability import check_here
from windlass.control.reporting import frames
from windlass.control.request.paths import target
from windlass.core.access import Actor
from windlass.core.declare.queries import ServiceTail, Tail
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.families.environment import EnvironmentShown, environment
from windlass.store import Row, status_topic

T = TypeVar("T")
Lines: TypeAlias = AsyncGenerator[list[bytes] | Gone, None]

_FIRST_LINE_TIMEOUT, _NEXT_LINE_TIMEOUT = 1.0, 0.2
_MISSING_LINES_REMARK = frames.missing_remark(
    "Lines that should come here are no longer kept: the log has grown too large or too old"
)


@reads("*.log")
async def read_log(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    return await log_reply(ctx, call, service, access=call.asked(ServiceTail).access)


IsOver = Callable[[], Awaitable[bool]]
"""Returns whether the deployment or run of a log has ended."""


async def log_reply(
    ctx: Context,
    call: Call,
    row: Row,
    deployment: str | None = None,
    *,
    version: str = "",
    is_over: IsOver | None = None,
    access: bool = False,
) -> Reply:
    """Returns the log of a service, of one of its builds, or of a `version`, which is the id of a deployment
    or run. `access` chooses the access log of the service. A followed log ends once `is_over` returns true.
    Callers must have checked the permission."""
    service, query = row.id, call.asked(Tail)
    await check_here(ctx, service)
    wanted = _filter_of(query, version)
    if query.follow:
        lines = ctx.logs.follow(
            service, query.tail, wanted, after_line=call.last_event, deployment=deployment, access=access
        )
        if deployment is not None:
            is_over = partial(has_ended, ctx, deployment)
        return Reply(
            stream=_events(lines if is_over is None else until_over(ctx, service, is_over, lines)),
            org=row.org,
        )
    if wanted.takes_all:
        return Reply(results(ctx.logs.tail(service, query.tail, deployment=deployment, access=access)))
    # A search for a few lines may scan the whole log.
    matching = await asyncio.to_thread(
        ctx.logs.tail, service, query.tail, wanted, deployment=deployment, access=access
    )
    return Reply(results(matching))


async def follow_log(
    ctx: Context, actor: Actor, dialect: Dialect, service: str, allowed_ids: Collection[str], line_count: int
) -> tuple[str, Lines]:
    """Returns the organization and a stream of the log of a service of any family. The stream begins with the
    last lines. Raises Missing unless the service belongs to all resources in `allowed_ids`."""
    service_row = await ctx.store.reads.resources.get(service)
    if service_row and (reading := ctx.registry.handled_by(f"{service_row.family}.log")):
        call = Call(operation=reading[0], actor=actor, ids=(service,), dialect=dialect)
        with suppress(Missing):
            row = await target(ctx.store.reads, call)
            if await lies_in(ctx, row, allowed_ids):
                await check_here(ctx, row.id)
                return row.org, ctx.logs.follow(service, line_count)
    raise Missing("No service with this id was found there: check the ids of the request")


async def lies_in(ctx: Context, row: Row, allowed_ids: Collection[str]) -> bool:
    """Returns whether a service belongs to all resources with these ids, including its cluster."""
    above = await ctx.store.reads.tree.above(row.id)
    home = {row.family: row for row in above}.get(environment.name)
    clusters = {home.read(EnvironmentShown).cluster_id} if home else set()
    return {row.id for row in above} | clusters >= set(allowed_ids)


async def _events(lines: Lines) -> AsyncGenerator[bytes, None]:
    async with aclosing(lines):
        async for piece in lines:
            yield (
                _MISSING_LINES_REMARK
                if isinstance(piece, Gone)
                else b"".join([frames.event(id_of(line), line) for line in piece])
            )
    yield frames.END_REMARK


async def until_over(ctx: Context, service: str, is_over: IsOver, lines: Lines) -> Lines:
    """Yields lines until the deployment or run has ended and all earlier lines were read."""
    changed = ctx.nudges.expect(status_topic(service))
    over, patience = False, _FIRST_LINE_TIMEOUT
    async with aclosing(lines):
        following = asyncio.ensure_future(anext(lines, None))
        try:
            while True:
                if await _arrives_in_time(following, patience, None if over else changed):
                    if (piece := following.result()) is None:
                        return
                    yield piece
                    patience = _NEXT_LINE_TIMEOUT  # only the first line may take longer, because of a search
                    following = asyncio.ensure_future(anext(lines, None))
                elif over:
                    return
                else:
                    changed.clear()
                    over = await is_over()
        finally:
            ctx.nudges.forget(status_topic(service), changed)
            following.cancel()
            await asyncio.wait([following])


async def _arrives_in_time(
    following: asyncio.Future[T], timestamp: float, change_event: asyncio.Event | None
) -> bool:
    """Returns whether a line arrives before the deployment changes or, after its end, within a moment."""
    if change_event is None:
        await asyncio.wait([following], timeout=timestamp)
        return following.done()
    ringing = asyncio.ensure_future(change_event.wait())
    waited: set[asyncio.Future[T] | asyncio.Future[Literal[True]]] = {following, ringing}
    try:
        await asyncio.wait(waited, timeout=_FIRST_LINE_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ringing.cancel()
    return following.done()


async def has_ended(ctx: Context, deployment: str) -> bool:
    """Returns whether a deployment has ended."""
    row = await ctx.store.reads.deployments.get(deployment)
    return row is None or row.status not in OPEN_STATES_OF_DEPLOYMENTS


def _filter_of(query: Tail, version: str) -> LineFilter:
    since, until = (moment(text) if text else None for text in (query.since, query.until))
    return line_filter(since, until, query.search, version=version)
