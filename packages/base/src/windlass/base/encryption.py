"""Encrypts stored secrets: AES-256-GCM with a data key for each value, wrapped by a key of the installation.

The associated data contains the owner of a value, so a value that was moved to another owner does not
decrypt. Each value contains the id of its key, so that a key can be replaced while both keys are in use.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_NONCE, _WRAPPED, _ID = 12, KEY_BYTES + 16, 8
FORMAT: Final = b"\x02"
HEAD_BYTES: Final = len(FORMAT) + _ID
"""The length of a value's header, which contains its format and the id of its key."""
_WITHOUT_ID: Final = b"\x01"
"""The format of versions before 0.1.0 and of its first commits, whose values contain no key id unless a key
was replaced."""


class CannotDecrypt(Exception):
    """Reports that a value was changed, moved, or encrypted with another key."""


class MissingKey(CannotDecrypt):
    """Reports that this process does not have the key of a value."""

    def __init__(self, id: str) -> None:
        super().__init__(f"the key {id} is not here: add it to the file `key`, or to WINDLASS_KEY")


class SealingKey:
    """A key of the installation, with the keys that are derived from it."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must have {KEY_BYTES} bytes, this one has {len(key)}")
        self.id = id_of(key)
        self.head = head_of(self.id)
        self.wrap = AESGCM(hmac.digest(key, b"wrap", "sha256"))
        self.digest_key = hmac.digest(key, b"mark", "sha256")


class Encryption:
    """Encrypts values with the current key, and decrypts values of all its keys."""

    def __init__(self, *keys: bytes) -> None:
        self._keys: dict[str, SealingKey] = {}
        self.learn(keys)
        if not self._keys:
            raise ValueError("at least one key is needed")
        self._sealing = next(iter(self._keys.values()))
        self.digest_key = self._sealing.digest_key
        """The key of digests. It does not change, because digests cannot be recomputed with another key."""

    @property
    def fingerprint(self) -> str:
        """The id of the current key, which encrypts new values."""
        return self._sealing.id

    @property
    def known(self) -> frozenset[str]:
        """The ids of all keys."""
        return frozenset(self._keys)

    def learn(self, keys: Iterable[bytes]) -> None:
        """Adds keys. Keeps the current keys, because values that they encrypted may be in transit."""
        for key in keys:
            if (id := id_of(key)) not in self._keys:
                self._keys[id] = SealingKey(key)

    def encrypt_with(self, id: str) -> None:
        """Selects the current key, which encrypts new values."""
        self._sealing = self._key(id)

    def is_present(self, encrypted: bytes) -> bool:
        """Returns whether a value was encrypted with the current key."""
        return encrypted.startswith(self._sealing.head)

    def encrypt(self, value: bytes, *owner: str) -> bytes:
        data_key, about = os.urandom(KEY_BYTES), _associated_data(owner)
        nonce = os.urandom(_NONCE)
        wrapped = self._sealing.wrap.encrypt(nonce, data_key, about)
        # The data key is used once, so its nonce may be fixed.
        return self._sealing.head + nonce + wrapped + AESGCM(data_key).encrypt(bytes(_NONCE), value, about)

    def decrypt(self, encrypted: bytes, *owner: str) -> bytes:
        about = _associated_data(owner)
        if encrypted.startswith(_WITHOUT_ID):
            return self._decrypt_without_id(encrypted[len(_WITHOUT_ID) :], about)
        if not encrypted.startswith(FORMAT):
            raise CannotDecrypt("unknown format")
        return _decrypt(self._key(key_of(encrypted)), encrypted[HEAD_BYTES:], about)

    def _decrypt_without_id(self, body: bytes, about: bytes) -> bytes:
        """Decrypts a value of the first commits of 0.1.0 with the key that fits."""
        for key in self._keys.values():
            with suppress(CannotDecrypt):
                return _decrypt(key, body, about)
        raise CannotDecrypt("no key that is here has encrypted the value")

    def _key(self, id: str) -> SealingKey:
        if id not in self._keys:
            raise MissingKey(id)
        return self._keys[id]

    def digest_key_of(self, id: str) -> bytes:
        """Returns the digest key that is derived from a given key."""
        return self._key(id).digest_key

    def mark(self, *parts: bytes) -> str:
        """Returns a keyed digest. It allows values to be compared without storing a guessable hash."""
        return _digest(self.digest_key, parts)

    def signature(self, id: str, *parts: bytes) -> str:
        """Returns a digest that is keyed by a given key."""
        return _digest(self._key(id).digest_key, parts)


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def id_of(key: bytes) -> str:
    """Returns the id of a key, which reveals nothing about the key."""
    return hashlib.sha256(b"fingerprint" + key).hexdigest()[: 2 * _ID]


def key_of(encrypted: bytes) -> str:
    """Returns the id of the key that encrypted a value; empty for another format."""
    return encrypted[len(FORMAT) : HEAD_BYTES].hex() if encrypted[:1] == FORMAT else ""


def head_of(id: str) -> bytes:
    """Returns the first bytes of all values that a key encrypts."""
    return FORMAT + bytes.fromhex(id)


def with_id(encrypted: bytes, id: str) -> bytes:
    """Adds the key's id to a value of a version before 0.1.0. Returns other values unchanged."""
    return head_of(id) + encrypted[1:] if encrypted.startswith(_WITHOUT_ID) else encrypted


def _decrypt(sealing: SealingKey, body: bytes, associated_data: bytes) -> bytes:
    nonce, rest = body[:_NONCE], body[_NONCE:]
    try:
        data_key = sealing.wrap.decrypt(nonce, rest[:_WRAPPED], associated_data)
        return AESGCM(data_key).decrypt(bytes(_NONCE), rest[_WRAPPED:], associated_data)
    except (InvalidTag, ValueError) as error:
        raise CannotDecrypt("the value cannot be decrypted here") from error


def _digest(key: bytes, parts: Iterable[bytes]) -> str:
    return hmac.digest(key, b"\0".join(parts), "sha256").hex()


def _associated_data(owner: tuple[str, ...]) -> bytes:
    """Encodes an owner without ambiguity: two owners never give the same bytes, whatever their names."""
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in owner).encode()
