"""Checks that a delivery comes from the git server that knows the webhook's secret.

GitHub, Gitea, Forgejo and Bitbucket send an HMAC-SHA256 of the body, GitLab sends the secret itself. All are
compared in constant time, and the body is hashed as it arrives.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

_PREFIX: Final = b"sha256="
_WITH_PREFIX: Final = (b"x-hub-signature-256", b"x-hub-signature")
_DIGITS_ALONE: Final = (b"x-gitea-signature", b"x-forgejo-signature")
_SECRET: Final = b"x-gitlab-token"


class SignatureVerdict(Enum):
    RIGHT = auto()
    WRONG = auto()
    MISSING = auto()


class SignatureCheck:
    def __init__(self, headers: Mapping[bytes, bytes], secret: bytes) -> None:
        self._hash = hmac.new(secret, digestmod=hashlib.sha256)
        self._sent = [
            value.removeprefix(_PREFIX)
            for name in _WITH_PREFIX
            if (value := headers.get(name, b"")).startswith(_PREFIX)
        ]
        self._sent += [headers[name] for name in _DIGITS_ALONE if headers.get(name)]
        token = headers.get(_SECRET)
        self._has_secret = token is not None and hmac.compare_digest(token, secret)
        self._is_missing = token is None and not self._sent

    @property
    def is_decided(self) -> bool:
        """Whether the body does not matter, because there is no signature of it. Such a body is not read."""
        return not self._sent and not self._has_secret

    def feed(self, data: bytes) -> None:
        if self._sent:
            self._hash.update(data)

    def verdict(self) -> SignatureVerdict:
        """Returns the verdict, after the whole body was fed."""
        if self._is_missing:
            return SignatureVerdict.MISSING
        digest = self._hash.hexdigest().encode()
        signed = [hmac.compare_digest(sent.lower(), digest) for sent in self._sent]
        return SignatureVerdict.RIGHT if self._has_secret or any(signed) else SignatureVerdict.WRONG
