"""The services that a service uses, because its variables refer to or are aliases of their variables."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.control.context.context import Context
from windlass.control.records.deployments import status_of
from windlass.control.variables.injected import InjectedVariables, injected_variables
from windlass.control.variables.inputs import (
    counted_keys,
    entry_of,
    is_used,
    used_as_deployed,
    variables_at,
)
from windlass.core.deploy.injected_variables import identity
from windlass.core.words.variables import DeclaredVariable, UnresolvableVariable, resolve
from windlass.engines.workload import ServiceAddress
from windlass.store import Reads, Row


class UsedServices:
    """Finds the services that other services use. Variables above services are read and decrypted only once.

    For a service that is up to date, nothing is decrypted, because its deployment has recorded the used
    services.
    """

    def __init__(self, ctx: Context, reads: Reads) -> None:
        self._ctx, self._source = ctx, reads
        self._declared: dict[str, list[DeclaredVariable]] = {}
        """Declared variables, by level."""
        self._injected: dict[str, InjectedVariables] = {}
        """Built-in variables, by the level above a service."""
        self._mentioned: dict[tuple[str, str], bool] = {}
        """Whether a level mentions a service, by the ids of both."""

    async def includes(self, service: Row, used: Row) -> bool:
        """Returns whether a service uses another one. False if its variables cannot be resolved, because then
        no deployment of it succeeds."""
        status = await status_of(self._source, service)
        recorded = await used_as_deployed(self._ctx, self._source, service, status.digest)
        return used.id in (await self._resolve(service, used) if recorded is None else recorded)

    async def _resolve(self, service: Row, used_service: Row) -> frozenset[str]:
        """Returns the ids of the services that a service uses; perhaps none if it does not use
        `used_service`."""
        levels = await self._source.tree.above(service.id)
        if not levels:
            return frozenset()
        own, above = levels[0], levels[1:]
        declared = [await self._declared_at(own), *[await self._declared_above(level) for level in above]]
        # Most services mention no variable of it, and need not be resolved.
        is_mentioned = [
            _mentions(self._ctx, declared[0], used_service),
            *[self._is_mentioned_above(level, used_service) for level in above],
        ]
        if not any(is_mentioned):
            return frozenset()
        injected = [await self._injected_at([own]), await self._injected_above(above)]
        try:
            used = resolve([*declared, [entry for part in injected for entry in part.entries]]).used
        except UnresolvableVariable:
            return frozenset()
        counted = (row for part in injected for row in part.counted)
        return frozenset(row.id for row in counted if is_used(self._ctx, row, used))

    async def _declared_above(self, level: Row) -> list[DeclaredVariable]:
        if level.id not in self._declared:
            self._declared[level.id] = await self._declared_at(level)
        return self._declared[level.id]

    def _is_mentioned_above(self, level: Row, used_service: Row) -> bool:
        ids = level.id, used_service.id
        if ids not in self._mentioned:
            self._mentioned[ids] = _mentions(self._ctx, self._declared[level.id], used_service)
        return self._mentioned[ids]

    async def _declared_at(self, level: Row) -> list[DeclaredVariable]:
        return [entry_of(self._ctx, row) for row in await variables_at(self._source, level)]

    async def _injected_above(self, levels: list[Row]) -> InjectedVariables:
        nearest = levels[0].id
        if nearest not in self._injected:
            self._injected[nearest] = await self._injected_at(levels)
        return self._injected[nearest]

    async def _injected_at(self, levels: list[Row]) -> InjectedVariables:
        return await injected_variables(self._ctx, self._source, levels, _placeholder_address)


def _mentions(ctx: Context, declared: Iterable[DeclaredVariable], service: Row) -> bool:
    """Returns whether a variable mentions, or is an alias of, a variable of a service."""
    keys = counted_keys(ctx, service)
    ids = {identity(service.id, key) for key in keys}
    mentions = [f"{{{{{key}}}}}" for key in keys]
    return any(
        entry.stands_for in ids or any(mention in entry.value for mention in mentions) for entry in declared
    )


async def _placeholder_address(environment: str, service: str, name: str, port: int) -> ServiceAddress:
    """Returns a placeholder address, because the used services do not depend on their addresses."""
    return ServiceAddress(name, port)
