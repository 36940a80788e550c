"""Groups the deployments of an environment by the request that started them in one transaction.

A group is one deployment of the environment, with an id, stages, a state and durations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from msgspec import Struct

from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars
from windlass.control.records.past_deployments import moments
from windlass.core.deploy import stage_status
from windlass.core.deploy.progress import Particulars, StageRecord
from windlass.core.deploy.stage_order import DEFAULT_STAGES
from windlass.core.deploy.stage_status import StageStatus
from windlass.core.deploy.states import (
    ACTIONS_WITH_BUILD,
    OPEN_STATES_OF_DEPLOYMENTS,
    STATES_OF_ACTIONS,
    ActionStates,
    Do,
    Progress,
    State,
    together,
)
from windlass.store import DeploymentRow, Reads, Row

MAX_CHECKED_DEPLOYMENTS: Final = 100_000
"""Maximum number of deployments of an environment that are checked."""


class PastDeployment(Struct, frozen=True):
    service: Row
    row: DeploymentRow
    details: Particulars

    @property
    def is_open(self) -> bool:
        return self.row.status in OPEN_STATES_OF_DEPLOYMENTS

    @property
    def state(self) -> State:
        words = self.words
        if self.is_open and self.details.cancelled:
            return State.CANCELING
        details = self.details
        is_built = (
            Do(self.row.action) not in ACTIONS_WITH_BUILD
            or details.made
            or details.is_skipped
            or details.builds_nothing
        )
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
    def stage_status(self) -> StageStatus:
        return stage_status.of_deployment(Progress(self.row.status), is_skipped=self.details.is_skipped)

    def ended_at(self, now: int) -> int:
        """Returns the end of the deployment, or `now` while it is open."""
        return now if self.is_open else self.details.ended or self.row.changed

    @property
    def request(self) -> tuple[int, str]:
        """A key for the request that started this deployment: its time and its id."""
        return self.row.created, self.details.request or self.details.group or self.row.id


Group = Sequence[PastDeployment]
"""The deployments of one request, in the order of deployment."""


def as_past(service: Row, row: DeploymentRow) -> PastDeployment:
    return PastDeployment(service, row, particulars(row))


request_of: Final = attrgetter("request")


def id_of(group: Group) -> str:
    """Returns the id of a deployment of an environment: that of the first deployment that it has started, or
    of the next one if the service of the first one was deleted."""
    first = next((past.details.group for past in group if past.details.group), "")
    return first if first in {past.row.id for past in group} else group[0].row.id


def state_of(group: Group) -> State:
    """Returns the combined state. While services of later stages wait, the state is not `queued`."""
    state, words = together(past.state for past in group), group[0].words
    is_between = state is words.queued and status_of(group) is StageStatus.ONGOING
    return words.under_way if is_between else state


def status_of(group: Group) -> StageStatus:
    return stage_status.together(past.stage_status for past in group)


def by_stage(ctx: Context, group: Group) -> list[tuple[StageRecord, Group]]:
    """Returns the stages of a deployment of an environment in their order at that time, each with its
    deployments."""
    stages: defaultdict[StageRecord, list[PastDeployment]] = defaultdict(list)
    for past in group:
        stages[stage_of(ctx, past)].append(past)
    return sorted(stages.items(), key=lambda item: (item[0].place, item[0].name, item[0].id))


def stage_of(ctx: Context, past: PastDeployment) -> StageRecord:
    """Returns the stage of a deployment. Deployments of earlier versions, which recorded none, are shown in
    the default stage of their kind, which was their order."""
    precedence = ctx.kinds[past.service.family].precedence
    return past.details.stage or StageRecord("", DEFAULT_STAGES[precedence].name, precedence + 1)


def milliseconds_of(group: Group, now: int) -> int:
    """Returns the time from the beginning of the first deployment to the end of the last one, without the
    time before, in which they waited."""
    begun = [past for past in group if past.details.began]
    if not begun:
        return 0
    return max(past.ended_at(now) for past in begun) - min(past.details.began for past in begun)


async def groups(
    ctx: Context, environment: str, services: Sequence[Row], timestamp: int | None = None
) -> AsyncIterator[Group]:
    """Yields the groups of deployments of these services of an environment, the newest first. `timestamp`:
    the time of the newest group to yield."""
    known = {service.id: (place, service) for place, service in enumerate(services)}
    async for rows in moments(ctx, environment, MAX_CHECKED_DEPLOYMENTS, timestamp):
        own = [row for row in rows if row.service in known]
        own.sort(key=lambda row: (known[row.service][0], -row.number))
        pasts = [as_past(known[row.service][1], row) for row in own]
        for _, group in groupby(sorted(pasts, key=request_of), request_of):
            yield [*group]


async def group_of(reads: Reads, services: Iterable[Row], row: DeploymentRow) -> Group:
    """Returns the deployments of the request that started `row`, including `row`, without their sealed
    workloads. Empty if none of the services has it. Reads them with one statement."""
    known = {service.id: service for service in services}
    own = known.get(row.service)
    if own is None:
        return ()
    rows = await reads.deployments.of_moment(own.parent, row.created)
    pasts = [as_past(known[other.service], other) for other in rows if other.service in known]
    order = {id: place for place, id in enumerate(known)}
    pasts.sort(key=lambda past: order[past.service.id])
    return [past for past in pasts if past.request == as_past(own, row).request]
