"""Verifies the hash chain of audit events, and detects events that were changed, removed or added later.

The check reads one snapshot of the database, so the server may be running. An event is trusted only if it
follows from the previous hash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from windlass.base.clock import stamp
from windlass.config import Settings
from windlass.install.database import reading_snapshot
from windlass.install.ownership import check
from windlass.store import EventRow, Reads
from windlass.store.archive import Snapshot, level
from windlass.store.chain import ChainWalk, Fault, Head, beginning_of
from windlass.terminal.command_errors import CommandRefused

_MAX_REPORTED = 20
_FAULT_SENTENCES = {
    Fault.REMOVED: "{missing}: removed.",
    Fault.CHANGED: "{event}: changed or added, or the hash of the event before it was.",
}
_HEAD_PATTERN = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})", re.IGNORECASE)


class Verdict(Struct):
    events: int = 0
    let_go: int = 0
    """Number of the last event that was deleted because of its age."""
    first: int = 0
    number: int = 0
    hash: str = ""
    head: str = ""
    """The newest event as NUMBER:HASH, to be stored elsewhere for later comparison."""
    since: str = ""
    until: str = ""
    faults: list[str] = []
    more: int = 0
    """Number of faults that are not listed."""

    def blame(self, fault: str) -> None:
        if len(self.faults) < _MAX_REPORTED:
            self.faults.append(fault)
        else:
            self.more += 1


async def verify(settings: Settings, noted: str = "") -> Verdict:
    """Verifies all audit events of the database.

    `noted`: the newest event of an earlier run, as NUMBER:HASH; empty to compare nothing.
    """
    head = _head(noted)
    await check(settings)
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        if not level(await moment.applied()):
            raise CommandRefused("start Windlass once: this database was never used")
        verdict = Verdict()
        await _AuditWalk(moment, Reads(line), verdict, head).whole()
    return verdict


def _head(noted: str) -> Head | None:
    if not noted:
        return None
    match = _HEAD_PATTERN.fullmatch(noted)
    if match is None:
        raise CommandRefused("--head: must be NUMBER:HASH, as `windlass audit verify` prints it")
    return Head(int(match[1]), bytes.fromhex(match[2]))


class _AuditWalk:
    """A walk through the events, from the oldest to the newest."""

    def __init__(self, snapshot: Snapshot, reads: Reads, verdict: Verdict, noted_head: Head | None) -> None:
        self._moment = snapshot
        self._reads = reads
        self._told = verdict
        self._noted = noted_head
        self._seen = noted_head is None
        self._newest: EventRow | None = None

    async def whole(self) -> None:
        counts = self._told
        counted = await self._reads.counters.get("event")
        if anchor := await self._reads.events.anchor():
            counts.let_go = anchor.number
            self._compare(anchor.number, anchor.head.hash)
        walk = ChainWalk(beginning_of(anchor))
        async for row in self._moment.events():
            self._check_event(EventRow(*row), walk, row)
        self._check_end(counted, walk.head.number)
        if self._newest is not None:
            counts.until, counts.number = stamp(self._newest.at), self._newest.seq
            counts.hash = self._newest.hash.hex()
            counts.head = f"{counts.number}:{counts.hash}"

    def _check_event(self, event: EventRow, walk: ChainWalk, row: Sequence[Any]) -> None:
        counts = self._told
        counts.events += 1
        if counts.events == 1:
            counts.first, counts.since = event.seq, stamp(event.at)
        missing, self._newest = _numbers(walk.due, event.seq - 1), event
        for fault in walk.step(row):
            counts.blame(_FAULT_SENTENCES[fault].format(missing=missing, event=_describe(event)))
        self._compare(event.seq, event.hash)

    def _compare(self, number: int, hash: bytes) -> None:
        if self._noted is not None and number == self._noted.number:
            self._seen = True
            if hash != self._noted.hash:
                self._told.blame(f"Event {number}: has another hash than the one that was noted.")

    def _check_end(self, counted: int, newest_number: int) -> None:
        if counted > newest_number:
            self._told.blame(f"{_numbers(newest_number + 1, counted)}: removed, at the end.")
        elif counted < newest_number:
            self._told.blame(f"{_numbers(counted + 1, newest_number)}: added; they were never numbered.")
        if self._seen or self._noted is None:
            return
        number = self._noted.number
        if number <= self._told.let_go:
            self._told.blame(
                f"Event {number}, which was noted, was deleted because of its age: compare with a newer note."
            )
        elif number > max(newest_number, counted):
            self._told.blame(
                f"{_numbers(newest_number + 1, number)}: cut off at the end; {number} was noted."
            )
        else:
            self._told.blame(f"Event {number}, which was noted, is not there, or not chained.")


def _numbers(first: int, last_number: int) -> str:
    return f"Event {first}" if first == last_number else f"Events {first} to {last_number}"


def _describe(event: EventRow) -> str:
    return f"Event {event.seq} ({event.kind}, {stamp(event.at)}, id {event.id})"
