"""An authenticator in software: it makes passkeys, and signs with them as the standard (WebAuthn) says."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def cbor(value: Any) -> bytes:
    """The few kinds of values that an authenticator sends."""
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value)) + value.encode()
    assert isinstance(value, Mapping)
    return _head(5, len(value)) + b"".join(cbor(key) + cbor(item) for key, item in value.items())


def _head(kind: int, number: int) -> bytes:
    for size, mark in ((0, number), (1, 24), (2, 25), (4, 26)):
        if number < (24 if size == 0 else 1 << 8 * size):
            return (
                bytes([kind << 5 | mark]) + number.to_bytes(size, "big")
                if size
                else bytes([kind << 5 | mark])
            )
    raise ValueError(number)


class Authenticator:
    """A phone or a key with one passkey. The fields are what a test may bend."""

    def __init__(self, origin: str, host: str = "") -> None:
        self.origin = origin
        self.host = host or origin.partition("://")[2].partition(":")[0]
        self.flags = PRESENT | VERIFIED
        self.counter = 0
        self.credential = secrets.token_bytes(32)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.client: dict[str, Any] = {}
        """Fields of the client data that are not as the browser would send them."""

    def create(self, begun: Mapping[str, Any]) -> dict[str, str]:
        client = self._client_data("webauthn.create", begun["options"]["challenge"])
        numbers = self.key.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        attested = bytes(16) + len(self.credential).to_bytes(2, "big") + self.credential + cbor(key)
        data = self._data(self.flags | ATTESTED) + attested
        attestation = cbor({"fmt": "none", "attStmt": {}, "authData": data})
        return {
            "challenge": begun["challenge"],
            "credential": to_base64url(self.credential),
            "client_data": to_base64url(client),
            "attestation": to_base64url(attestation),
        }

    def sign(self, begun: Mapping[str, Any]) -> dict[str, str]:
        client = self._client_data("webauthn.get", begun["options"]["challenge"])
        data = self._data(self.flags)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return {
            "challenge": begun["challenge"],
            "credential": to_base64url(self.credential),
            "client_data": to_base64url(client),
            "authenticator_data": to_base64url(data),
            "signature": to_base64url(signature),
        }

    def _client_data(self, kind: str, challenge: str) -> bytes:
        usual = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(usual | self.client).encode()

    def _data(self, flags: int) -> bytes:
        host = hashlib.sha256(self.host.encode()).digest()
        return host + bytes([flags]) + self.counter.to_bytes(4, "big")
