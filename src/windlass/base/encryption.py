"""Secrets at rest: AES-256-GCM, one data key per value, wrapped by the installation's key.

The associated data says whose value it is, so a sealed value that was moved elsewhere does not open.
"""

from __future__ import annotations

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE, _WRAPPED = 12, KEY_BYTES + 16
_FORMAT = b"\x01"


class CannotDecrypt(Exception):
    """The value was changed, moved, or sealed with another key."""


class Encryption:
    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must have {KEY_BYTES} bytes, this one has {len(key)}")
        self._wrap = AESGCM(hmac.digest(key, b"wrap", "sha256"))
        self._mark = hmac.digest(key, b"mark", "sha256")
        self.fingerprint = hashlib.sha256(b"fingerprint" + key).hexdigest()[:16]

    def close(self, value: bytes, *owner: str) -> bytes:
        data_key, about = os.urandom(KEY_BYTES), _about(owner)
        nonce = os.urandom(_NONCE)
        wrapped = self._wrap.encrypt(nonce, data_key, about)
        # The data key is used once, so that its nonce may be fixed.
        return _FORMAT + nonce + wrapped + AESGCM(data_key).encrypt(bytes(_NONCE), value, about)

    def open(self, sealed: bytes, *owner: str) -> bytes:
        nonce, rest = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        about = _about(owner)
        try:
            if sealed[:1] != _FORMAT:
                raise CannotDecrypt("unknown format")
            data_key = self._wrap.decrypt(nonce, rest[:_WRAPPED], about)
            return AESGCM(data_key).decrypt(bytes(_NONCE), rest[_WRAPPED:], about)
        except (InvalidTag, ValueError) as error:
            raise CannotDecrypt("a sealed value does not open here") from error

    def mark(self, *parts: bytes) -> str:
        """A keyed digest: compares values without keeping them guessable."""
        return hmac.digest(self._mark, b"\0".join(parts), "sha256").hex()


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def _about(owner: tuple[str, ...]) -> bytes:
    """No two owners look alike, whatever is in their names."""
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in owner).encode()
