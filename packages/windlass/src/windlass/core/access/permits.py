"""Permits: scopes at a place. Tokens, roles and members are all reduced to permits."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from windlass.core.access.scopes import Scope
from windlass.core.access.where import Where


class Permit(Struct, frozen=True):
    """Allows the scopes at a place and everywhere below it."""

    scopes: Scope
    at: Where


Permits = Mapping[str, tuple[Permit, ...]]
"""Permits by the id of their organization."""


def permits_throughout(org: str, scopes: Scope) -> Permits:
    """Returns the permits of a caller with the same scopes everywhere in one organization."""
    return {org: (Permit(scopes, Where(org)),)}
