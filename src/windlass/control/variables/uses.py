"""The services that a service uses: it mentions their variables, or has aliases of them."""

from __future__ import annotations

from windlass.control.context.context import Context
from windlass.control.variables.injected import injected_variables
from windlass.control.variables.inputs import entry_of, is_used, variables_at
from windlass.core.deploy.workload import ServiceAddress
from windlass.core.words.variables import Unusable, resolve
from windlass.store import Reads, Row


async def used_by(ctx: Context, source: Reads, service: Row) -> frozenset[str]:
    """Returns the ids of the services that this one uses. One whose variables cannot be resolved uses none:
    no deployment of it comes up."""
    levels = await source.tree.above(service.id)
    if not levels:
        return frozenset()
    declared = [[entry_of(ctx, row) for row in await variables_at(source, level)] for level in levels]
    offered = await injected_variables(ctx, source, levels, _anywhere)
    try:
        used = resolve([*declared, offered.entries]).used
    except Unusable:
        return frozenset()
    return frozenset(row.id for row in offered.counted if is_used(ctx, row, used))


async def _anywhere(environment: str, service: str, name: str, port: int) -> ServiceAddress:
    """Stands for the address of a service: what refers to it does not depend on where it is."""
    return ServiceAddress(name, port)
