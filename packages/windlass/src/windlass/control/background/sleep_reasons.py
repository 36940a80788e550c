"""Finds the reason why a service must not sleep: no request could wake it, or others may call it directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.control.background.mentions import MentionReader
from windlass.control.context.context import Context, SleepTerms
from windlass.control.context.place import Place
from windlass.control.records.deployments import name_of
from windlass.core.deploy.hosts import by_name, listens
from windlass.engines.workload import Workload
from windlass.store import Row

_MAX_NAMED: Final = 3
"""Maximum number of callers that a reason names."""
_ADVICE: Final = "To let it sleep anyway, set windlass.sleep.although_called to true"


async def why_awake(
    ctx: Context, service: Row, workload: Workload, terms: SleepTerms, mentions: MentionReader
) -> str | None:
    """Returns why a service must not sleep; empty if it may. Returns None if that is not known yet."""
    reads, place = ctx.store.reads, await ctx.places.of(service.id)
    is_routed = await _is_routed(place, workload)
    if not (is_routed or any(by_name(port) or listens(port) is not None for port in workload.ports)):
        return "no request could wake it: it has no public port"
    if terms.although_called:
        return ""
    direct = [port for port in workload.ports if port.public and not by_name(port)]
    if direct:
        return f"it has a public port of the protocol {direct[0].protocol}. {_ADVICE}"
    if not any(by_name(port) for port in workload.ports):
        return f"only other services can call it: it has no public port. {_ADVICE}"
    environment = await reads.resources.get(service.parent)
    if environment is None:
        return ""
    callers = await mentions.callers(service, environment)
    if callers is None:
        return None
    if callers:
        return f"variables of {_listed(callers)} name it. {_ADVICE}"
    others = await mentions.others(service, environment)
    if others and not is_routed:
        return f"{_listed(others)} can call it without the gateway. {_ADVICE}"
    return ""


async def _is_routed(place: Place, workload: Workload) -> bool:
    """Returns whether connections of other services to each port pass the gateway, which counts them, and
    holds those to a sleeping service."""
    for port in workload.ports:
        if port.protocol == "UDP" or not await place.engine.routed_addresses(workload, port.internal):
            return False
    return bool(workload.ports)


def _listed(services: Sequence[Row]) -> str:
    names = [name_of(service) for service in services]
    return ", ".join(names[:_MAX_NAMED]) + (" and others" if len(names) > _MAX_NAMED else "")
