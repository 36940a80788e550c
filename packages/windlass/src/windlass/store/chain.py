"""The hash chain of events: the hash of each event covers the event and the previous hash.

Changing, removing or adding an event later breaks the chain. The hash is

    SHA-256(previous hash ‖ MessagePack of [seq, id, org, kind, target, at, body, family, subject,
            subject_family, actor, origin, project, environment])

For the first event, the previous hash is 32 zero bytes. MessagePack encodes the type and length of each part,
so that different events never have the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import Struct

FIRST_HASH: Final = bytes(32)
ANCHOR_FACT: Final = "audit_anchor"
"""Name of the fact with the last event that was deleted because of its age."""

_bytes_of = msgspec.msgpack.Encoder().encode


class Head(Struct, frozen=True):
    """The number and hash of an event, to which the next event is chained."""

    number: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"


class Anchor(Struct, frozen=True):
    """The last event that was deleted because of its age, as stored in a fact. The chain continues after
    it."""

    number: int
    hash: str

    @property
    def head(self) -> Head:
        return Head(self.number, bytes.fromhex(self.hash))


def hash_of(previous_hash: bytes, event: Sequence[Any]) -> bytes:
    return hashlib.sha256(previous_hash + _bytes_of(event)).digest()


def chain_rows(head: Head, events: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yields table rows for new events: with consecutive numbers after `head`, and with their hashes."""
    before = head.hash
    for number, event in enumerate(events, head.number + 1):
        row = (number, *event)
        before = hash_of(before, row)
        yield (*row, before)


class Fault(Enum):
    REMOVED = "removed"
    """Events before this event are missing."""
    CHANGED = "changed"
    """The event does not match its hash and the previous hash."""


class ChainWalk:
    """A walk along the chain, starting after a given event. Trusts only events that follow from the previous
    hash."""

    def __init__(self, previous_head: Head) -> None:
        self.due = previous_head.number + 1
        """The number that the next event must have."""
        self._hash = previous_head.hash

    @property
    def head(self) -> Head:
        return Head(self.due - 1, self._hash)

    def step(self, row: Sequence[Any]) -> list[Fault]:
        """Checks the next event, given as a row of the table. Returns its faults."""
        number, hash = row[0], row[-1]
        is_missing, self.due = number != self.due, number + 1
        faults = [Fault.REMOVED] if is_missing else []
        # After a gap, the previous hash is unknown. The gap is reported as a fault itself.
        if not is_missing and hash != hash_of(self._hash, row[:-1]):
            faults.append(Fault.CHANGED)
        self._hash = hash if isinstance(hash, bytes) else b""  # SQLite accepts text in any column
        return faults


def beginning_of(anchor: Anchor | None) -> Head:
    """Returns the head to which the oldest event is chained."""
    return Head(0, FIRST_HASH) if anchor is None else anchor.head


def anchor_of(fact: bytes | None) -> Anchor | None:
    return msgspec.json.decode(fact, type=Anchor) if fact is not None else None


class ChainEnd:
    """A cache of the chain's end, as last written by this process.

    Another process may have added events since, and a failed group removes its events. The cache is therefore
    used only if the event number matches, and is cleared after a failure.
    """

    def __init__(self) -> None:
        self.head: Head | None = None

    def at(self, number: int) -> Head | None:
        return self.head if self.head is not None and self.head.number == number else None

    def forget(self) -> None:
        self.head = None
