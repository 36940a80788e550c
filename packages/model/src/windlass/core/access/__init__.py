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
from windlass.core.access.location import LEVELS, ResourceLocation, location_along
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
