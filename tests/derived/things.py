"""Resources that the derived tests made, and the organizations that own them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tests.derived.operations import path_of
from windlass.core.access import Scope
from windlass.core.declare.operations import Operation
from windlass.core.declare.resource import Family


class Thing(Struct, frozen=True):
    """A resource that is there."""

    family: Family
    id: str
    parent: Thing | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.parent.id, self.id) if self.family.nested and self.parent else (self.id,)

    @property
    def above(self) -> list[Thing]:
        """Itself, its parent, and so on."""
        return [self, *(self.parent.above if self.parent else ())]


class Subject(Struct, frozen=True, kw_only=True):
    """A path and a body for an operation, and the status that follows."""

    operation: Operation
    ids: tuple[str, ...]
    body: Any
    status: int
    tenant: Tenant
    query: str = ""
    """The parameters without which the operation is refused."""

    @property
    def path(self) -> str:
        """The path with its query."""
        return path_of(self.operation, self.ids) + (f"?{self.query}" if self.query else "")


class Tenant(Struct, frozen=True):
    """An organization, with a token for each scope."""

    org: str
    admin: str
    tokens: Mapping[Scope, str]
