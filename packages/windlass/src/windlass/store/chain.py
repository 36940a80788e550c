"""The chain of events: each carries a hash over itself and the hash of the one before it.

An event that is changed, removed or added afterwards breaks the chain there. The hash is

    SHA-256(hash of the event before ‖ MessagePack of [seq, id, org, kind, target, at, body, family, subject,
            subject_family, actor, origin, project, environment])

with 32 zero bytes before the first. MessagePack encodes type and length of each part: no two events have
the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import Struct

BEGINNING: Final = bytes(32)
ANCHOR: Final = "audit_anchor"
"""The fact with the last event that was deleted because of its age."""

_bytes_of = msgspec.msgpack.Encoder().encode


class Head(Struct, frozen=True):
    """An event by its number, with its hash."""

    number: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"


class Anchor(Struct, frozen=True):
    """The last event that was deleted because of its age, as the fact has it: the chain begins after it."""

    number: int
    hash: str

    @property
    def head(self) -> Head:
        return Head(self.number, bytes.fromhex(self.hash))


def hash_of(before: bytes, event: Sequence[Any]) -> bytes:
    return hashlib.sha256(before + _bytes_of(event)).digest()


def chain_rows(head: Head, events: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Rows for the table: numbered from the head on, each with its hash at the end."""
    before = head.hash
    for number, event in enumerate(events, head.number + 1):
        row = (number, *event)
        before = hash_of(before, row)
        yield (*row, before)


class Fault(Enum):
    REMOVED = "removed"
    """Events before this one are missing."""
    CHANGED = "changed"
    """The event does not match the previous hash."""


class ChainWalk:
    """Verifies the chain, beginning with an event whose previous hash is known."""

    def __init__(self, before: Head) -> None:
        self.due = before.number + 1
        """The number that the next event has to have."""
        self._hash = before.hash

    @property
    def head(self) -> Head:
        return Head(self.due - 1, self._hash)

    def step(self, row: Sequence[Any]) -> list[Fault]:
        """Takes the next event that there is, as a row of the table; returns what is wrong."""
        number, hash = row[0], row[-1]
        is_missing, self.due = number != self.due, number + 1
        faults = [Fault.REMOVED] if is_missing else []
        # After a gap the hash before is unknown; the gap itself is a fault already.
        if not is_missing and hash != hash_of(self._hash, row[:-1]):
            faults.append(Fault.CHANGED)
        self._hash = hash if isinstance(hash, bytes) else b""  # SQLite takes text, too
        return faults


def beginning_of(anchor: Anchor | None) -> Head:
    """Returns the head after which the oldest event comes."""
    return Head(0, BEGINNING) if anchor is None else anchor.head


def anchor_of(fact: bytes | None) -> Anchor | None:
    return msgspec.json.decode(fact, type=Anchor) if fact is not None else None


class ChainEnd:
    """The end of the chain as this process wrote it. Another process may have added events, and a failed
    group removes its own: so it is used only if the numbers match, and not after a failure."""

    def __init__(self) -> None:
        self.head: Head | None = None

    def at(self, number: int) -> Head | None:
        return self.head if self.head is not None and self.head.number == number else None

    def forget(self) -> None:
        self.head = None
