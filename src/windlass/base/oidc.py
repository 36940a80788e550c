"""Bearer tokens of OpenID Connect issuers: is this JWT genuine, meant for us, and valid now?

It trusts only the issuers and algorithms it was given, and takes keys from the issuer, never from the token.
It knows no extension, no encryption and no shared secret: what it cannot judge, it refuses.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct, ValidationError, convert

from windlass.base.log import log

Fetch = Callable[[str], Awaitable[bytes]]
Now = Callable[[], float]

MAX_TOKEN: Final = 16 * 1024
MAX_DOCUMENT: Final = 1024 * 1024
MAX_KEYS: Final = 200  # reading the thousands that a document has room for would keep other clients waiting
FRESH: Final = 3600.0  # keys older than this are fetched again before they are used
USABLE: Final = 24 * 3600.0  # and this long they serve while their issuer cannot be reached

# The kind of key that each algorithm needs. "none" and HS* cannot even be asked for: with those, whoever can
# verify can also forge.
ALGORITHMS: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
    "Ed25519": "Ed25519",  # the same by its newer name, RFC 9864
}
# PyJWT reads a key by way of an algorithm, any that its kind serves.
_READ_AS = {kind: alg for alg, kind in reversed(ALGORITHMS.items())}
TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")
NOT_UNDERSTOOD: Final = ("crit", "b64", "zip", "enc", "cty")

_RSA_BITS = range(2048, 16384 + 1)  # above, OpenSSL does not verify either
_LAST_MOMENT = 253_402_300_799  # the end of the year 9999, where datetime ends as well
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
# An OpenSSL may lack Ed25519, and older releases of PyJWT do not translate what they stumble over.
_UNREADABLE = (ValidationError, jwt.PyJWTError, UnsupportedAlgorithm, TypeError, ValueError)
_log = log("oidc")


class TokenRefused(Exception):
    """Why a token is not accepted, in words that are safe to show."""


class IssuerUnreachable(TokenRefused):
    """The token may be good, but the keys of its issuer cannot be had now."""


class Trusted(Struct, frozen=True, kw_only=True):
    """An issuer whose tokens are accepted: for which audiences, and signed how."""

    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    keys: dict[str, Any] | None = None
    """Its key set (JWKS) where that is known, as of a `Signer` in this process: then nothing is fetched."""

    def __post_init__(self) -> None:
        if not self.algorithms or not ALGORITHMS.keys() >= set(self.algorithms):
            raise ValueError(f"{self.issuer}: the algorithms must be among {', '.join(ALGORITHMS)}")
        if not self.audiences or "" in self.audiences:
            raise ValueError(f"{self.issuer}: name the audiences that its tokens must be meant for")
        if self.keys is None and not _is_issuer(self.issuer):
            raise ValueError(f"{self.issuer}: an issuer is an http(s) address without query and fragment")


class Verifier:
    """Judges tokens. `fetch` gets a document from an issuer, within limits of time and size of its own."""

    def __init__(
        self,
        trusted: Sequence[Trusted],
        fetch: Fetch,
        now: Now,
        *,
        leeway: float = 30.0,
        refetch_every: float = 30.0,
    ) -> None:
        self._now, self._leeway = now, leeway
        self._trusted = {each.issuer: each for each in trusted}
        if len(self._trusted) < len(trusted):
            raise ValueError("an issuer is trusted twice: name it once, with all its audiences")
        self._keys: dict[str, _Keys] = {
            each.issuer: _Given(each.keys)
            if each.keys is not None
            else _Fetched(each.issuer, fetch, now, refetch_every)
            for each in trusted
        }

    async def verify(self, token: str) -> dict[str, Any]:
        """The claims of a good token; `TokenRefused` for any other.

        Times, audience and subject come after the signature: only a genuine token is told what was wanted.
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

    def _issuer_of(self, claims: dict[str, Any]) -> Trusted:
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
        raise TokenRefused("a signed JWT has three parts, this token has not")
    header, payload, signature = map(_decoded, parts)
    return _Token(_json(header), _json(payload), f"{parts[0]}.{parts[1]}".encode(), signature)


def _decoded(part: str) -> bytes:
    """Base64url, only as an encoder writes it: no padding, no white space, no stray bits at the end."""
    if not _BASE64URL.fullmatch(part) or len(part) % 4 == 1:
        raise TokenRefused("a part of the token is not base64url")
    raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != part.encode():
        raise TokenRefused("a part of the token is not base64url")
    return raw


