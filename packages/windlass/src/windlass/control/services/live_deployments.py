"""Streams one deployment: sends an event after each change, until the deployment has ended."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator

from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.context.shared_readers import SharedReader
from windlass.control.records.shown_deployments import shown_deployment
from windlass.control.reporting import frames
from windlass.control.services.services import find_deployment, freshness
from windlass.core.declare.traits import StreamOptions
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS
from windlass.store import DeploymentRow, Row, inside_topic, status_topic


@reads("deployment.follow")
async def follow(ctx: Context, call: Call) -> Reply:
    service, deployment = await find_deployment(ctx, ctx.store.reads, call)
    query = call.asked(StreamOptions)
    return Reply(stream=_events(ctx, call, service, deployment, onward=query.follow), org=service.org)


async def _events(
    ctx: Context, call: Call, service: Row, deployment: DeploymentRow, *, onward: bool
) -> AsyncGenerator[bytes, None]:
    key = ("deployment", deployment.id, call.dialect.name)
    with ctx.readers.join(key, lambda: _DeploymentReader(ctx, call, service, deployment.id)) as reader:
        await reader.fresh()
        before = b""
        while reader.event:
            over = reader.over  # read before sending, during which the deployment may end
            if reader.event != before:
                before = reader.event
                yield before
            if over or not onward:
                break
            if reader.event == before:
                await reader.news()
    yield frames.END_REMARK


class _DeploymentReader(SharedReader):
    resting = 0.02

    def __init__(self, ctx: Context, call: Call, service: Row, id: str) -> None:
        super().__init__(ctx.nudges)
        self._ctx = ctx
        self._call = call
        self._service = service
        self._id = id
        self.event = b""
        """The current event; empty before the first check, and after the service was deleted."""
        self.over = False
        self.expect({status_topic(service.id), inside_topic(service.parent)})

    async def look(self) -> bool:
        source, before = self._ctx.store.reads, self.event
        row, status = await source.deployments.get(self._id), await source.statuses.get(self._service.id)
        if row is None or status is None:
            self.event, self.over = b"", True
        else:
            fresh = await freshness(self._ctx, source, self._service, status)
            data = encode(shown_deployment(self._call, self._service, row, status, fresh))
            mark = hashlib.blake2b(data, digest_size=8).hexdigest().encode()
            self.event, self.over = frames.event(mark, data), row.status not in OPEN_STATES_OF_DEPLOYMENTS
        return self.event != before
