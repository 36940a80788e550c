"""A minimal PostgreSQL client: logs in, executes statements with parameters, and disconnects."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from urllib.parse import unquote, urlsplit

Row = tuple["str | None", ...]


class DatabaseError(Exception):
    """The server responded with an error."""


class DatabaseConnection:
    def __init__(self, url: str, seconds: float = 5) -> None:
        parts = urlsplit(url)
        self._user, self._password = unquote(parts.username or "postgres"), unquote(parts.password or "")
        self._socket = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 5432), seconds)
        self._input = self._socket.makefile("rb")
        database = unquote(parts.path.lstrip("/")) or self._user
        self._send(b"", struct.pack("!I", 3 << 16) + _texts("user", self._user, "database", database, ""))
        self._log_in()

    def __enter__(self) -> DatabaseConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._input.close()
        self._socket.close()

    def execute(self, statement: str, *values: str) -> list[Row]:
        """Executes a statement, in which $1 stands for the first value. Returns its rows."""
        parameters = b"".join(struct.pack("!i", len(value.encode())) + value.encode() for value in values)
        self._send(b"P", _texts("", statement) + b"\0\0")
        self._send(b"B", _texts("", "") + struct.pack("!HH", 0, len(values)) + parameters + b"\0\0")
        self._send(b"E", b"\0" + struct.pack("!I", 0))
        self._send(b"S", b"")
        return [_row(body) for kind, body in self._until(b"Z") if kind == b"D"]

    def _log_in(self) -> None:
        for kind, body in self._until(b"Z"):
            way = int.from_bytes(body[:4], "big")
            if kind == b"R" and way == 10:
                nonce = base64.b64encode(os.urandom(18)).decode()
                first = f"n,,n=,r={nonce}".encode()
                self._send(b"p", _texts("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first)
            elif kind == b"R" and way == 11:
                self._send(b"p", _proof(self._password, f"n=,r={nonce}", body[4:].decode()))
            elif kind == b"R" and way not in (0, 12):
                raise DatabaseError("the server wants a kind of login that is not known here")

    def _send(self, kind: bytes, body: bytes) -> None:
        self._socket.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def _until(self, terminator: bytes) -> Iterator[tuple[bytes, bytes]]:
        while True:
            head = self._input.read(5)
            if len(head) < 5:
                raise DatabaseError("the server hung up")
            kind, body = head[:1], self._input.read(int.from_bytes(head[1:], "big") - 4)
            if kind == b"E":
                fields = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
                raise DatabaseError(fields.get(b"M", "the server refused"))
            yield kind, body
            if kind == terminator:
                return


def _proof(password: str, bare: str, challenge: str) -> bytes:
    """Returns the client's final message of SCRAM-SHA-256, see RFC 7677."""
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    salt, rounds = base64.b64decode(parts["s"]), int(parts["i"])
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    key, without = hmac.digest(salted, b"Client Key", "sha256"), f"c=biws,r={parts['r']}"
    signed = f"{bare},{challenge},{without}".encode()
    mask = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = bytes(left ^ other for left, other in zip(key, mask, strict=True))
    return f"{without},p={base64.b64encode(proof).decode()}".encode()


def _texts(*words: str) -> bytes:
    return b"".join(word.encode() + b"\0" for word in words)


def _row(body: bytes) -> Row:
    values: list[str | None] = []
    place = 2
    for _ in range(int.from_bytes(body[:2], "big")):
        size = int.from_bytes(body[place : place + 4], "big", signed=True)
        place += 4
        values.append(None if size < 0 else body[place : place + size].decode())
        place += max(size, 0)
    return tuple(values)