def _json(raw: bytes) -> dict[str, Any]:
    """A JSON object as RFC 8259 has it.

    Left alone, Python also reads UTF-16, NaN, 1e999 and half a surrogate pair, and of equal names takes the
    last, where another reader may take the first.
    """
    try:
        found = json.loads(raw.decode(), object_pairs_hook=_without_repetition)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise TokenRefused("what should be JSON is not, or says a name twice") from error
    if not isinstance(found, dict):
        raise TokenRefused("what should be a JSON object is something else")
    return found


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    once = dict(pairs)
    if len(once) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return once


def _check_header(header: dict[str, Any]) -> None:
    # RFC 7515 lets readers ignore what they do not know; but these change what the other parts mean.
    for name in NOT_UNDERSTOOD:
        if name in header:
            raise TokenRefused(f"the token's header has {name}, which is not accepted here")
    if str(header.get("typ", "JWT")).lower() not in TYPES:
        raise TokenRefused("the token's typ is neither JWT nor at+jwt")
    if not isinstance(header.get("kid", ""), str):
        raise TokenRefused("the token's kid is not a string")


def _algorithm_of(header: dict[str, Any], trusted: Trusted) -> str:
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in trusted.algorithms:
        raise TokenRefused("the token's algorithm is not accepted of its issuer")
    return alg


def _check_signature(token: _Token, key: _IssuerKey, alg: str) -> None:
    algorithm = jwt.get_algorithm_by_name(alg.replace("Ed25519", "EdDSA"))  # PyJWT knows the older name only
    if not algorithm.verify(token.signed, key.public, token.signature):
        raise TokenRefused("the token's signature is wrong")


def _check_times(claims: dict[str, Any], now: float, leeway: float) -> None:
    for name in ("exp", "nbf", "iat"):
        if name in claims and not _is_moment(claims[name]):
            raise TokenRefused(f"the token's {name} is not a time")
    if "exp" not in claims:
        raise TokenRefused("the token has no exp, and would be valid for ever")
    if claims["exp"] <= now - leeway:
        raise TokenRefused("the token has expired")
    if claims.get("nbf", now) > now + leeway:
        raise TokenRefused("the token is not valid yet")
    if claims.get("iat", now) > now + leeway:
        raise TokenRefused("the token was issued in the future")


