"""Groups the deployments of an environment by the request that started them in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from msgspec import Struct

from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.control.records.past_deployments import newest_first
from windlass.core.deploy.progress import Particulars
from windlass.core.deploy.states import (
    ACTIONS_WITH_BUILD,
    STATES_OF_ACTIONS,
    ActionStates,
    Do,
    Progress,
    State,
    together,
)
from windlass.store import DeploymentRow, Row

MAX_CHECKED_DEPLOYMENTS: Final = 10_000
"""Maximum number of deployments that are checked per service."""
STAGE_NAME: Final = "DEFAULT"
"""The name of the only stage, which contains all services of an environment."""


class PastDeployment(Struct, frozen=True):
    service: Row
    row: DeploymentRow
    details: Particulars

    @property
    def state(self) -> State:
        words = self.words
        is_built = Do(self.row.action) not in ACTIONS_WITH_BUILD or self.details.made
        return {
            Progress.QUEUED: words.queued,
            Progress.BUILDING: State.BUILDING,
            Progress.DEPLOYING: words.under_way,
            Progress.SUCCEEDED: words.done,
            Progress.FAILED: words.failed if is_built else State.BUILD_ERROR,
        }.get(Progress(self.row.status), State.CANCELED)

    @property
    def words(self) -> ActionStates:
        """The states that a deployment with this action goes through."""
        return STATES_OF_ACTIONS[Do(self.row.action)]

    @property
    def request(self) -> tuple[int, str]:
        """A key for the request that started this deployment: its time and its id."""
        return self.row.created, self.details.request or self.row.id


Group = Sequence[PastDeployment]
"""The deployments of one request, in the order of deployment."""


def as_past(service: Row, row: DeploymentRow) -> PastDeployment:
    return PastDeployment(service, row, particulars(row))


request_of: Final = attrgetter("request")


def state_of(group: Group) -> State:
    return together(past.state for past in group)


async def groups(ctx: Context, services: Sequence[Row], moment: int | None = None) -> AsyncIterator[Group]:
    """Yields the groups of deployments of services, the newest first. `moment`: the time of the newest group
    to yield."""
    streams = [newest_first(ctx, service.id, MAX_CHECKED_DEPLOYMENTS, moment) for service in services]
    heads = [await anext(stream, None) for stream in streams]
    while any(heads):
        newest = max(head.created for head in heads if head)
        stored_then: list[PastDeployment] = []
        for index, service in enumerate(services):
            while (head := heads[index]) and head.created == newest:
                stored_then.append(as_past(service, head))
                heads[index] = await anext(streams[index], None)
        for _, group in groupby(sorted(stored_then, key=request_of), request_of):
            yield [*group]


async def group_of(ctx: Context, services: Iterable[Row], row: DeploymentRow) -> Group:
    """Returns the deployments of the request that started `row`, including `row`. Empty if the deployment's
    service was deleted."""
    group: list[PastDeployment] = []
    for service in services:
        if service.id == row.service:
            group.append(as_past(service, row))
            continue
        async for other in newest_first(ctx, service.id, MAX_CHECKED_DEPLOYMENTS, row.created):
            if other.created < row.created:
                break
            group.append(as_past(service, other))
    own = {past.request for past in group if past.row.id == row.id}
    return [past for past in group if past.request in own]
