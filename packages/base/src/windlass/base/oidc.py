"""Verifies JWT bearer tokens of OpenID Connect issuers: signature, audience, times and subject.

Accepts only the configured issuers and algorithms. Refuses extensions, encryption and shared secrets.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import jwt
from msgspec import Struct

from windlass.base.issuer_keys import (
    ALGORITHMS,
    Fetch,
    FetchedKeys,
    IssuerKey,
    IssuerKeys,
    KnownKeys,
    Now,
    TokenOutOfTime,
    TokenRefused,
    is_issuer,
    json_object,
)

MAX_TOKEN: Final = 16 * 1024
TOKEN_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")
NOT_UNDERSTOOD: Final = ("crit", "b64", "zip", "enc", "cty")

_LAST_MOMENT = 253_402_300_799  # the end of the year 9999, which is the maximum of datetime
_BASE64URL_PATTERN = re.compile(r"[A-Za-z0-9_-]+")


class TokenIssuer(Struct, frozen=True, kw_only=True):
    """A trusted issuer, with the audiences and algorithms that its tokens may have."""

    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    keys: dict[str, Any] | None = None
    """The issuer's key set (JWKS), if known, as for a `Signer` in this process. None: it is fetched."""

    def __post_init__(self) -> None:
        if not self.algorithms or not ALGORITHMS.keys() >= set(self.algorithms):
            raise ValueError(f"{self.issuer}: the algorithms must be among {', '.join(ALGORITHMS)}")
        if not self.audiences or "" in self.audiences:
            raise ValueError(f"{self.issuer}: name the audiences that its tokens must be meant for")
        if self.keys is None and not is_issuer(self.issuer):
            raise ValueError(f"{self.issuer}: an issuer is an http(s) address without query and fragment")


class Verifier:
    """Verifies tokens. `fetch` downloads a document of an issuer, with its own limits of time and size."""

    def __init__(
        self,
        trusted: Sequence[TokenIssuer],
        fetch: Fetch,
        now: Now,
        *,
        leeway: float = 30.0,
        refetch_every: float = 30.0,
    ) -> None:
        self._now, self._leeway = now, leeway
        self._trusted = {issuer.issuer: issuer for issuer in trusted}
        if len(self._trusted) < len(trusted):
            raise ValueError("an issuer is trusted twice: name it once, with all its audiences")
        self._keys: dict[str, IssuerKeys] = {
            issuer.issuer: KnownKeys(issuer.keys)
            if issuer.keys is not None
            else FetchedKeys(issuer.issuer, fetch, now, refetch_every)
            for issuer in trusted
        }

    async def verify(self, token: str) -> dict[str, Any]:
        """Returns the claims of a valid token. Raises `TokenRefused` for any other token.

        Checks the signature before times, audience and subject, so that a client with a forged token does
        not learn the expected values.
        """
        read = _read(token)
        _check_header(read.header)
        trusted = self._issuer_of(read.claims)
        alg = _algorithm_of(read.header, trusted)
        key = await self._keys[trusted.issuer].find(alg, read.header.get("kid"))
        _check_signature(read, key, alg)
        _check_times(read.claims, self._now(), self._leeway)
        _check_audience(read.claims, trusted.audiences)
        _check_subject(read.claims)
        return read.claims

    def _issuer_of(self, claims: dict[str, Any]) -> TokenIssuer:
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or issuer not in self._trusted:
            raise TokenRefused("the token's issuer is not trusted here")
        return self._trusted[issuer]


class _Token(Struct, frozen=True):
    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def _read(token: str) -> _Token:
    if len(token) > MAX_TOKEN:
        raise TokenRefused(f"the token is longer than {MAX_TOKEN} characters")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("the token is not a signed JWT, which has three parts")
    header, payload, signature = map(_decode, parts)
    return _Token(json_object(header), json_object(payload), f"{parts[0]}.{parts[1]}".encode(), signature)


def _decode(segment: str) -> bytes:
    """Decodes strict Base64url: no padding, no white space, and no stray bits at the end."""
    if not _BASE64URL_PATTERN.fullmatch(segment) or len(segment) % 4 == 1:
        raise TokenRefused("a part of the token is not base64url")
    raw = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != segment.encode():
        raise TokenRefused("a part of the token is not base64url")
    return raw


def _check_header(header: dict[str, Any]) -> None:
    # RFC 7515 lets recipients ignore unknown header fields, but these change the meaning of the token.
    for name in NOT_UNDERSTOOD:
        if name in header:
            raise TokenRefused(f"the token's header has {name}, which is not accepted here")
    if str(header.get("typ", "JWT")).lower() not in TOKEN_TYPES:
        raise TokenRefused("the token's typ is neither JWT nor at+jwt")
    if not isinstance(header.get("kid", ""), str):
        raise TokenRefused("the token's kid is not a string")


def _algorithm_of(header: dict[str, Any], trusted: TokenIssuer) -> str:
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in trusted.algorithms:
        raise TokenRefused("the token's algorithm is not accepted of its issuer")
    return alg


def _check_signature(token: _Token, key: IssuerKey, alg: str) -> None:
    algorithm = jwt.get_algorithm_by_name(alg.replace("Ed25519", "EdDSA"))  # PyJWT has only the older name
    if not algorithm.verify(token.signed, key.public, token.signature):
        raise TokenRefused("the token's signature is wrong")


def _check_times(claims: dict[str, Any], now: float, leeway: float) -> None:
    for name in ("exp", "nbf", "iat"):
        if name in claims and not _is_moment(claims[name]):
            raise TokenRefused(f"the token's {name} is not a time")
    if "exp" not in claims:
        raise TokenRefused("the token has no exp: it would never expire")
    if claims["exp"] <= now - leeway:
        raise TokenOutOfTime("the token has expired")
    if claims.get("nbf", now) > now + leeway:
        raise TokenOutOfTime("the token is not valid yet")
    if claims.get("iat", now) > now + leeway:
        raise TokenOutOfTime("the token was issued in the future")


def _is_moment(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_MOMENT


def _check_audience(claims: dict[str, Any], audiences: Iterable[str]) -> None:
    claim = claims.get("aud")
    listed = claim if isinstance(claim, list) else [claim]
    if not all(isinstance(audience, str) for audience in listed):
        raise TokenRefused("the token's aud is neither a string nor a list of strings")
    if set(audiences).isdisjoint(listed):
        raise TokenRefused("the token is meant for another audience")


def _check_subject(claims: dict[str, Any]) -> None:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise TokenRefused("the token has no sub")
