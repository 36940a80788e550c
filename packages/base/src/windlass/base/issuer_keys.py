"""Provides the keys of OpenID Connect issuers: fixed keys, or keys fetched from the issuer and cached.

Keys come only from the issuer, never from a token. Weak keys and keys of unknown kinds are skipped.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct, ValidationError, convert

from windlass.base.log import log

Fetch = Callable[[str], Awaitable[bytes]]
Now = Callable[[], float]

MAX_DOCUMENT: Final = 1024 * 1024
MAX_KEYS: Final = 200  # a document has room for thousands, whose parsing would delay other clients
MAX_FRESH_SECONDS: Final = 3600.0  # older keys are fetched again before use
MAX_KEY_AGE_SECONDS: Final = 24 * 3600.0  # the maximum age of cached keys while the issuer is unreachable

# The key type of each accepted algorithm. "none" and HS* are left out, because with them, verifiers can
# forge tokens.
ALGORITHMS: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
    "Ed25519": "Ed25519",  # the newer name in RFC 9864
}
# PyJWT parses a key for an algorithm; any algorithm of the key's type will do.
_READ_AS = {kind: alg for alg, kind in reversed(ALGORITHMS.items())}
_RSA_BITS = range(2048, 16384 + 1)  # OpenSSL does not verify with longer keys
# Some OpenSSL builds lack Ed25519, and older releases of PyJWT raise exceptions of other libraries.
_KEY_ERRORS = (ValidationError, jwt.PyJWTError, UnsupportedAlgorithm, TypeError, ValueError)
_log = log("oidc")


class TokenRefused(Exception):
    """The token is refused. The message is safe to show to the client."""


class TokenOutOfTime(TokenRefused):
    """The token is expired or not valid yet. If it was issued just now, a clock is wrong."""


class IssuerUnreachable(TokenRefused):
    """The issuer's keys are unavailable at present; the token may be valid."""


class IssuerKey(Struct, frozen=True):
    kind: str
    alg: str | None
    kid: str | None
    public: Any

    def fits(self, alg: str) -> bool:
        return ALGORITHMS[alg] == self.kind and self.alg in (None, alg)


class _UnknownKey(TokenRefused):
    """No known key fits the token; the issuer may have published new keys."""


class IssuerKeys(Protocol):
    async def find(self, alg: str, kid: str | None) -> IssuerKey: ...


class KnownKeys:
    """Keys that are configured once and never change."""

    def __init__(self, jwks: dict[str, Any]) -> None:
        self._keys = parse_key_set(jwks)

    async def find(self, alg: str, kid: str | None) -> IssuerKey:
        return _select_key(self._keys, alg, kid)


class FetchedKeys:
    """The keys of one issuer, fetched when they are missing, old or unknown.

    Concurrent callers share a fetch, and fetches are rate-limited.
    """

    def __init__(self, issuer: str, fetch: Fetch, now: Now, every: float) -> None:
        self._issuer, self._fetch, self._now, self._every = issuer, fetch, now, every
        self._keys: list[IssuerKey] = []
        self._fetched = self._tried = -math.inf
        self._fetching: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def find(self, alg: str, kid: str | None) -> IssuerKey:
        if not self._is_within(MAX_FRESH_SECONDS, self._fetched):
            await self._refetch()
        try:
            return _select_key(self._usable_keys(), alg, kid)
        except _UnknownKey:
            await self._refetch()
            return _select_key(self._usable_keys(), alg, kid)

    def _usable_keys(self) -> list[IssuerKey]:
        if self._now() - self._fetched >= MAX_KEY_AGE_SECONDS:
            raise IssuerUnreachable(
                "the issuer of the token cannot be reached, try again later"
            ) from self._failure
        return self._keys

    async def _refetch(self) -> None:
        if self._fetching is None and not self._is_within(self._every, self._tried):
            self._tried = self._now()
            self._fetching = asyncio.create_task(self._replace())
        if self._fetching is not None:
            await asyncio.shield(self._fetching)  # a cancelled caller must not cancel the shared fetch

    async def _replace(self) -> None:
        try:
            self._keys = await _download(self._issuer, self._fetch)
            self._fetched, self._failure = self._now(), None
        except (OSError, ValueError, TokenRefused) as error:  # the cached keys remain in use
            self._failure = error
            _log.warning("an issuer's keys cannot be fetched", exc_info=True, extra={"issuer": self._issuer})
        finally:
            self._fetching = None

    def _is_within(self, span: float, start_time: float) -> bool:
        """Returns whether `start_time` is less than `span` ago. Returns False if the clock was set back since
        then, so that no wait is endless."""
        return 0 <= self._now() - start_time < span


