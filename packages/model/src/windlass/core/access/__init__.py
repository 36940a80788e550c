"""Permission: `may(actor, need, where)` decides it, over scopes, roles, and the limits of tokens."""

from windlass.core.access.actor import (
    SYSTEM,
    Actor,
    ids_to_look_up,
    may,
    may_below,
    may_somewhere,
    scopes_somewhere,
)
from windlass.core.access.permits import (
    MEANINGS,
    ROLE_IDS,
    SCOPES,
    WORDS,
    Permit,
    Permits,
    Scope,
    permits_of_role,
    permits_throughout,
    role_of,
    scopes_of,
    words_of,
)
from windlass.core.access.where import LEVELS, Where, where_along

__all__ = [
    "LEVELS",
    "MEANINGS",
    "ROLE_IDS",
    "SCOPES",
    "SYSTEM",
    "WORDS",
    "Actor",
    "Permit",
    "Permits",
    "Scope",
    "Where",
    "ids_to_look_up",
    "may",
    "may_below",
    "may_somewhere",
    "permits_of_role",
    "permits_throughout",
    "role_of",
    "scopes_of",
    "scopes_somewhere",
    "where_along",
    "words_of",
]
