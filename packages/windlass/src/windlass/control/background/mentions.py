"""Finds the services of an environment that may call another one, because their variables mention it.

All variables of an environment are read at once for all of its services that may sleep, and again only after
a change. Otherwise, many services beside many variables would occupy the server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.base.clock import MINUTE
from windlass.base.fair_share import FairShare
from windlass.control.context.context import Context
from windlass.control.context.variable_digests import VARIABLE_FAMILIES
from windlass.control.records.served_names import INSIDE_PREFIX
from windlass.control.services.environments import services_of
from windlass.control.variables.inputs import entry_of, variables_at
from windlass.core.deploy.hosts import MAX_LABEL_LENGTH
from windlass.core.deploy.injected_variables import identity, twin
from windlass.core.words.variables import DeclaredVariable
from windlass.store import Row

MIN_INTERVAL: Final = 5 * MINUTE
"""Milliseconds between two reads of all variables of an environment. They take seconds at most."""
_MAX_CALLERS: Final = 4
"""Maximum number of callers of a service that are remembered: a reason names three."""
_MAX_ENVIRONMENTS: Final = 1000
"""Maximum number of environments that are remembered."""
_INNER: Final = ("_HOST_INTERNAL", "_PORT_INTERNAL")
"""The endings of the keys of variables with an address that only other services of the environment reach."""
_HOST: Final = rf"[a-z0-9-]{{1,{MAX_LABEL_LENGTH}}}+"
_MENTION_PATTERN: Final = re.compile(
    rf"\{{\{{([A-Z0-9_]{{1,300}}+)\}}\}}|(?://|@)({_HOST})(?![\w.-])|(?<![\w.-])({_HOST}):[0-9]"
)
"""Matches `{{KEY}}`, and `//host`, `user@host` and `host:port`."""

_Version = tuple[object, ...]
"""A value that changes with the variables of an environment and its services, and with their names."""


class _ReadMentions(Struct, frozen=True):
    """What the variables of an environment mentioned when they were read."""

    version: _Version
    read_at: int
    by_service: Mapping[str, Collection[str]]
    """The ids of levels, which are the environment or its services, by the service that they mention."""


class _Look(Struct, frozen=True):
    """An environment in the present look at all services."""

    services: Sequence[Row]
    mentions: _ReadMentions | None


class MentionReader:
    """Finds the callers of services that may sleep."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._kept: dict[str, _ReadMentions] = {}
        """By environment."""
        self._looks: dict[str, _Look] = {}

    def begin_look(self) -> None:
        """Called before each look at all services. Within one, an environment is examined once."""
        self._looks.clear()

    async def others(self, service: Row, environment: Row) -> list[Row]:
        """Returns the other services of the environment that may call a service."""
        look = await self._look_at(environment)
        kinds = self._ctx.kinds
        return [row for row in look.services if row.id != service.id and kinds[row.family].may_call]

    async def callers(self, service: Row, environment: Row) -> list[Row] | None:
        """Returns the services whose variables refer to the internal address of a service, or contain it.
        Returns None if it is not known yet, because variables have changed shortly after they were read."""
        found = (await self._look_at(environment)).mentions
        if found is None or service.id not in found.by_service:
            return None
        others, levels = await self.others(service, environment), found.by_service[service.id]
        return others if environment.id in levels else [other for other in others if other.id in levels]

    async def _look_at(self, environment: Row) -> _Look:
        if environment.id not in self._looks:
            services = await services_of(self._ctx, self._ctx.store.reads, environment)
            self._looks[environment.id] = _Look(services, await self._mentions_in(environment, services))
        return self._looks[environment.id]

    async def _mentions_in(self, environment: Row, services: Sequence[Row]) -> _ReadMentions | None:
        """Returns what variables mention; None if they have changed and must not be read again yet."""
        names = await self._names(services)
        reads, now = self._ctx.store.reads, self._ctx.clock.now()
        own = await reads.tree.versions(environment.id, VARIABLE_FAMILIES)
        version = (
            own.get(environment.id),
            await reads.tree.versions_below(environment.id, VARIABLE_FAMILIES),
            names,
            [service.id for service in services],
        )
        kept = self._kept.get(environment.id)
        if kept is not None and kept.version == version:
            return kept
        if kept is not None and 0 <= now - kept.read_at < MIN_INTERVAL:
            return None
        found = await self._read(environment, services, names)
        if len(self._kept) >= _MAX_ENVIRONMENTS:
            self._kept.clear()
        self._kept[environment.id] = _ReadMentions(version, now, found)
        return self._kept[environment.id]

    async def _names(self, services: Sequence[Row]) -> dict[str, str]:
        """Returns the services that may sleep, by the names under which variables mention them: host names
        inside the environment, and keys and ids of variables with their addresses."""
        names: dict[str, str] = {}
        share = FairShare()
        for service in services:
            if service.id not in self._ctx.routing.sleepers:
                continue
            for row in await self._ctx.store.reads.names.of(service.id):
                if row.name.startswith(INSIDE_PREFIX):
                    names[row.name.rpartition(" ")[2]] = service.id
            for key in self._ctx.kinds[service.family].listed_keys(service):
                if key.endswith(_INNER):
                    names |= dict.fromkeys((key, twin(key), identity(service.id, key)), service.id)
            await share.pause()
        return names

    async def _read(
        self, environment: Row, services: Sequence[Row], names: Mapping[str, str]
    ) -> dict[str, Collection[str]]:
        found: dict[str, set[str]] = {
            service.id: set() for service in services if service.id in self._ctx.routing.sleepers
        }
        share = FairShare()
        callers = [service for service in services if self._ctx.kinds[service.family].may_call]
        for level in (environment, *callers):
            for row in await variables_at(self._ctx.store.reads, level):
                for name in _mentioned_names(entry_of(self._ctx, row)):
                    service = names.get(name, "")
                    if service in found and service != level.id and len(found[service]) < _MAX_CALLERS:
                        found[service].add(level.id)
                await share.pause()
        return {service: frozenset(levels) for service, levels in found.items()}


def _mentioned_names(entry: DeclaredVariable) -> Iterator[str]:
    yield entry.stands_for
    for match in _MENTION_PATTERN.finditer(entry.value):
        yield match[match.lastindex or 0]
