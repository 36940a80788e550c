"""Lists the services that use a variable, and says which of them a change makes out of date."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, status_of
from windlass.control.request.paths import target
from windlass.control.request.permissions import Visibility
from windlass.control.services.environments import services_of
from windlass.control.variables.injected import injected_variables
from windlass.control.variables.inputs import entry_of, variables_at, without_secrets_above
from windlass.core.declare.document import Document
from windlass.core.declare.traits import has_variables
from windlass.core.words.variable_users import VariableIndex, VariableUsers, users_of
from windlass.core.words.variables import DeclaredVariable
from windlass.engines.workload import ServiceAddress
from windlass.families.environment import environment
from windlass.families.variable import is_secret, secret, variable
from windlass.families.variable_use import VariableUseQuery
from windlass.store import Reads, Row

MAX_LISTED: Final = 2_000
"""Maximum number of services in an answer."""
MAX_READ_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of all variables that are read for an answer."""
MAX_READ_NAMES: Final = 100_000
"""Maximum number of names that the values mention which are read for an answer."""


class _Wanted(NamedTuple):
    """The variable that is asked for."""

    key: str
    row: Row | None
    """None if no level has it, so that only Windlass may set it."""
    level: Row
    """The level whose services see it."""


@reads("*.variableUse")
async def list_uses(ctx: Context, call: Call) -> Reply:
    source, key = ctx.store.reads, call.asked(VariableUseQuery).key or ""
    here = await target(source, call)
    if not key:
        return Reply(encode({"key": "", "is_secret": False, "services": [], "is_complete": True}))
    levels = await source.tree.above(here.id)
    wanted = await _find(source, levels, key)
    services: list[Document] = []
    answer: Document = {"key": key, "is_secret": False, "services": services, "is_complete": True}
    if wanted.row:
        family = ctx.registry[wanted.level.family]
        answer |= {
            "scope": family.enum_value,
            "level_id": wanted.level.id,
            "is_secret": is_secret(wanted.row.family),
        }
    sight, share = Visibility(source, call.actor, here.org), FairShare()
    seen = _SeenVariables(ctx, source)
    async for service in _services_at(ctx, source, wanted.level):
        await share.pause()
        if not await sight.includes(service.family, service.id, service.parent):
            answer["is_complete"] = False
            continue
        if len(services) == MAX_LISTED or seen.is_full:
            answer["is_complete"] = False
            break
        if entry := await _entry(ctx, source, seen, wanted, service):
            services.append(entry)
            if seen.injected is not None:
                answer |= {"scope": "BUILT_IN", "is_secret": seen.injected.secret}
    if seen.is_full:
        answer["is_complete"] = False
    return Reply(encode(answer))


async def _find(reads: Reads, levels: Sequence[Row], key: str) -> _Wanted:
    for level in levels:
        for family in (variable, secret):
            if row := await reads.resources.named(level.id, family.name, key):
                return _Wanted(key, row, level)
    return _Wanted(key, None, levels[0])


async def _services_at(ctx: Context, reads: Reads, level: Row) -> AsyncIterator[Row]:
    """Yields the services at or below a level that take variables."""
    if level.family in ctx.kinds:
        yield level
        return
    environments = await reads.resources.of_parent(level.id, environment.name)
    for one in environments or [level]:
        for service in await services_of(ctx, reads, one):
            if has_variables in ctx.registry[service.family].traits:
                yield service


async def _entry(
    ctx: Context, reads: Reads, seen: _SeenVariables, wanted: _Wanted, service: Row
) -> Document | None:
    """Returns what becomes of the variable in a service; None if there is none."""
    uses = await seen.uses(service, wanted)
    if uses is None:
        return None
    status = await status_of(reads, service)
    counts = wanted.row is not None or bool(uses.keys)
    return {
        "service_id": service.id,
        "service_name": name_of(service),
        "service_type": ctx.registry[service.family].enum_value,
        "environment_id": service.parent,
        "is_overridden": not uses.is_effective,
        "used_in": uses.keys,
        "becomes_out_of_date": counts and status.deployed_at is not None,
        "restarts": counts and status.serving is not None,
    }


class _SeenVariables:
    """The variables that services see. Those of the levels above a service are read once for the services of
    one environment."""

    def __init__(self, ctx: Context, reads: Reads) -> None:
        self._ctx, self._source, self._share = ctx, reads, FairShare()
        self._environment = ""
        self._above: list[VariableIndex] = []
        """The variables of the levels above the service."""
        self._built_in = VariableIndex()
        self._declared: dict[str, DeclaredVariable] = {}
        """Built-in variables of the environment, by key."""
        self._read_bytes = self._read_names = 0
        self.injected: DeclaredVariable | None = None
        """The variable that is asked for, if Windlass sets it."""

    @property
    def is_full(self) -> bool:
        """Whether no further values are read."""
        return self._read_bytes > MAX_READ_BYTES or self._read_names > MAX_READ_NAMES

    async def uses(self, service: Row, wanted: _Wanted) -> VariableUsers | None:
        """Returns the uses of a variable; None if the service does not see it."""
        if service.parent != self._environment:
            await self._read_above(service)
        levels = [await self._index(await self._read(service)), *self._above]
        if wanted.row is not None and not any(wanted.row.id in level.by_id for level in levels):
            return None
        own = await injected_variables(self._ctx, self._source, [service], _placeholder_address)
        levels += [VariableIndex(own.entries), self._built_in]
        if wanted.row is not None:
            return users_of(levels, wanted.row.id)
        found = next((entry for entry in own.entries if entry.key == wanted.key), None)
        found = found or self._declared.get(wanted.key)
        if found is None:
            return None
        self.injected = found
        return users_of(levels, found.id)

    async def _read_above(self, service: Row) -> None:
        self._environment = service.parent
        levels = (await self._source.tree.above(service.id))[1:]
        rows = without_secrets_above(levels, [await self._read(level) for level in levels])
        self._above = [await self._index(level) for level in rows]
        above = await injected_variables(self._ctx, self._source, levels, _placeholder_address)
        self._built_in, self._declared = VariableIndex(), {}
        for entry in above.entries:
            self._built_in.add(entry)
            self._declared.setdefault(entry.key, entry)
            await self._share.pause()

    async def _read(self, level: Row) -> list[Row]:
        rows = await variables_at(self._source, level)
        self._read_bytes += sum(len(row.body) + len(row.sealed or b"") for row in rows)
        return rows

    async def _index(self, rows: Sequence[Row]) -> VariableIndex:
        """Reads the values of the variables of a level. Others are served after each large value."""
        index = VariableIndex()
        for row in rows:
            self._read_names += index.add(entry_of(self._ctx, row), reads_value=not self.is_full)
            await self._share.pause()
        return index


async def _placeholder_address(environment: str, service: str, name: str, port: int) -> ServiceAddress:
    """Returns any address, because no use depends on it."""
    return ServiceAddress(name, port)
