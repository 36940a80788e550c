"""Copies the variables and secrets of copied environments and services.

The copy of an alias or override refers to the copy of its original if the original is copied too, otherwise
to the original itself if the copy can see it. An alias of a copied database's built-in variable thus refers
to the new database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.hidden_fields import own_hidden
from windlass.control.variables.deriving import Derivation, create_derived, value_of
from windlass.control.variables.injected import identities
from windlass.control.variables.variables import built_in_rows
from windlass.core.declare.document import merge_patched
from windlass.core.declare.resource import Family
from windlass.families.variable import Levelled, Secret, Variable, secret, variable
from windlass.store import Row, Tx

REFERENCE_PATTERN: Final = re.compile(
    r"(\{\{(?:QOVERY|WINDLASS)_[A-Z0-9_]{1,40}_Z)([0-9A-F]{8})(_[^{}]*+\}\})"
)
"""A reference to a variable whose name contains the id of a service. Its parts have limits, so that no value
takes long, while nothing else runs."""


class CopiedLevel(NamedTuple):
    """An environment or service, and its copy."""

    level: Row
    copy: Row


class DerivedVariable(NamedTuple):
    """A derived variable to copy, whose original has to be copied first."""

    row: Row
    level: Row
    """The copied level to which the copy belongs."""
    original: str


class VariableCopies:
    """Copies the variables of several levels that are copied together."""

    def __init__(
        self, ctx: Context, tx: Tx, call: Call, levels: Iterable[CopiedLevel], *, with_secrets: bool = True
    ) -> None:
        self._ctx, self._tx, self._call = ctx, tx, call
        self._levels = list(levels)
        self._families = (variable, secret) if with_secrets else (variable,)
        self._built_ins = dict(
            pair
            for level, copy in self._levels
            for pair in zip(identities(ctx, level), identities(ctx, copy), strict=True)
        )
        """The ids of the copies' built-in variables, by the ids of the original ones."""
        self._ids = {level.id[:8].upper(): copy.id[:8].upper() for level, copy in self._levels}
        """The ids of copied services, shortened as in the keys of built-in variables."""
        self._copies: dict[str, Row] = {}
        self._derived: dict[str, DerivedVariable] = {}
        self._seen: dict[tuple[str, str], Sequence[Row]] = {}
        """Built-in variables, by level and family."""

    async def make(self) -> None:
        share = FairShare()
        for level, copy in self._levels:
            await self._note_outputs(level, copy)
            await share.pause()
        for level, copy in self._levels:
            for family in self._families:
                for row in await self._tx.resources.of_parent(level.id, family.name):
                    await self._copy_or_note(family, row, copy)
                    await share.pause()
        while self._derived:
            await self._derive(self._derived.pop(next(iter(self._derived))))
            await share.pause()

    async def _copy_or_note(self, family: Family, row: Row, level: Row) -> None:
        if original := await _original_of(self._tx, row):
            self._derived[row.id] = DerivedVariable(row, level, original)
            return
        new = NewResource(family, self._spec_of(row), level, self._call.actor, self._call)
        await create_in(self._ctx, self._tx, new)
        await self._note(row, level)

    async def _note_outputs(self, level: Row, service_copy: Row) -> None:
        """Records built-in variables whose keys depend on the stored service."""
        kind = self._ctx.kinds.get(level.family)
        if kind is None:
            return
        listed = await kind.listed_variables(self._ctx, self._tx, level)
        copies = await kind.listed_variables(self._ctx, self._tx, service_copy)
        ids = {_without_id(built_in.key, service_copy.id): built_in.id for built_in in copies}
        for built_in in listed:
            if id := ids.get(_without_id(built_in.key, level.id)):
                self._built_ins[built_in.id] = id

    async def _derive(self, variable: DerivedVariable) -> None:
        if variable.original in self._derived:
            await self._derive(self._derived.pop(variable.original))
        family = self._ctx.registry[variable.row.family]
        original = await self._original(variable, family)
        if original is None:
            return
        spec, kind = self._spec_of(variable.row), variable.row.read(Levelled).variable_type
        if kind == "ALIAS":
            spec.value = value_of(self._ctx, original)
        asked = Derivation(family, variable.level, original)
        await create_derived(self._ctx, self._tx, self._call, asked, spec, kind)
        await self._note(variable.row, variable.level)

    async def _original(self, variable: DerivedVariable, family: Family) -> Row | None:
        """Returns the variable from which the copy is derived; None if it is not visible to the copy."""
        if copy := self._copies.get(variable.original):
            return copy
        levels = await self._tx.tree.above(variable.level.id)
        row = await self._tx.resources.get(variable.original)
        if row is not None:
            return row if row.parent in {level.id for level in levels} else None
        key = variable.level.id, family.name
        if key not in self._seen:
            rows = await built_in_rows(self._ctx, self._tx, self._call.actor, levels, family)
            self._seen[key] = rows
        id = self._built_ins.get(variable.original, variable.original)
        return next((row for row in self._seen[key] if row.id == id), None)

    async def _note(self, row: Row, level: Row) -> None:
        copy = await self._tx.resources.named(level.id, row.family, row.name or "")
        assert copy is not None
        self._copies[row.id] = copy

    def _spec_of(self, row: Row) -> Variable | Secret:
        document, hidden = msgspec.json.decode(row.body), own_hidden(self._ctx, row)
        spec = merge_patched(self._ctx.registry[row.family], document, hidden, {})
        assert isinstance(spec, Variable | Secret)
        spec.value = REFERENCE_PATTERN.sub(self._refer_to_copy, spec.value)
        return spec

    def _refer_to_copy(self, reference: re.Match[str]) -> str:
        """Replaces the id in a reference to a copied service by the id of the copy."""
        before, id, after = reference.groups()
        return f"{before}{self._ids.get(id, id)}{after}"


def _without_id(key: str, id: str) -> str:
    return key.replace(f"_Z{id[:8].upper()}_", "_", 1)


async def _original_of(tx: Tx, row: Row) -> str:
    """Returns the id of the variable from which another is derived; empty if it is not derived."""
    for link in ("aliases", "overrides"):
        if target := await tx.links.target(row.id, link):
            return target
    return ""
