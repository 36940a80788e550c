"""Starts and stops environments at the hours of their deployment rules.

Only the change that was due last counts: a server that was off for a week does not repeat what it missed.
What a person starts or stops in between stays as it is until the next change.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from windlass.base.clock import HOUR, MINUTE
from windlass.base.errors import Failure
from windlass.base.log import log
from windlass.control.context.call import ITSELF, Call, Dialect
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.deployments import particulars, status_of
from windlass.control.records.running_hours import environment_of_work, hours_of
from windlass.control.services.actions import redeploy, stop
from windlass.control.services.environments import services_of
from windlass.core.access import SYSTEM
from windlass.core.deploy.states import Do, State
from windlass.core.words.due_times import UnknownZone
from windlass.core.words.running_hours import HoursEvent
from windlass.families.environment import environment
from windlass.store import Claim, Row, Tx

_log = log("running hours")
_TIMETABLE: Final = replace(SYSTEM, name="the running hours of the environment")
_WORDS: Final = Dialect(name="plain", state=str, event=str)
_UNKNOWN_ZONE_PAUSE: Final = HOUR


async def follow_hours(ctx: Context, claim: Claim) -> None:
    await ctx.store.write(lambda tx: _follow(ctx, tx, claim))


async def _follow(ctx: Context, tx: Tx, claim: Claim) -> None:
    await fence(tx, claim)
    row = await tx.resources.find(environment.name, environment_of_work(claim.id))
    hours = hours_of(row) if row else None
    if row is None or hours is None or await tx.deletions.at_or_above(row.id):
        await tx.work.done(claim)
        return
    now = tx.now // MINUTE
    try:
        event, following = hours.last_event(now), hours.next_change(now)
    except UnknownZone:  # another server may know it
        await tx.work.reschedule(claim, tx.now + _UNKNOWN_ZONE_PAUSE)
        return
    services = await services_of(ctx, tx, row)
    follow, group = _start if event is HoursEvent.START else _stop, ""
    for service in services if event is HoursEvent.START else reversed(services):
        try:
            group = await follow(ctx, tx, service, group)
        except Failure as failure:  # the other services follow
            _log.warning("A service does not follow the running hours", extra={"why": failure.message})
    await tx.work.reschedule(claim, following * MINUTE)


async def _stop(ctx: Context, tx: Tx, service: Row, group: str) -> str:
    """Stops a service. `group`: the first deployment of the same change. Returns it, or else this one."""
    status = await status_of(tx, service)
    is_being_stopped = any(row.action == Do.STOP for row in await tx.deployments.open(service.id))
    is_stopped = status.state == State.STOPPED and not status.sleep
    # What only a run can stop is in a cluster, and no version of it serves here.
    is_elsewhere = status.deployed_at is not None and ctx.kinds[service.family].stop_action(service)
    if (status.serving is not None or is_elsewhere) and not is_stopped and not is_being_stopped:
        deployment, _ = await stop(ctx, tx, _call(ctx, service, "stop", group), service, None)
        return group or deployment.id
    return group


async def _start(ctx: Context, tx: Tx, service: Row, group: str) -> str:
    """Starts a service that the running hours have stopped. One that a person has stopped stays as it is."""
    status = await status_of(tx, service)
    last = await tx.deployments.get(status.deployment) if status.deployment else None
    if last is None or last.action != Do.STOP:
        return group
    by = particulars(last).actor
    if (by.id, by.name) == (_TIMETABLE.id, _TIMETABLE.name):
        deployment, _ = await redeploy(ctx, tx, _call(ctx, service, "redeploy", group), service, None)
        return group or deployment.id
    return group


def _call(ctx: Context, service: Row, action: str, group: str) -> Call:
    operation, *_ = ctx.registry.handled_by(f"{service.family}.{action}")
    return Call(
        operation=operation, actor=_TIMETABLE, ids=(service.id,), dialect=_WORDS, origin=ITSELF, group=group
    )
