"""Permission checks: `may(actor, need, where)` decides from scopes, roles, and the limits of tokens."""

from windlass.core.access.actor import (
    SYSTEM,
    Actor,
    ids_to_look_up,
    may,
    may_below,
    may_somewhere,
    scopes_somewhere,
)
from windlass.core.access.location import LEVEL_FAMILIES, ResourceLocation, location_along
from windlass.core.access.permits import (
    ROLE_IDS,
    SCOPE_MEANINGS,
    SCOPE_WORDS,
    SCOPES,
    Permit,
    Permits,
    Scope,
    permits_of_role,
    permits_throughout,
    role_of,
    scopes_of,
    words_of,
)

__all__ = [
    "LEVEL_FAMILIES",
    "ROLE_IDS",
    "SCOPES",
    "SCOPE_MEANINGS",
    "SCOPE_WORDS",
    "SYSTEM",
    "Actor",
    "Permit",
    "Permits",
    "ResourceLocation",
    "Scope",
    "ids_to_look_up",
    "location_along",
    "may",
    "may_below",
    "may_somewhere",
    "permits_of_role",
    "permits_throughout",
    "role_of",
    "scopes_of",
    "scopes_somewhere",
    "words_of",
]
