"""Records of services that sleep because they had no requests. Falling asleep and waking up are no
deployments: the version that serves stays the same.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from windlass.base.clock import MINUTE
from windlass.control.context.call import ITSELF
from windlass.control.records.deployments import RECONCILE, announce, particulars
from windlass.core.access import SYSTEM
from windlass.core.deploy.progress import Initiator
from windlass.core.deploy.states import ENDING_ACTIONS, STATES_OF_RUNNING_SERVICES, Sleep, State
from windlass.core.words.events import Event
from windlass.store import Row, StatusRow, Tx, route_topic

_WINDLASS: Final = Initiator(SYSTEM.id, SYSTEM.name)


async def fall_asleep(tx: Tx, service: Row, deployment: str, minutes: int) -> bool:
    """Puts a service to sleep that has not been used for some minutes. Returns False if it must stay as it
    is: it is not running, is being deployed or deleted, was used, or serves another deployment."""
    status, last = await tx.statuses.get(service.id), await tx.service_uses.last(service.id)
    if status is None or last is None or tx.now - last < minutes * MINUTE:
        return False
    is_idle = status.state in STATES_OF_RUNNING_SERVICES and not status.sleep and bool(status.instances)
    if not is_idle or status.serving != deployment or await tx.deployments.open(service.id):
        return False
    await tx.statuses.change(
        replace(status, state=State.STOPPED, message="", sleep=Sleep.ASLEEP, instances=0)
    )
    await _tell(tx, service, status, Event.FELL_ASLEEP, f"It had no requests for {minutes} minutes")
    await _request_step(tx, service)
    return True


async def wake(tx: Tx, service: Row) -> bool:
    """Requests that a sleeping service is started. Returns whether that is new. A service that a person or
    its running hours have stopped does not sleep; nor is one woken that is about to be stopped."""
    status = await tx.statuses.get(service.id)
    if status is None or status.sleep != Sleep.ASLEEP:
        return False
    if any(row.action in ENDING_ACTIONS for row in await tx.deployments.open(service.id)):
        return False
    await tx.statuses.change(replace(status, sleep=Sleep.WAKING))
    await _request_step(tx, service)
    return True


async def wake_up(tx: Tx, service: Row, status: StatusRow, state: State, message: str) -> None:
    """Records that a service no longer sleeps: its instances serve, or could not be started. `status` has
    their numbers."""
    await tx.service_uses.record([(service.id, tx.now)])
    is_shown = status.state == State.STOPPED  # otherwise it shows a deployment that waits
    await tx.statuses.change(
        replace(
            status,
            state=state if is_shown else status.state,
            message=message if is_shown else status.message,
            sleep=Sleep.NONE,
        )
    )
    kind = Event.WOKE_UP if state is State.DEPLOYED else Event.BROKE
    await _tell(tx, service, status, kind, message)
    tx.nudge(route_topic(service.id))


async def _request_step(tx: Tx, service: Row) -> None:
    tx.nudge(route_topic(service.id))
    await tx.work.schedule(RECONCILE, service.id, org=service.org, environment=service.parent)


async def _tell(tx: Tx, service: Row, status: StatusRow, kind: Event, message: str) -> None:
    serving = await tx.deployments.get(status.serving) if status.serving else None
    if serving is not None:
        details = particulars(serving)
        details.actor, details.origin = _WINDLASS, ITSELF.origin
        await announce(tx, kind, service, serving, details, message)
