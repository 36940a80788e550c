"""Reads sealed values like versions of Windlass that could not replace keys yet."""

from __future__ import annotations

import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from windlass.base.encryption import CannotDecrypt

KEY = bytes(range(32))
OWNER = ("org", "resource")
TEXT = b"written before"
VALUE = bytes.fromhex(
    "01b0d78799fa3399c2658ff5570f1fae3ea8ddc488541669418364bfe57d511372a0380348df9a8048b9fe982efecd6115c2972c"
    "73dcef36cbdc2f667ad252e07ed6117f5c01a610f1ab088eb80114193cad0fe53ccd7be9d4c4b3"
)
"""TEXT, sealed with KEY for OWNER by such a version."""


class EarlierEncryption:
    def __init__(self, key: bytes) -> None:
        self._wrap = AESGCM(hmac.digest(key, b"wrap", "sha256"))

    def decrypt(self, value: bytes, *owner: str) -> bytes:
        nonce, rest, about = value[1:13], value[13:], "|".join(owner).encode()
        try:
            if value[:1] != b"\x01":
                raise CannotDecrypt("unknown format")
            return AESGCM(self._wrap.decrypt(nonce, rest[:48], about)).decrypt(bytes(12), rest[48:], about)
        except (InvalidTag, ValueError) as error:
            raise CannotDecrypt("a sealed value does not open here") from error