def _select_key(keys: Iterable[IssuerKey], alg: str, kid: str | None) -> IssuerKey:
    match [key for key in keys if kid in (None, key.kid) and key.fits(alg)]:
        case [key]:
            return key
        case []:
            raise _UnknownKey("no key of the token's issuer fits the token")
        case _:
            raise TokenRefused("several keys of the issuer fit the token, which does not name its key")


async def _download(issuer: str, fetch: Fetch) -> list[IssuerKey]:
    # OpenID Connect Discovery, section 4: remove a trailing slash of the issuer.
    discovery = _parse_document(await fetch(f"{issuer.removesuffix('/')}/.well-known/openid-configuration"))
    if discovery.get("issuer") != issuer:
        raise TokenRefused("the discovery document names another issuer")
    return parse_key_set(_parse_document(await fetch(_jwks_uri(discovery, issuer))))


def _parse_document(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_DOCUMENT:
        raise TokenRefused(f"a document of the issuer is longer than {MAX_DOCUMENT} bytes")
    return json_object(raw)


def _jwks_uri(discovery: dict[str, Any], issuer: str) -> str:
    uri = discovery.get("jwks_uri")
    if not isinstance(uri, str) or not uri.startswith(_allowed_schemes(issuer)):
        raise TokenRefused("the discovery document has no jwks_uri with https")
    return uri


def _allowed_schemes(issuer: str) -> tuple[str, ...]:
    return ("https://", "http://") if issuer.startswith("http://") else ("https://",)


def is_issuer(text: str) -> bool:
    url = urlsplit(text)
    return url.scheme in ("https", "http") and bool(url.hostname) and not url.query and not url.fragment


class _Jwk(Struct):
    """The fields of a published key that decide whether it may verify signatures. A key with a field of the
    wrong type is skipped."""

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
        """Whether the key may verify signatures. A published private key may not: everybody has it."""
        return self.kind in _READ_AS and self.use == "sig" and "verify" in self.key_ops and self.d is None


def parse_key_set(jwks: dict[str, Any]) -> list[IssuerKey]:
    """Parses a key set. Skips keys of unknown kinds and for other purposes than signatures."""
    listed = jwks.get("keys")
    if not isinstance(listed, list):
        raise TokenRefused("the key set has no list of keys")
    if len(listed) > MAX_KEYS:
        raise TokenRefused(f"the key set has more than {MAX_KEYS} keys")
    return [key for jwk in listed if (key := _issuer_key(jwk)) is not None]


def _issuer_key(jwk: Any) -> IssuerKey | None:
    try:
        fields = convert(jwk, _Jwk)
        if not fields.verifies:
            return None
        public = jwt.PyJWK(jwk, _READ_AS[fields.kind]).key
    except _KEY_ERRORS:
        return None
    too_weak = isinstance(public, RSAPublicKey) and public.key_size not in _RSA_BITS
    return None if too_weak else IssuerKey(fields.kind, fields.alg, fields.kid, public)


def json_object(raw: bytes) -> dict[str, Any]:
    """Parses a JSON object strictly by RFC 8259.

    By default, Python accepts UTF-16, NaN, 1e999 and lone surrogates as well. If a name is repeated, Python
    uses its last value, and another parser may use the first.
    """
    try:
        document = json.loads(raw.decode(), object_pairs_hook=_without_repetition)
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise TokenRefused("JSON was expected: this is not JSON, or repeats a name") from error
    if not isinstance(document, dict):
        raise TokenRefused("this is not a JSON object")
    return document


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    once = dict(pairs)
    if len(once) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return once
