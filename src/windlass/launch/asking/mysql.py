"""Logs in to MariaDB or MySQL and pings; see the connection phase in their manuals."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping

from windlass.launch.asking.line import Line, NotReady, said

# LONG_PASSWORD, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH
_ABLE = 0x00000001 | 0x00000200 | 0x00008000 | 0x00080000
_OK, _MORE, _SWITCH, _ERROR = 0x00, 0x01, 0xFE, 0xFF
_FAST, _FULL = b"\x03", b"\x04"
_PING = b"\x0e"


def ask(line: Line, variables: Mapping[str, str]) -> None:
    user = said(variables, "MYSQL_USER", otherwise="root")
    own = ("MYSQL_ROOT_PASSWORD", "MYSQL_PASSWORD")
    password = said(variables, *(own if user == "root" else own[::-1])).encode()
    number, greeting = _packet(line)
    if greeting[:1] == bytes([_ERROR]):
        raise NotReady(_message(greeting))
    plugin, salt = _greeted(greeting)
    answer = _proof(plugin)(password, salt)
    body = struct.pack("<IIB23x", _ABLE, 1 << 24, 45) + user.encode() + b"\0"
    _send(line, number + 1, body + bytes([len(answer)]) + answer + plugin + b"\0")
    if _let_in(line, password):
        _send(line, 0, _PING)
        _check(_packet(line)[1])


def _let_in(line: Line, password: bytes) -> bool:
    """Whether we are in. If not, the login may only go on encrypted: the server has answered, at least."""
    while True:
        number, packet = _packet(line)
        if packet[0] == _SWITCH:
            plugin, _, salt = packet[1:].partition(b"\0")
            _send(line, number + 1, _proof(plugin)(password, salt[:20]))
        elif packet[0] == _MORE and packet[1:] == _FULL:
            return False
        elif packet[0] != _MORE or packet[1:] != _FAST:
            _check(packet)
            return True


def _greeted(packet: bytes) -> tuple[bytes, bytes]:
    """The kind of login, and the salt, of the first packet (version 10)."""
    rest = packet[1:].partition(b"\0")[2][4:]
    if packet[:1] != b"\x0a" or len(rest) < 40:
        raise NotReady("what answers there is another kind of server")
    length = max(13, rest[16] - 8)
    salt = rest[:8] + rest[27 : 27 + length]
    return rest[27 + length :].partition(b"\0")[0], salt[:20]


def _proof(plugin: bytes) -> Callable[[bytes, bytes], bytes]:
    if plugin == b"caching_sha2_password":
        return _sha2
    if plugin == b"mysql_native_password":
        return _native
    raise NotReady(
        f"the server wants a kind of login that is not known here: {plugin.decode('ascii', 'replace')}"
    )


def _native(password: bytes, salt: bytes) -> bytes:
    once = hashlib.sha1(password, usedforsecurity=False).digest()
    twice = hashlib.sha1(once, usedforsecurity=False).digest()
    return _mixed(once, hashlib.sha1(salt + twice, usedforsecurity=False).digest()) if password else b""


def _sha2(password: bytes, salt: bytes) -> bytes:
    once = hashlib.sha256(password).digest()
    twice = hashlib.sha256(once).digest()
    return _mixed(once, hashlib.sha256(twice + salt).digest()) if password else b""


def _mixed(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def _check(packet: bytes) -> None:
    if packet[0] != _OK:
        raise NotReady(_message(packet))


def _message(packet: bytes) -> str:
    # A code, and a state of six characters where the line has got so far.
    body = packet[9:] if packet[3:4] == b"#" else packet[3:]
    return body.decode("utf-8", "replace") if packet[0] == _ERROR else "the server answered something else"


def _packet(line: Line) -> tuple[int, bytes]:
    head = line.take(4)
    size = int.from_bytes(head[:3], "little")
    if not 0 < size <= 1 << 16:
        raise NotReady("what answers there is another kind of server")
    return head[3], line.take(size)


def _send(line: Line, number: int, body: bytes) -> None:
    line.send(len(body).to_bytes(3, "little") + bytes([number % 256]) + body)
