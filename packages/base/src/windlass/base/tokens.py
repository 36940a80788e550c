"""The format of an API token: `wdl_`, 43 random characters and a check of 6.

Scanners find leaked tokens by the prefix, the check lets a mistyped token be refused without a look-up, and
the underscore keeps existing clients from taking it for a JWT. 43 characters of 62 are 256 bits.
"""

from __future__ import annotations

import hashlib
import secrets
import string
import zlib

PREFIX = "wdl_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM, _CHECK = 43, 6
LENGTH = len(PREFIX) + _RANDOM + _CHECK


def new_token() -> str:
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return PREFIX + body + _check(body)


def well_formed(token: str) -> bool:
    return (
        len(token) == LENGTH
        and token.startswith(PREFIX)
        and token.isascii()
        and _check(token[len(PREFIX) : -_CHECK]) == token[-_CHECK:]
    )


def digest(token: str) -> str:
    """Returns the stored form of a token. Tokens are random, so a plain hash cannot be reversed by
    guessing."""
    return hashlib.sha256(token.encode()).hexdigest()


def _check(body: str) -> str:
    number, text = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK):
        number, rest = divmod(number, len(_ALPHABET))
        text += _ALPHABET[rest]
    return text
