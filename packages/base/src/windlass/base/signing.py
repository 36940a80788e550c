"""Signatures of outgoing webhooks, as https://www.standardwebhooks.com specifies."""

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
    """Returns the key bytes of a secret: Base64 after `whsec_`, otherwise the text itself."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            pass  # It only looks like Base64 with a prefix.
    return secret.encode()


def signature(keys: Iterable[bytes], id: str, seconds: int, body: bytes) -> str:
    """Returns one signature for each key, so a receiver that knows any of them can verify the sender."""
    signed = b"%b.%d.%b" % (id.encode(), seconds, body)
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in keys)
