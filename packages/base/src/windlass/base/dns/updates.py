"""Writes dynamic updates of zones (RFC 2136), signed with a shared key (TSIG, RFC 8945). Pure."""

from __future__ import annotations

import base64
import hmac
import struct
from typing import Final

from msgspec import Struct

from windlass.base.dns.messages import BadMessage, RecordType, ResponseCode, encode_name, read_name

_HEADER: Final = struct.Struct("!HHHHHH")
_RECORD: Final = struct.Struct("!HHIH")
_UPDATE: Final = 0x2800
_IS_ANSWER: Final = 0x8000
_INTERNET, _NONE, _ANY = 1, 254, 255
_TSIG: Final = 250
_ALGORITHM: Final = "hmac-sha256"
_FUDGE_SECONDS: Final = 300
"""The seconds by which the clocks of both sides may differ."""
_MAX_STRING_BYTES: Final = 255
_SIGNATURE_ERRORS: Final = {
    16: "it refuses the signature: check the secret of the key (dns_credentials)",
    17: "it does not know the key: check the name of the key (dns_credentials)",
    18: "its clock and that of this machine differ by more than five minutes",
}
_REFUSALS: Final = {
    ResponseCode.REFUSED: "its policy does not permit this key to do so",
    ResponseCode.NOT_IMPLEMENTED: "it takes no updates",
    9: "it is not the primary server of this zone, or does not take this key",
}


class TsigKey(Struct, frozen=True):
    name: str
    secret: bytes

    def __repr__(self) -> str:
        return f"TsigKey({self.name!r}, …)"


def parse_key(text: str) -> TsigKey:
    """Reads `NAME:SECRET` with the secret in Base64. Raises ValueError."""
    name, _, secret = text.partition(":")
    encode_name(name)
    return TsigKey(name.rstrip(".").lower(), base64.b64decode(secret, validate=True))


def write_update(id: int, zone: str, name: str, text: str, ttl: int | None) -> bytes:
    """Returns an update that adds a TXT record with this `ttl`; or removes it, without one."""
    data = text.encode()
    pieces = [
        data[start : start + _MAX_STRING_BYTES] for start in range(0, len(data), _MAX_STRING_BYTES)
    ] or [b""]
    content = b"".join(bytes([len(piece)]) + piece for piece in pieces)
    group = _NONE if ttl is None else _INTERNET
    return (
        _HEADER.pack(id, _UPDATE, 1, 0, 1, 0)
        + encode_name(zone)
        + struct.pack("!HH", RecordType.SOA, _INTERNET)
        + encode_name(name)
        + _RECORD.pack(RecordType.TXT, group, ttl or 0, len(content))
        + content
    )


def write_empty_update(id: int, zone: str) -> bytes:
    """Returns an update that changes nothing: a server checks its signature all the same."""
    header = _HEADER.pack(id, _UPDATE, 1, 0, 0, 0)
    return header + encode_name(zone) + struct.pack("!HH", RecordType.SOA, _INTERNET)


def sign_message(message: bytes, key: TsigKey, now: int, request: bytes = b"") -> tuple[bytes, bytes]:
    """Returns a message with its signature, and the signature alone.

    `request` is the signature of the message that it answers.
    """
    before = struct.pack("!H", len(request)) + request if request else b""
    mac = hmac.digest(
        key.secret, before + message + _tsig_variables(key, now, _FUDGE_SECONDS, 0, b""), "sha256"
    )
    (id,) = struct.unpack_from("!H", message)
    data = (
        encode_name(_ALGORITHM)
        + now.to_bytes(6, "big")
        + struct.pack("!HH", _FUDGE_SECONDS, len(mac))
        + mac
        + struct.pack("!HHH", id, 0, 0)
    )
    record = encode_name(key.name) + _RECORD.pack(_TSIG, _ANY, 0, len(data)) + data
    (count,) = struct.unpack_from("!H", message, 10)
    return message[:10] + struct.pack("!H", count + 1) + message[12:] + record, mac


def _tsig_variables(key: TsigKey, now: int, fudge: int, error: int, other: bytes) -> bytes:
    return (
        encode_name(key.name)
        + struct.pack("!HI", _ANY, 0)
        + encode_name(_ALGORITHM)
        + now.to_bytes(6, "big")
        + struct.pack("!HHH", fudge, error, len(other))
        + other
    )


def check_answer(answer: bytes, id: int, key: TsigKey, request: bytes) -> str:
    """Returns why a server refuses an update; empty if it was made. Raises BadMessage unless the answer is
    signed with the key, or is a refusal."""
    try:
        return _check_answer(answer, id, key, request)
    except (struct.error, IndexError) as error:
        raise BadMessage("the answer breaks off, or is no DNS message") from error


def _check_answer(answer: bytes, id: int, key: TsigKey, request: bytes) -> str:
    given, flags, *counts = _HEADER.unpack_from(answer)
    if given != id or not flags & _IS_ANSWER:
        raise BadMessage("the answer belongs to another question")
    code = flags & 0xF
    start = _last_record(answer, counts)
    if start < 0:
        if code == ResponseCode.OK:
            raise BadMessage("the answer has no signature")
        return _REFUSALS.get(code, f"code {code}")
    name, position = read_name(answer, start)
    kind, _, _, length = _RECORD.unpack_from(answer, position)
    algorithm, position = read_name(answer, position + _RECORD.size)
    now = int.from_bytes(answer[position : position + 6], "big")
    fudge, size = struct.unpack_from("!HH", answer, position + 6)
    mac = answer[position + 10 : position + 10 + size]
    original, error, more = struct.unpack_from("!HHH", answer, position + 10 + size)
    other = answer[position + 16 + size : position + 16 + size + more]
    if error:
        return _SIGNATURE_ERRORS.get(error, f"error {error} of its signature")
    signed = struct.pack("!H", original) + answer[2:10] + struct.pack("!H", counts[-1] - 1) + answer[12:start]
    before = struct.pack("!H", len(request)) + request
    wanted = hmac.digest(
        key.secret, before + signed + _tsig_variables(key, now, fudge, error, other), "sha256"
    )
    is_own = kind == _TSIG and length and (name, algorithm) == (key.name, _ALGORITHM)
    if not is_own or not hmac.compare_digest(mac, wanted):
        raise BadMessage("the answer has another signature")
    return "" if code == ResponseCode.OK else _REFUSALS.get(code, f"code {code}")


def _last_record(answer: bytes, counts: list[int]) -> int:
    """Returns where the last additional record begins, which is the signature; -1 if there is none."""
    questions, *records = counts
    position = _HEADER.size
    for _ in range(questions):
        position = read_name(answer, position)[1] + 4
    start = -1
    for _ in range(sum(records)):
        start = position
        position = read_name(answer, position)[1]
        *_, length = _RECORD.unpack_from(answer, position)
        position += _RECORD.size + length
    if position > len(answer):
        raise BadMessage("the answer breaks off")
    return start if records[-1] else -1
