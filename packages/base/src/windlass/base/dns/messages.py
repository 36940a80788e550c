"""Writes questions to name servers and reads their answers (RFC 1035). Pure: opens no connection.

Answers come from the network, so every length is checked, and a compressed name may only point backwards.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from msgspec import Struct

MAX_NAME_LENGTH: Final = 253
_MAX_LABEL_LENGTH: Final = 63
_MAX_RECORDS: Final = 200
"""More records of one answer are not read."""
_HEADER: Final = struct.Struct("!HHHHHH")
_RECORD: Final = struct.Struct("!HHIH")
_INTERNET: Final = 1
_RECURSION_DESIRED, _CHECKING_DISABLED = 0x0100, 0x0010
_IS_ANSWER, _IS_AUTHORITATIVE, _IS_CUT = 0x8000, 0x0400, 0x0200
_POINTER: Final = 0xC0
_SIZE_OPTION: Final = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
"""EDNS (RFC 6891): answers of up to 1232 bytes fit into one datagram on every path."""


class RecordType(IntEnum):
    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    TXT = 16
    AAAA = 28
    CAA = 257


class ResponseCode(IntEnum):
    OK = 0
    FORMAT_ERROR = 1
    SERVER_FAILURE = 2
    NO_SUCH_NAME = 3
    NOT_IMPLEMENTED = 4
    REFUSED = 5


class BadMessage(ValueError):
    """The message is no readable answer to the question."""


class DnsRecord(Struct, frozen=True):
    name: str
    """The owner of the record, in lower case without a final dot."""
    type: int
    value: str
    """An address, a name, a text, or a CAA record as `flags tag value`. Of an SOA record, the primary name
    server."""


class DnsAnswer(Struct, frozen=True):
    code: int
    records: tuple[DnsRecord, ...]
    is_cut: bool
    """Whether records are missing, so that the question has to be repeated over TCP."""
    is_authoritative: bool = False
    """Whether the server answers for a zone of its own."""


def write_question(
    id: int, name: str, type: RecordType, *, unchecked: bool = False, recursive: bool = True
) -> bytes:
    """Returns a question. `unchecked` asks the server not to validate signatures (DNSSEC), which shows
    whether they are the reason for its failure; `recursive`, to ask others."""
    flags = (_RECURSION_DESIRED if recursive else 0) | (_CHECKING_DISABLED if unchecked else 0)
    return (
        _HEADER.pack(id, flags, 1, 0, 0, 1)
        + encode_name(name)
        + struct.pack("!HH", type, _INTERNET)
        + _SIZE_OPTION
    )


def read_answer(message: bytes, id: int, name: str, type: RecordType) -> DnsAnswer:
    """Reads the answer to a question. Raises BadMessage unless it repeats the question."""
    try:
        return _read_answer(message, id, name, type)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage("the answer breaks off, or is no DNS message") from error


def _read_answer(message: bytes, id: int, name: str, type: RecordType) -> DnsAnswer:
    given, flags, questions, answers, _, _ = _HEADER.unpack_from(message)
    if given != id or not flags & _IS_ANSWER or questions != 1:
        raise BadMessage("the answer belongs to another question")
    asked, position = read_name(message, _HEADER.size)
    kind, _ = struct.unpack_from("!HH", message, position)
    if asked != name.lower() or kind != type:
        raise BadMessage("the answer belongs to another question")
    position += 4
    records: list[DnsRecord] = []
    is_cut = bool(flags & _IS_CUT)
    for _ in range(min(answers, _MAX_RECORDS)):
        if is_cut and position >= len(message):
            break
        owner, position = read_name(message, position)
        kind, group, _, length = _RECORD.unpack_from(message, position)
        position += _RECORD.size
        if position + length > len(message):
            raise BadMessage("the answer breaks off")
        if group == _INTERNET and (value := _read_value(message, kind, position, length)) is not None:
            records.append(DnsRecord(owner, kind, value))
        position += length
    return DnsAnswer(flags & 0xF, tuple(records), is_cut, bool(flags & _IS_AUTHORITATIVE))


def _read_value(message: bytes, kind: int, start: int, length: int) -> str | None:
    """Returns the value of a record as text; None for a type that is not read."""
    data = message[start : start + length]
    match kind:
        case RecordType.A:
            return str(IPv4Address(data)) if length == 4 else None
        case RecordType.AAAA:
            return str(IPv6Address(data)) if length == 16 else None
        case RecordType.CNAME | RecordType.NS | RecordType.SOA:
            return read_name(message, start)[0]
        case RecordType.TXT:
            return _read_texts(data)
        case RecordType.CAA:
            size = data[1]
            tag, value = (
                data[2 : 2 + size].decode("ascii").lower(),
                data[2 + size :].decode("utf-8", "replace"),
            )
            return f"{data[0]} {tag} {value}"
    return None


def _read_texts(data: bytes) -> str:
    """Joins the strings of a TXT record."""
    parts: list[bytes] = []
    position = 0
    while position < len(data):
        end = position + 1 + data[position]
        if end > len(data):
            raise BadMessage("a text of the answer breaks off")
        parts.append(data[position + 1 : end])
        position = end
    return b"".join(parts).decode("utf-8", "replace")


def encode_name(name: str) -> bytes:
    """Returns a name as it is sent. Raises ValueError."""
    labels = name.rstrip(".").split(".")
    if len(name) > MAX_NAME_LENGTH or not all(0 < len(label) <= _MAX_LABEL_LENGTH for label in labels):
        raise ValueError(f"{name} is no name that can be asked for")
    return b"".join(bytes([len(label)]) + label.encode("ascii") for label in labels) + b"\0"


def read_name(message: bytes, position: int) -> tuple[str, int]:
    """Returns a name in lower case, and the position after it."""
    labels: list[str] = []
    length, after, limit = 0, -1, position
    while size := message[position]:
        if size & _POINTER == _POINTER:
            target = (size & ~_POINTER) << 8 | message[position + 1]
            after = position + 2 if after < 0 else after
            if target >= limit:  # each pointer leads further back, so that reading ends
                raise BadMessage("a name of the answer points forwards")
            position = limit = target
            continue
        if size > _MAX_LABEL_LENGTH:
            raise BadMessage("a name of the answer has an unknown form")
        label = message[position + 1 : position + 1 + size]
        length += size + 1
        if len(label) < size or length > MAX_NAME_LENGTH + 1:
            raise BadMessage("a name of the answer breaks off, or is too long")
        labels.append(label.decode("ascii", "backslashreplace").lower())
        position += size + 1
    return ".".join(labels), position + 1 if after < 0 else after
