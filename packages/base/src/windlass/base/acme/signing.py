"""Signs requests to an authority with an account key (JWS, RFC 7515), always with ES256."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from windlass.base.lazy import lazy_module

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, utils
else:  # as in `certificates`
    hashes = lazy_module("cryptography.hazmat.primitives.hashes")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    ec = lazy_module("cryptography.hazmat.primitives.asymmetric.ec")
    utils = lazy_module("cryptography.hazmat.primitives.asymmetric.utils")


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def new_private_key() -> bytes:
    """Returns a new key on the curve P-256, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class ExternalAccount(Struct, frozen=True):
    """An account of the authority's website, to which the account of ACME is bound."""

    id: str
    key: str
    """The key of its HMAC, in Base64url."""


class AccountKey:
    def __init__(self, pem: bytes) -> None:
        key = serialization.load_pem_private_key(pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("an account key is on the curve P-256")
        self._key = key
        numbers = key.public_key().public_numbers()
        self.public = {
            "crv": "P-256",
            "kty": "EC",
            "x": to_base64url(numbers.x.to_bytes(32, "big")),
            "y": to_base64url(numbers.y.to_bytes(32, "big")),
        }

    @property
    def thumbprint(self) -> str:
        """The digest of the public key (RFC 7638), by which an authority recognizes the account."""
        text = json.dumps(self.public, sort_keys=True, separators=(",", ":"))
        return to_base64url(hashlib.sha256(text.encode()).digest())

    def answer_for(self, token: str) -> str:
        """Returns the text that proves the control of a name (the key authorization)."""
        return f"{token}.{self.thumbprint}"

    def bind(self, account: ExternalAccount, url: str) -> dict[str, str]:
        """Returns the proof that the owner of an account of the authority's website wants this key (EAB)."""
        head = {"alg": "HS256", "kid": account.id, "url": url}
        protected, payload = (to_base64url(json.dumps(part).encode()) for part in (head, self.public))
        key = base64.urlsafe_b64decode(account.key + "=" * (-len(account.key) % 4))
        signature = hmac.digest(key, f"{protected}.{payload}".encode(), "sha256")
        return {"protected": protected, "payload": payload, "signature": to_base64url(signature)}

    def sign(self, url: str, nonce: str, payload: Mapping[str, object] | None, account: str = "") -> bytes:
        """Returns a signed request. Without `payload`, it is a read (POST-as-GET); without `account`, it
        contains the public key."""
        who: dict[str, object] = {"kid": account} if account else {"jwk": self.public}
        protected = to_base64url(json.dumps({"alg": "ES256", "nonce": nonce, "url": url, **who}).encode())
        body = "" if payload is None else to_base64url(json.dumps(payload).encode())
        first, second = utils.decode_dss_signature(
            self._key.sign(f"{protected}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
        )
        signature = to_base64url(first.to_bytes(32, "big") + second.to_bytes(32, "big"))
        return json.dumps({"protected": protected, "payload": body, "signature": signature}).encode()
