"""SCRAM-SHA-256 of RFC 5802 and 7677, the client's part: a password is proved, and never sent."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os

from windlass.launch.asking.line import NotReady

_MOST = 1_000_000


class Scram:
    def __init__(self, user: str, password: str) -> None:
        self._password = password.encode()
        self._nonce = base64.b64encode(os.urandom(18)).decode()
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof, for what the server answered to the first message."""
        known = _fields(challenge)
        nonce, salt, rounds = known.get("r", ""), _decoded(known.get("s", "")), known.get("i", "")
        if not nonce.startswith(self._nonce) or not rounds.isdecimal() or not 0 < int(rounds) <= _MOST:
            raise NotReady("the server's part of the login makes no sense")
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, int(rounds))
        client = _keyed(salted, b"Client Key")
        without = f"c=biws,r={nonce}"
        signed = ",".join((self._bare, challenge.decode(), without)).encode()
        mask = _keyed(hashlib.sha256(client).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client, mask, strict=True))
        self._signature = _keyed(_keyed(salted, b"Server Key"), signed)
        return f"{without},p={base64.b64encode(proof).decode()}".encode()

    def check(self, verdict: bytes) -> None:
        """Only who knows the password could have said so."""
        if not hmac.compare_digest(_decoded(_fields(verdict).get("v", "")), self._signature):
            raise NotReady("the server does not know the password: it is another one")


def _fields(message: bytes) -> dict[str, str]:
    parts = message.decode("utf-8", "replace").split(",")
    return {name: value for name, equals, value in (part.partition("=") for part in parts) if equals}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotReady("the server's part of the login makes no sense") from error


def _keyed(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
