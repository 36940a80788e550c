"""The claims of a verified JWT, the person that they identify, and the refusal of a credential."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.errors import Unauthorized
from windlass.control.people.members import IssuerIdentity
from windlass.families.member import Email

_MAX_SUBJECT_LENGTH: Final = 255  # OpenID Connect Core, section 2
CHALLENGE: Final = {"www-authenticate": 'Token realm="windlass", Bearer realm="windlass"'}


def refusal(message: str) -> Unauthorized:
    return Unauthorized(message, CHALLENGE)


class Claims(Struct, frozen=True):
    """The claims of a verified JWT."""

    iss: str
    sub: str
    exp: int | float
    name: object = None
    email: object = None
    email_verified: object = None
    hd: object = None
    """The domain of the organization whose accounts Google manages."""


def person_of(claims: Claims) -> IssuerIdentity:
    subject, name = claims.sub, claims.name
    if len(subject) > _MAX_SUBJECT_LENGTH or "\0" in subject:
        raise refusal("Use a JWT with a shorter sub: this one has more than 255 characters, or a zero byte")
    named = name[:_MAX_SUBJECT_LENGTH] if isinstance(name, str) else ""
    return IssuerIdentity(issuer=claims.iss, subject=subject, email=_verified_email(claims), name=named)


def _verified_email(claims: Claims) -> str:
    """Returns the email address if the issuer has verified it, otherwise an empty string. Users can put any
    address into a profile."""
    if claims.email_verified is not True:
        return ""
    try:
        return msgspec.convert(claims.email, Email)
    except msgspec.ValidationError:
        return ""
