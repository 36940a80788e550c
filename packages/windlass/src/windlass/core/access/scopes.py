"""Scopes: the four permissions that a token or a role may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntFlag

_ADMIN = 8


class Scope(IntFlag):
    """A set of permissions. The need of an operation is exactly one of them."""

    READ = 1
    WRITE = 2
    DEPLOY = 4
    ADMIN = _ADMIN

    @property
    def word(self) -> str:
        return (self.name or "").capitalize()

    def allows(self, need: Scope) -> bool:
        """Returns whether this set satisfies a need. Every scope allows reading; Admin allows everything."""
        # Uses plain integers: enum flags cost microseconds, and every request asks this.
        return self._value_ & _ALLOWED_BY[need._value_] != 0


_ALLOWED_BY = {1: 15, 2: 2 | _ADMIN, 4: 4 | _ADMIN, _ADMIN: _ADMIN}
"""The scopes that allow each need."""

MEANINGS: Mapping[Scope, str] = {
    Scope.ADMIN: "full access to all resources",
    Scope.READ: "read-only access",
    Scope.DEPLOY: "can trigger deployments, and stop, restart and cancel them",
    Scope.WRITE: "can create and update resources",
}
WORDS = tuple(scope.word for scope in MEANINGS)


def scopes_of(words: Iterable[str]) -> Scope:
    """Converts `["Read", "deploy"]` to flags. An unknown word raises a KeyError."""
    flags = Scope(0)
    for word in words:
        flags |= Scope[word.upper()]
    return flags


def words_of(flags: Scope) -> list[str]:
    return [scope.word for scope in MEANINGS if flags & scope]
