"""Decodes the parts of BuildKit's progress messages (protocol buffers) that a build log needs.

message StatusResponse { repeated Vertex vertexes = 1; …; repeated VertexLog logs = 3; … }
https://github.com/moby/buildkit/blob/master/api/services/control/control.proto
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

_MAX_NUMBER_BITS: Final = 64


class Vertex(Struct, frozen=True):
    """A build step."""

    digest: str
    name: str
    cached: bool
    started: bool
    completed: bool
    error: str


class Output(Struct, frozen=True):
    """Output of a build step's command."""

    digest: str
    text: bytes


def read(message: bytes) -> tuple[list[Vertex], list[Output]]:
    steps, outputs = [], []
    for number, value in _protobuf_fields(message):
        if isinstance(value, bytes):
            if number == 1:
                steps.append(_vertex(value))
            elif number == 3:
                outputs.append(_output(value))
    return steps, outputs


def _vertex(message: bytes) -> Vertex:
    fields = dict(_protobuf_fields(message))
    return Vertex(
        digest=_decoded_text(fields.get(1)),
        name=_decoded_text(fields.get(3)),
        cached=bool(fields.get(4)),
        started=5 in fields,
        completed=6 in fields,
        error=_decoded_text(fields.get(7)),
    )


def _output(message: bytes) -> Output:
    fields = dict(_protobuf_fields(message))
    text = fields.get(4, b"")
    return Output(_decoded_text(fields.get(1)), text if isinstance(text, bytes) else b"")


def _decoded_text(value: int | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _protobuf_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the number and value of each protocol buffer field; see
    https://protobuf.dev/programming-guides/encoding/"""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        match key & 7:
            case 0:
                number, at = _read_varint(message, at)
                yield key >> 3, number
            case 1:
                at += 8
            case 2:
                length, at = _read_varint(message, at)
                yield key >> 3, message[at : at + length]
                at += length
            case 5:
                at += 4
            case kind:
                raise ValueError(f"no such kind of field: {kind}")


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Returns a number, and the place after it. Raises ValueError for one that is longer than the format
    allows: a long one takes a time that grows with the square of its length."""
    value = shift = 0
    while shift < _MAX_NUMBER_BITS:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise ValueError("a number is too long")
