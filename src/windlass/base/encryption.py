"""Secrets at rest: AES-256-GCM, one data key per value, wrapped by the installation's key.

The associated data names the owner of the value, so a value that was moved to another owner does not decrypt.
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
    """The value was changed, moved, or encrypted with another key."""


class Encryption:
    """Encrypts and decrypts values with the installation's key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must have {KEY_BYTES} bytes, this one has {len(key)}")
        self._wrap = AESGCM(hmac.digest(key, b"wrap", "sha256"))
        self._mark = hmac.digest(key, b"mark", "sha256")
        self.fingerprint = hashlib.sha256(b"fingerprint" + key).hexdigest()[:16]

    def encrypt(self, value: bytes, *owner: str) -> bytes:
        data_key, about = os.urandom(KEY_BYTES), _about(owner)
        nonce = os.urandom(_NONCE)
        wrapped = self._wrap.encrypt(nonce, data_key, about)
        # The data key is used once, so its nonce may be fixed.
        return _FORMAT + nonce + wrapped + AESGCM(data_key).encrypt(bytes(_NONCE), value, about)

    def decrypt(self, encrypted: bytes, *owner: str) -> bytes:
        nonce, rest = encrypted[1 : 1 + _NONCE], encrypted[1 + _NONCE :]
        about = _about(owner)
        try:
            if encrypted[:1] != _FORMAT:
                raise CannotDecrypt("unknown format")
            data_key = self._wrap.decrypt(nonce, rest[:_WRAPPED], about)
            return AESGCM(data_key).decrypt(bytes(_NONCE), rest[_WRAPPED:], about)
        except (InvalidTag, ValueError) as error:
            raise CannotDecrypt("the value cannot be decrypted here") from error

    def mark(self, *parts: bytes) -> str:
        """Returns a keyed digest, to compare values without storing anything that can be guessed."""
        return hmac.digest(self._mark, b"\0".join(parts), "sha256").hex()


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def _about(owner: tuple[str, ...]) -> bytes:
    """Returns a text that no two owners share, whatever characters their names contain."""
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in owner).encode()