def _is_moment(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_MOMENT


def _check_audience(claims: dict[str, Any], audiences: Iterable[str]) -> None:
    named = claims.get("aud")
    listed = named if isinstance(named, list) else [named]
    if not all(isinstance(each, str) for each in listed):
        raise TokenRefused("the token's aud is neither a string nor a list of strings")
    if set(audiences).isdisjoint(listed):
        raise TokenRefused("the token is meant for another audience")


def _check_subject(claims: dict[str, Any]) -> None:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise TokenRefused("the token has no sub")


class _IssuerKey(Struct, frozen=True):
    kind: str
    alg: str | None
    kid: str | None
    public: Any

    def fits(self, alg: str) -> bool:
        return ALGORITHMS[alg] == self.kind and self.alg in (None, alg)


class _UnknownKey(TokenRefused):
    """Perhaps the issuer has new keys."""


class _Keys(Protocol):
    async def find(self, alg: str, kid: str | None) -> _IssuerKey: ...


class _Given:
    """Keys that are known and stay."""

    def __init__(self, jwks: dict[str, Any]) -> None:
        self._keys = _usable(jwks)

    async def find(self, alg: str, kid: str | None) -> _IssuerKey:
        return _the_one(self._keys, alg, kid)


class _Fetched:
    """One issuer's keys, fetched when missing, old or unknown: once for all who wait, and not too often."""

    def __init__(self, issuer: str, fetch: Fetch, now: Now, every: float) -> None:
        self._issuer, self._fetch, self._now, self._every = issuer, fetch, now, every
        self._keys: list[_IssuerKey] = []
        self._fetched = self._tried = -math.inf
        self._fetching: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def find(self, alg: str, kid: str | None) -> _IssuerKey:
        if not self._within(FRESH, self._fetched):
            await self._refetch()
        try:
            return _the_one(self._known(), alg, kid)
        except _UnknownKey:
            await self._refetch()
            return _the_one(self._known(), alg, kid)

    def _known(self) -> list[_IssuerKey]:
        if self._now() - self._fetched >= USABLE:
            raise IssuerUnreachable(
                "the issuer of the token cannot be reached, try again later"
            ) from self._failure
        return self._keys

    async def _refetch(self) -> None:
        if self._fetching is None and not self._within(self._every, self._tried):
            self._tried = self._now()
            self._fetching = asyncio.create_task(self._replace())
        if self._fetching is not None:
            await asyncio.shield(self._fetching)  # who gives up does not take the others' keys away

    async def _replace(self) -> None:
        try:
            self._keys = await _download(self._issuer, self._fetch)
            self._fetched, self._failure = self._now(), None
        except Exception as error:  # noqa: BLE001 - whatever fetch may raise, the keys of before still serve
            self._failure = error
            _log.warning("an issuer's keys cannot be fetched", exc_info=True, extra={"issuer": self._issuer})
        finally:
            self._fetching = None

    def _within(self, span: float, since: float) -> bool:
        """Also false when the clock was turned back, lest a wait never end."""
        return 0 <= self._now() - since < span


def _the_one(keys: Iterable[_IssuerKey], alg: str, kid: str | None) -> _IssuerKey:
    match [key for key in keys if kid in (None, key.kid) and key.fits(alg)]:
        case [key]:
            return key
        case []:
            raise _UnknownKey("no key of the token's issuer fits the token")
        case _:
            raise TokenRefused("several keys of the token's issuer fit the token, and it does not say which")


async def _download(issuer: str, fetch: Fetch) -> list[_IssuerKey]:
    # OpenID Connect Discovery, section 4: a slash at the end of the issuer gives way.
    found = _document(await fetch(f"{issuer.removesuffix('/')}/.well-known/openid-configuration"))
    if found.get("issuer") != issuer:
        raise TokenRefused("the discovery document names another issuer")
    return _usable(_document(await fetch(_jwks_uri(found, issuer))))


def _document(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_DOCUMENT:
        raise TokenRefused(f"a document of the issuer is longer than {MAX_DOCUMENT} bytes")
    return _json(raw)


def _jwks_uri(found: dict[str, Any], issuer: str) -> str:
    uri = found.get("jwks_uri")
    if not isinstance(uri, str) or not uri.startswith(_schemes(issuer)):
        raise TokenRefused("the discovery document has no jwks_uri with https")
    return uri


def _schemes(issuer: str) -> tuple[str, ...]:
    return ("https://", "http://") if issuer.startswith("http://") else ("https://",)


def _is_issuer(text: str) -> bool:
    url = urlsplit(text)
    return url.scheme in ("https", "http") and bool(url.hostname) and not url.query and not url.fragment


class _Jwk(Struct):
    """What of a published key decides whether it may verify. Of a wrong type, the key is not read at all."""

    kty: str
    crv: str = ""
    use: str = "sig"
    key_ops: tuple[str, ...] = ("verify",)
    alg: str | None = None
    kid: str | None = None
    d: Any = None

    @property
    def kind(self) -> str:
        return self.crv if self.kty in ("EC", "OKP") else self.kty

    @property
    def verifies(self) -> bool:
        """A private key that was published is everybody's, so it verifies nothing."""
        return self.kind in _READ_AS and self.use == "sig" and "verify" in self.key_ops and self.d is None


def _usable(jwks: dict[str, Any]) -> list[_IssuerKey]:
    """A set may also hold keys for other purposes, and of kinds yet to be invented: those are passed over."""
    listed = jwks.get("keys")
    if not isinstance(listed, list):
        raise TokenRefused("the key set has no list of keys")
    if len(listed) > MAX_KEYS:
        raise TokenRefused(f"the key set has more than {MAX_KEYS} keys")
    return [key for each in listed if (key := _key(each)) is not None]


def _key(jwk: Any) -> _IssuerKey | None:
    try:
        said = convert(jwk, _Jwk)
        if not said.verifies:
            return None
        public = jwt.PyJWK(jwk, _READ_AS[said.kind]).key
    except _UNREADABLE:
        return None
    too_weak = isinstance(public, RSAPublicKey) and public.key_size not in _RSA_BITS
    return None if too_weak else _IssuerKey(said.kind, said.alg, said.kid, public)
