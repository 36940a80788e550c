"""Provides the built-in token issuer, which signs short-lived tokens and publishes its key to verifiers."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
from collections.abc import Callable
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import ECAlgorithm

ALGORITHM: Final = "ES256"
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
JWKS_PATH: Final = "/.well-known/jwks.json"
REGISTERED_CLAIMS: Final = ("iss", "iat", "nbf", "exp", "jti")


class Signer:
    """Signs tokens with one ES256 key."""

    def __init__(self, issuer: str, private_pem: bytes, now: Callable[[], float]) -> None:
        self.issuer = issuer
        self._key = _load(private_pem)
        self._now = now
        self._jwk = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.kid = thumbprint(self._jwk)

    @staticmethod
    def new_key() -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, claims: dict[str, Any], ttl: float) -> str:
        """Returns a token with these claims, valid from now for `ttl` seconds."""
        if taken := claims.keys() & set(REGISTERED_CLAIMS):
            raise ValueError(f"{', '.join(sorted(taken))}: stamped by the issuer, not by its caller")
        return jwt.encode(
            {**claims, **self._standard_claims(ttl)}, self._key, ALGORITHM, headers={"kid": self.kid}
        )

    def jwks(self) -> dict[str, Any]:
        return {"keys": [{**self._jwk, "kid": self.kid, "use": "sig", "alg": ALGORITHM}]}

    def discovery(self) -> dict[str, Any]:
        """Returns the OpenID Connect discovery document. It has no login endpoint, because Windlass has no
        login (as with Kubernetes)."""
        return {
            "issuer": self.issuer,
            "jwks_uri": self.issuer.removesuffix("/") + JWKS_PATH,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "claims_supported": ["sub", "aud", *REGISTERED_CLAIMS],
        }

    def _standard_claims(self, ttl: float) -> dict[str, Any]:
        now = self._now()
        return {
            "iss": self.issuer,
            "iat": math.floor(now),
            "nbf": math.floor(now),
            "exp": math.floor(now + ttl),
            "jti": secrets.token_urlsafe(16),
        }


def thumbprint(jwk: dict[str, Any]) -> str:
    """Returns the RFC 7638 thumbprint of a key, which identifies the key everywhere."""
    needed = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    canonical = json.dumps(needed, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).rstrip(b"=").decode()


def _load(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError(f"{ALGORITHM} needs a private key on the curve P-256")
    return key
