"""Scopes are the four permissions. A permit grants scopes at a location. A role names permits."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from enum import IntFlag

from msgspec import Struct

from windlass.core.access.location import ResourceLocation

_ADMIN_RIGHT = 8


class Scope(IntFlag):
    """A set of permissions. An operation requires exactly one permission."""

    READ = 1
    WRITE = 2
    DEPLOY = 4
    ADMIN = _ADMIN_RIGHT

    @property
    def word(self) -> str:
        return (self.name or "").capitalize()

    def allows(self, required_scope: Scope) -> bool:
        """Returns whether this set includes the required permission. Every scope allows reading; Admin allows
        everything."""
        # Uses plain integers, because enum flags take microseconds and every request is checked.
        return self._value_ & _ALLOWED_BY[required_scope._value_] != 0


_ALLOWED_BY = {1: 15, 2: 2 | _ADMIN_RIGHT, 4: 4 | _ADMIN_RIGHT, _ADMIN_RIGHT: _ADMIN_RIGHT}
"""The scopes that satisfy each required permission, as bit masks."""

SCOPE_MEANINGS: Mapping[Scope, str] = {
    Scope.ADMIN: "full access to all resources",
    Scope.READ: "read-only access",
    Scope.DEPLOY: "can trigger deployments, and stop, restart and cancel them",
    Scope.WRITE: "can create and update resources",
}
SCOPE_WORDS = tuple(scope.word for scope in SCOPE_MEANINGS)


def scopes_of(words: Iterable[str]) -> Scope:
    """Converts scope names, such as `["Read", "deploy"]`, to flags. Raises KeyError for an unknown name."""
    flags = Scope(0)
    for word in words:
        flags |= Scope[word.upper()]
    return flags


def words_of(flags: Scope) -> list[str]:
    return [scope.word for scope in SCOPE_MEANINGS if flags & scope]


class Permit(Struct, frozen=True):
    """Grants scopes at a location and everywhere below it."""

    scopes: Scope
    at: ResourceLocation


Permits = Mapping[str, tuple[Permit, ...]]
"""Permits by organization id."""


def permits_throughout(org: str, scopes: Scope) -> Permits:
    """Returns permits with the same scopes everywhere in one organization."""
    return {org: (Permit(scopes, ResourceLocation(org)),)}


_ROLE_ID_NAMESPACE = uuid.UUID("6f2c1f0a-5c53-4b8e-9d43-6f4a5a0f7a11")
ROLE_IDS: Mapping[Scope, str] = {
    scope: str(uuid.uuid5(_ROLE_ID_NAMESPACE, scope.word)) for scope in SCOPE_MEANINGS
}
"""The ids of the built-in roles, which are equal in every organization and installation."""
SCOPES: Mapping[str, Scope] = {id: scope for scope, id in ROLE_IDS.items()}
"""The scopes of the built-in roles by role id."""


def role_of(flags: Scope) -> Scope:
    """Returns the built-in role that is closest to these scopes."""
    order = (Scope.ADMIN, Scope.WRITE, Scope.DEPLOY, Scope.READ)
    return next(scope for scope in order if flags & scope)


def permits_of_role(org: str, role_id: str) -> tuple[Permit, ...]:
    """Returns the permits that a role grants in an organization."""
    return (Permit(SCOPES[role_id], ResourceLocation(org)),)
