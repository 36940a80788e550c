"""Finds the reason why a service must not sleep: no request could wake it, or others may call it directly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from windlass.control.context.context import Context, SleepTerms
from windlass.control.context.place import Place
from windlass.control.records.deployments import name_of
from windlass.control.records.served_names import known_as
from windlass.control.services.environments import services_of
from windlass.control.variables.inputs import entry_of, variables_at
from windlass.core.deploy.hosts import by_name, listens
from windlass.core.deploy.injected_variables import identity, twin
from windlass.engines.workload import Workload
from windlass.store import Reads, Row

_MAX_NAMED: Final = 3
"""Maximum number of callers that a reason names."""
_INNER: Final = ("_HOST_INTERNAL", "_PORT_INTERNAL")
"""The endings of the keys of variables with an address that only other services of the environment reach."""
_ADVICE: Final = "To let it sleep anyway, set windlass.sleep.although_called to true"


async def why_awake(ctx: Context, service: Row, workload: Workload, terms: SleepTerms) -> str:
    """Returns why a service must not sleep; empty if it may."""
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
    others = [
        other
        for other in await services_of(ctx, reads, environment)
        if other.id != service.id and ctx.kinds[other.family].may_call
    ]
    if callers := await _callers(ctx, reads, service, workload, environment, others):
        return f"variables of {_listed(callers)} name it. {_ADVICE}"
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


async def _callers(
    ctx: Context, reads: Reads, service: Row, workload: Workload, environment: Row, others: Sequence[Row]
) -> list[Row]:
    """Returns the services whose variables refer to the internal address of a service, or contain it."""
    held = known_as(workload.name, await reads.names.of(service.id))
    listed = await ctx.kinds[service.family].listed_variables(ctx, reads, service)
    keys = [variable.key for variable in listed if variable.key.endswith(_INNER)]
    mentions = _Mentions(
        frozenset(identity(service.id, key) for key in keys),
        _mention_pattern([*keys, *map(twin, keys)], held.name.rpartition(" ")[2] if held else ""),
    )
    if await _is_mentioned(ctx, reads, environment, mentions):
        return [*others]
    return [other for other in others if await _is_mentioned(ctx, reads, other, mentions)]


class _Mentions(NamedTuple):
    ids: frozenset[str]
    """The ids of the variables with the internal address of a service, to which aliases may refer."""
    pattern: re.Pattern[str]


def _mention_pattern(keys: Iterable[str], host: str) -> re.Pattern[str]:
    """Matches `{{KEY}}`, and `//host`, `user@host` and `host:port`."""
    forms = [rf"\{{\{{{re.escape(key)}\}}\}}" for key in keys]
    if host:
        name = re.escape(host)
        forms += [rf"(?://|@){name}(?![\w.-])", rf"(?<![\w.-]){name}:[0-9]"]
    return re.compile("|".join(forms) or r"(?!)")


async def _is_mentioned(ctx: Context, reads: Reads, level: Row, mentions: _Mentions) -> bool:
    entries = [entry_of(ctx, row) for row in await variables_at(reads, level)]
    return any(entry.stands_for in mentions.ids or mentions.pattern.search(entry.value) for entry in entries)


def _listed(services: Sequence[Row]) -> str:
    names = [name_of(service) for service in services]
    return ", ".join(names[:_MAX_NAMED]) + (" and others" if len(names) > _MAX_NAMED else "")
