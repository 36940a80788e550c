"""Logs in to PostgreSQL and selects one; see the chapter on its frontend/backend protocol, version 3."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping

from windlass.launch.asking.line import Line, NotReady, said, size_of
from windlass.launch.asking.scram import Scram

_MOST = 1 << 20
_OK, _CLEAR, _MD5, _SASL = 0, 3, 5, 10


def ask(line: Line, variables: Mapping[str, str]) -> None:
    user = said(variables, "POSTGRES_USER", otherwise="postgres")
    database = said(variables, "POSTGRES_DB", otherwise=user)
    words = ("user", user, "database", database, "application_name", "windlass ready", "")
    line.send(_sized(struct.pack("!I", 3 << 16) + _words(*words)))
    _log_in(line, user, variables.get("POSTGRES_PASSWORD", ""))
    _until(line, b"Z")
    line.send(b"Q" + _sized(_words("SELECT 1")))
    if b"\0\1" not in _until(line, b"D"):
        raise NotReady("the server answered a question with nothing")
    _until(line, b"Z")
    line.send(b"X" + _sized(b""))


def _log_in(line: Line, user: str, password: str) -> None:
    way, challenge = _asked(line)
    if way == _SASL:
        scram = Scram("", password)  # the user was named before
        first = scram.first()
        line.send(b"p" + _sized(_words("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
        line.send(b"p" + _sized(scram.final(_asked(line)[1])))
        scram.check(_asked(line)[1])
        way, _ = _asked(line)
    elif way == _MD5:
        inner = hashlib.md5(f"{password}{user}".encode(), usedforsecurity=False).hexdigest()
        outer = hashlib.md5(inner.encode() + challenge, usedforsecurity=False).hexdigest()
        line.send(b"p" + _sized(_words(f"md5{outer}")))
        way, _ = _asked(line)
    elif way == _CLEAR:
        line.send(b"p" + _sized(_words(password)))
        way, _ = _asked(line)
    if way != _OK:
        raise NotReady("the server wants a kind of login that is not known here")


def _asked(line: Line) -> tuple[int, bytes]:
    body = _until(line, b"R")
    return int.from_bytes(body[:4], "big"), body[4:]


def _until(line: Line, wanted: bytes) -> bytes:
    """The next message of this kind. Notices and settings come in between; an error ends it."""
    while True:
        kind = line.take(1)
        body = line.take(size_of(line.take(4), _MOST) - 4)
        if kind == b"E":
            raise NotReady(_message(body))
        if kind == wanted:
            return body


def _message(body: bytes) -> str:
    fields = {part[:1]: part[1:] for part in body.split(b"\0") if part}
    return fields.get(b"M", b"the server refused").decode("utf-8", "replace")


def _words(*words: str) -> bytes:
    return b"".join(word.encode() + b"\0" for word in words)


def _sized(body: bytes) -> bytes:
    return struct.pack("!I", len(body) + 4) + body
