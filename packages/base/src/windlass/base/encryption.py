"""Secrets at rest: AES-256-GCM, one data key per value, wrapped by a key of the installation.

The associated data names the owner of the value, so a value that was moved to another owner does not decrypt.
Each value names the key that sealed it, so that the key can be replaced while both are in use. Until a key is
replaced for the first time, values name none: so versions that cannot replace keys read them, too.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_NONCE, _WRAPPED, _ID = 12, KEY_BYTES + 16, 8
WITHOUT_ID, WITH_ID = b"\x01", b"\x02"
"""Formats. Values of the first one are sealed with the first key."""
HEAD_BYTES: Final = len(WITH_ID) + _ID
"""Bytes at the start of a value that tell its format and its key."""


class CannotDecrypt(Exception):
    """The value was changed, moved, or encrypted with another key."""


class MissingKey(CannotDecrypt):
    """The key is not among those of this process."""

    def __init__(self, id: str) -> None:
        super().__init__(f"the key {id} is not here: add it to the file `key`, or to WINDLASS_KEY")


class SealingKey:
    """A key of the installation, as the keys that are derived from it."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must have {KEY_BYTES} bytes, this one has {len(key)}")
        self.id = hashlib.sha256(b"fingerprint" + key).hexdigest()[: 2 * _ID]
        self.head = WITH_ID + bytes.fromhex(self.id)
        self.wrap = AESGCM(hmac.digest(key, b"wrap", "sha256"))
        self.digest_key = hmac.digest(key, b"mark", "sha256")


class Encryption:
    """Encrypts values with one of its keys, and decrypts those of all of them."""

    def __init__(self, *keys: bytes) -> None:
        self._keys: dict[str, SealingKey] = {}
        self.learn(keys)
        if not self._keys:
            raise ValueError("at least one key is needed")
        self._sealing = next(iter(self._keys.values()))
        self._head = self._sealing.head
        self.digest_key = self._sealing.digest_key
        """The key of digests. It stays the same, because digests cannot be made again under another key."""

    @property
    def fingerprint(self) -> str:
        """The id of the key that encrypts."""
        return self._sealing.id

    @property
    def known(self) -> frozenset[str]:
        """The ids of all keys."""
        return frozenset(self._keys)

    def learn(self, keys: Iterable[bytes]) -> None:
        """Adds keys. Those that are known stay, because values may be under way that they encrypted."""
        for sealing in map(SealingKey, keys):
            self._keys.setdefault(sealing.id, sealing)

    def encrypt_with(self, id: str, *, is_first: bool = False) -> None:
        """Chooses the key that encrypts. `is_first`: it is the first one, and values do not name it."""
        self._sealing = self._key(id)
        self._head = WITHOUT_ID if is_first else self._sealing.head

    def is_present(self, encrypted: bytes) -> bool:
        """True if a value has the key, and the format, that values get now."""
        return encrypted.startswith(self._head)

    def encrypt(self, value: bytes, *owner: str) -> bytes:
        data_key, about = os.urandom(KEY_BYTES), _about(owner)
        nonce = os.urandom(_NONCE)
        wrapped = self._sealing.wrap.encrypt(nonce, data_key, about)
        # The data key is used once, so its nonce may be fixed.
        return self._head + nonce + wrapped + AESGCM(data_key).encrypt(bytes(_NONCE), value, about)

    def decrypt(self, encrypted: bytes, *owner: str) -> bytes:
        if encrypted.startswith(WITH_ID):
            sealing = self._key(key_of(encrypted))
            return _decrypt(sealing, encrypted[HEAD_BYTES:], _about(owner))
        if encrypted.startswith(WITHOUT_ID):
            return self._decrypt_without_id(encrypted[len(WITHOUT_ID) :], _about(owner))
        raise CannotDecrypt("unknown format")

    def _decrypt_without_id(self, body: bytes, about: bytes) -> bytes:
        for sealing in self._keys.values():
            try:
                return _decrypt(sealing, body, about)
            except CannotDecrypt:
                continue
        raise CannotDecrypt("the value cannot be decrypted here")

    def _key(self, id: str) -> SealingKey:
        if id not in self._keys:
            raise MissingKey(id)
        return self._keys[id]

    def digest_key_of(self, id: str) -> bytes:
        """Returns the key of digests that is derived from one of the keys."""
        return self._key(id).digest_key

    def mark(self, *parts: bytes) -> str:
        """Returns a keyed digest, to compare values without storing anything that can be guessed."""
        return _digest(self.digest_key, parts)

    def signature(self, id: str, *parts: bytes) -> str:
        """Returns a digest keyed by one of the keys."""
        return _digest(self._key(id).digest_key, parts)


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def id_of(key: bytes) -> str:
    """Returns the id of a key, which tells nothing about it."""
    return SealingKey(key).id


def key_of(encrypted: bytes) -> str:
    """Returns the id of the key that sealed a value; empty for values that name none."""
    return encrypted[len(WITH_ID) : HEAD_BYTES].hex() if encrypted[:1] == WITH_ID else ""


def _decrypt(sealing: SealingKey, body: bytes, about: bytes) -> bytes:
    nonce, rest = body[:_NONCE], body[_NONCE:]
    try:
        data_key = sealing.wrap.decrypt(nonce, rest[:_WRAPPED], about)
        return AESGCM(data_key).decrypt(bytes(_NONCE), rest[_WRAPPED:], about)
    except (InvalidTag, ValueError) as error:
        raise CannotDecrypt("the value cannot be decrypted here") from error


def _digest(key: bytes, parts: Iterable[bytes]) -> str:
    return hmac.digest(key, b"\0".join(parts), "sha256").hex()


def _about(owner: tuple[str, ...]) -> bytes:
    """Returns a text that no two owners share, whatever characters their names contain."""
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in owner).encode()
