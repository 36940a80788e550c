"""Roles: the full interface's word for permits that are given together. Each scope has a built-in role."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from windlass.core.access.permits import Permit
from windlass.core.access.scopes import MEANINGS, Scope
from windlass.core.access.where import Where

_ROLES = uuid.UUID("6f2c1f0a-5c53-4b8e-9d43-6f4a5a0f7a11")
ROLE_IDS: Mapping[Scope, str] = {scope: str(uuid.uuid5(_ROLES, scope.word)) for scope in MEANINGS}
"""Role ids, the same in every organization and installation."""
SCOPES: Mapping[str, Scope] = {id: scope for scope, id in ROLE_IDS.items()}
"""Scopes of the built-in roles, by the id of the role."""


def role_of(flags: Scope) -> Scope:
    """Returns the built-in role that comes closest to these scopes."""
    order = (Scope.ADMIN, Scope.WRITE, Scope.DEPLOY, Scope.READ)
    return next(scope for scope in order if flags & scope)


def permits_of_role(org: str, role_id: str) -> tuple[Permit, ...]:
    """Returns the permits that a role gives in an organization."""
    return (Permit(SCOPES[role_id], Where(org)),)
