"""Generates and checks API tokens: the prefix `wdl_`, 43 random characters and a checksum of 6 characters.

Scanners find leaked tokens by the prefix. Thanks to the checksum, a mistyped token is refused without a
look-up. The underscore keeps clients from mistaking a token for a JWT. 43 random characters have 256 bits.
"""

from __future__ import annotations

import hashlib
import secrets
import string
import zlib

WDL_PREFIX = "wdl_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM, _CHECK = 43, 6
TOKEN_LENGTH = len(WDL_PREFIX) + _RANDOM + _CHECK


def new_token() -> str:
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return WDL_PREFIX + body + _checksum(body)


def well_formed(token: str) -> bool:
    return (
        len(token) == TOKEN_LENGTH
        and token.startswith(WDL_PREFIX)
        and token.isascii()
        and _checksum(token[len(WDL_PREFIX) : -_CHECK]) == token[-_CHECK:]
    )


def digest(token: str) -> str:
    """Returns the hash of a token, which is stored instead of it. A plain hash is enough, because tokens are
    random and cannot be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def _checksum(body: str) -> str:
    number, text = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK):
        number, rest = divmod(number, len(_ALPHABET))
        text += _ALPHABET[rest]
    return text
