"""Signs outgoing webhooks as specified by https://www.standardwebhooks.com."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable

WHSEC_PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> str:
    return WHSEC_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """Returns the key bytes of a secret: decoded Base64 after `whsec_`, otherwise the text itself."""
    if secret.startswith(WHSEC_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(WHSEC_PREFIX), validate=True)
        except binascii.Error:
            pass  # the text has the prefix, but is not Base64
    return secret.encode()


def signature(keys: Iterable[bytes], id: str, seconds: int, body: bytes) -> str:
    """Returns a signature for each key. A receiver needs only one of the keys to verify the request."""
    signed = b"%b.%d.%b" % (id.encode(), seconds, body)
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in keys)
