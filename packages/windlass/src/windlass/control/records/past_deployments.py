"""Reads past deployments in small batches, because rows are large and searches usually end after
a few rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from windlass.base.fair_share import FairShare
from windlass.control.context.context import Context
from windlass.store import NEVER, DeploymentRow

_AT_ONCE: Final = 10
_OF_ENVIRONMENT_AT_ONCE: Final = 50


async def newest_first(
    ctx: Context, service: str, limit: int, timestamp: int | None = None
) -> AsyncIterator[DeploymentRow]:
    """Yields the deployments of a service, newest first, beginning at `timestamp` if it is set. Pauses
    regularly, so that other tasks can run."""
    reads, share = ctx.store.reads.deployments, FairShare()
    newest = NEVER if timestamp is None else await reads.number_at(service, timestamp)
    for _ in range(0, limit, _AT_ONCE):
        rows = await reads.latest(service, _AT_ONCE, newest)
        for row in rows:
            yield row
        if len(rows) < _AT_ONCE:
            return
        newest = rows[-1].number - 1
        await share.pause()


async def moments(
    ctx: Context, environment: str, limit: int, timestamp: int | None = None
) -> AsyncIterator[list[DeploymentRow]]:
    """Yields the deployments of an environment that were requested at one moment, the newest moment first,
    beginning at `timestamp` if it is set."""
    share, moment, before = FairShare(), list[DeploymentRow](), NEVER if timestamp is None else timestamp + 1
    after_id = ""
    for _ in range(0, limit, _OF_ENVIRONMENT_AT_ONCE):
        rows = await ctx.store.reads.deployments.of_environment(
            environment, before, after_id, _OF_ENVIRONMENT_AT_ONCE
        )
        for row in rows:
            if moment and moment[0].created != row.created:
                yield moment
                moment = []
            moment.append(row)
        if len(rows) < _OF_ENVIRONMENT_AT_ONCE:
            break
        before, after_id = rows[-1].created, rows[-1].id
        await share.pause()
    if moment:
        yield moment
