"""Signatures of what is sent to receivers, as https://www.standardwebhooks.com says."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """What follows `whsec_` is Base64; any other text is a key as it stands."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            pass  # It only looks like one.
    return secret.encode()


def signature(keys: Iterable[bytes], id: str, seconds: int, body: bytes) -> str:
    """One for each key: whoever knows any of them can tell who sent it."""
    said = b"%b.%d.%b" % (id.encode(), seconds, body)
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, said, 'sha256')).decode()}" for key in keys)
