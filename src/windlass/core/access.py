"""Who may do what: scopes, the matrix that follows from them, and the caller that carries them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from enum import IntFlag

from msgspec import Struct

_ADMIN = 8


class Scope(IntFlag):
    """What a token may do. As the need of an operation, exactly one of them."""

    READ = 1
    WRITE = 2
    DEPLOY = 4
    ADMIN = _ADMIN

    @property
    def word(self) -> str:
        return (self.name or "").capitalize()

    def allows(self, need: Scope) -> bool:
        """Everybody who got in may read; an Admin may do everything; the rest is as named."""
        # On plain numbers: flags of an enum cost microseconds, and every request asks this.
        return need is Scope.READ or self._value_ & (need._value_ | _ADMIN) != 0


MEANINGS: Mapping[Scope, str] = {
    Scope.ADMIN: "full access to all resources",
    Scope.READ: "read-only access",
    Scope.DEPLOY: "can trigger deployments, and stop, restart and cancel them",
    Scope.WRITE: "can create and update resources",
}
WORDS = tuple(scope.word for scope in MEANINGS)

# The full interface speaks of roles: each scope is a built-in role, with the same id everywhere.
_ROLES = uuid.UUID("6f2c1f0a-5c53-4b8e-9d43-6f4a5a0f7a11")
ROLE_IDS: Mapping[Scope, str] = {scope: str(uuid.uuid5(_ROLES, scope.word)) for scope in MEANINGS}


def scopes_of(words: Iterable[str]) -> Scope:
    """`["Read", "deploy"]` as flags; an unknown word is a KeyError."""
    flags = Scope(0)
    for word in words:
        flags |= Scope[word.upper()]
    return flags


def words_of(flags: Scope) -> list[str]:
    return [scope.word for scope in MEANINGS if flags & scope]


def role_of(flags: Scope) -> Scope:
    """The built-in role that says most about these scopes."""
    order = (Scope.ADMIN, Scope.WRITE, Scope.DEPLOY, Scope.READ)
    return next(scope for scope in order if flags & scope)


class Actor(Struct, frozen=True, kw_only=True):
    """A caller whose credentials were good."""

    id: str
    name: str
    subject: str
    """The caller, over all of its credentials."""
    grants: Mapping[str, Scope]
    """Organization id to what may be done there."""
    within: frozenset[str] | None = None
    """Ids this caller is limited to, with all that is below them; None is no limit."""
    limit: int | None = None
    expires: int | None = None
    token: str | None = None
    """Id of the API token behind it, if one is."""

    def may(self, need: Scope) -> bool:
        """Whether it may be done somewhere; where, is for the resource to say."""
        if need is Scope.READ:
            return True
        for scope in self.grants.values():  # noqa: SIM110 (a generator costs more than all that it would do)
            if scope.allows(need):
                return True
        return False

    @property
    def home(self) -> str:
        return next(iter(self.grants))
