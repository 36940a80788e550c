"""Actors from what is stored: an API token, or a member of organizations."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.access import Actor, Permits, permits_of_role, permits_throughout, scopes_of
from windlass.core.declare.document import Document


def actor_of_token(id: str, org: str, token: Document, expires: int | None = None) -> Actor:
    """Returns the caller that an API token stands for."""
    limits = token.get("limited_to")
    return Actor(
        id=id,
        name=token["name"],
        subject=f"token:{id}",
        permits=permits_throughout(org, scopes_of(token["scopes"])),
        limited_to=None if limits is None else frozenset(limits),
        limit=token["rate_limit"],
        expires=expires,
        token=id,
    )


def permits_of_member(memberships: Iterable[tuple[str, Document]]) -> Permits:
    """Returns the permits of a person. `memberships` are organizations with the person as a member there."""
    return {org: permits_of_role(org, member["role_id"]) for org, member in memberships}
