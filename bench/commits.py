"""The least that a durable create can be: a loop that commits the statements of such creates, in groups.

The statements, the connection's settings and the file system are those of the server. The time it takes to
make up rows is not counted. A process of its own on the core of servers, which is told when to go on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from bench.fill import template
from bench.load import Loaded
from bench.machine import SERVER_CORE, Asked
from windlass.base import ids
from windlass.config import DATABASE
from windlass.store import EventRow, Row
from windlass.store.sqlite import connect
from windlass.store.tables import counters, lists, resources
from windlass.store.tables import events as event_table


class Turn(Struct, frozen=True):
    group: float
    """How many creates are committed at a time. 2.5 is two and three in turn."""
    seconds: float


class Looping:
    """The loop in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._process = Asked("bench.commits", str(folder), SERVER_CORE)
        self.close = self._process.close

    def turn(self, group: float, seconds: float) -> Loaded:
        return self._process.ask(Turn(group, seconds), Loaded)


class Loop:
    def __init__(self, folder: Path) -> None:
        self._connection = connect(folder / DATABASE)
        self._project = template(self._connection)
        self._event = _event(self._connection, self._project)

    def run(self, turn: Turn) -> Loaded:
        taken, made, number = 0.0, 0, 0
        while taken < turn.seconds:
            number += 1
            size = int(turn.group * number) - int(turn.group * (number - 1))
            now = time.time_ns() // 1_000_000
            rows = [_copy(self._project) for _ in range(size)]
            events = [_told(self._event, row, now) for row in rows]
            began = time.perf_counter()
            _commit(self._connection, rows, events, now)
            taken += time.perf_counter() - began
            made += size
        return Loaded(made, taken)


def _commit(
    connection: apsw.Connection, rows: Sequence[Row], events: Sequence[tuple[Any, ...]], now: int
) -> None:
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    for row in rows:
        place, created = next(execute(lists.TAKE_POSITION, (row.parent, row.family, now)))
        values = (row.id, row.family, row.org, row.parent, place, row.name, created, row.tag, row.body, None)
        execute(resources.ADD, values)
    (last,) = next(execute(counters.ADVANCE, (len(events), "event")))
    numbered = enumerate(events, last - len(events) + 1)
    connection.executemany(event_table.ADD, [(number, *event) for number, event in numbered])
    execute("COMMIT")


def _copy(project: Row) -> Row:
    """With a name in the order of creation, as those of the load are."""
    return msgspec.structs.replace(project, id=ids.new_id(), name=f"{time.time_ns():016x}")


def _event(connection: apsw.Connection, project: Row) -> EventRow:
    found = next(
        row for row in connection.execute(event_table.AFTER, (project.org, 0, 1000)) if row[4] == project.id
    )
    return EventRow(*found)


def _told(event: EventRow, row: Row, now: int) -> tuple[Any, ...]:
    """The same of another project; every event of a project names it three times. Its hash is made up."""
    told = msgspec.structs.replace(
        event, id=ids.new_id(), target=row.id, subject=row.id, project=row.id, at=now
    )
    return msgspec.structs.astuple(told)[1:]


if __name__ == "__main__":
    loop = Loop(Path(msgspec.json.decode(sys.stdin.buffer.readline(), type=str)))
    for line in sys.stdin.buffer:
        answer = loop.run(msgspec.json.decode(line, type=Turn))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
