"""Builds the actors of API tokens and of members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from windlass.base.clock import stamp
from windlass.core.access import (
    Actor,
    Permits,
    ResourceLocation,
    Scope,
    may_below,
    permits_of_role,
    permits_throughout,
    scopes_of,
)
from windlass.families.api_token import ApiToken
from windlass.store import Row

OWN_ISSUER: Final = "windlass"
"""The issuer of people who sign in with a password of this installation. Issuers of JWTs are URLs, so that
none of them has this name."""


def subject_of_person(issuer: str, subject: str) -> str:
    """Returns the subject of a person's actor, which is also the holder of the person's sessions."""
    return f"jwt:{issuer}|{subject}"


def subject_of_token(id: str) -> str:
    """Returns the subject of an API token's actor, which is also the holder of its sessions."""
    return f"token:{id}"


class Membership(Struct):
    """The fields of a member that determine the person's rights."""

    email: str
    role_id: str
    created_at: str


def actor_of_token(id: str, org: str, spec: ApiToken, expires: int | None = None) -> Actor:
    """Returns the actor of an API token."""
    return Actor(
        id=id,
        name=spec.name,
        subject=subject_of_token(id),
        permits=permits_throughout(org, scopes_of(spec.scopes or ())),
        limited_to=frozenset(spec.limited_to) if isinstance(spec.limited_to, list) else None,
        limit=spec.rate_limit,
        expires=expires,
        token=id,
    )


def permits_of_member(memberships: Iterable[tuple[str, str]]) -> Permits:
    """Returns the permits of a person. `memberships`: organizations, each with the person's role."""
    return {org: permits_of_role(org, role) for org, role in memberships}


def is_admin_token(row: Row, now: int) -> bool:
    """Returns whether a token is valid and has all rights in its organization."""
    token = row.read(ApiToken)
    is_valid = token.expires_at is None or token.expires_at > stamp(now)
    return is_valid and _may_do_all(actor_of_token(row.id, row.org, token), row.org)


def is_admin_role(role: str, org: str) -> bool:
    """Returns whether a role gives all rights in an organization."""
    permits = permits_of_member([(org, role)])
    return _may_do_all(Actor(id="", name="", subject="", permits=permits), org)


def _may_do_all(actor: Actor, org: str) -> bool:
    return may_below(actor, Scope.ADMIN, ResourceLocation(org))
