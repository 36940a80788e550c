"""The embedded database: one file, one process, nothing to install.

Reads run on the event loop: a point read takes a few microseconds, a hop through a thread ten times
that. Statements of a write run there too; only the commit, which waits for the disk, goes to a
thread, and everything that arrives meanwhile forms the next group.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import apsw

from windlass.base.clock import Clock
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.store.migrate import Migration, migrations
from windlass.store.store import Reads, Taken, Tx, Write

T = TypeVar("T")

# Before this version, WAL mode can lose committed pages when two connections write and checkpoint at once.
OLDEST_SAFE = 3_051_003
GROUP = 128

_log = log("store")


class TooOld(Exception):
    """This SQLite may lose committed data."""


class InUse(Exception):
    """Another process has the data directory."""


def check_version(number: int = apsw.SQLITE_VERSION_NUMBER) -> None:
    if number < OLDEST_SAFE:
        raise TooOld(
            f"SQLite {number // 1_000_000}.{number // 1000 % 1000}.{number % 1000} can lose committed "
            "data in WAL mode; 3.51.3 or later is needed: install the apsw version of the lock file"
        )


class SqliteSession:
    """Looks asynchronous, never waits."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._execute_many = connection.executemany

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        try:
            return cast("Sequence[Any] | None", self._execute(statement, values).fetchone())
        except apsw.ConstraintError as error:
            raise Taken(str(error)) from error

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        try:
            return cast("Sequence[Sequence[Any]]", self._execute(statement, values).fetchall())
        except apsw.ConstraintError as error:
            raise Taken(str(error)) from error

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._execute_many(statement, rows)


class SqliteStore:
    """`SqliteStore.open(path, clock)` makes one."""

    def __init__(self, path: Path, clock: Clock, lock: IO[bytes]) -> None:
        self._clock = clock
        self._lock = lock
        self._writer = connect(path)
        self._reader = connect(path)
        self._session = SqliteSession(self._writer)
        self.reads = Reads(SqliteSession(self._reader))
        self._waiting: deque[tuple[Write[Any], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "windlass-commit")
        self._listeners: list[Callable[[str], None]] = []

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> SqliteStore:
        check_version()
        store = cls(path, clock, _own(path))
        migrate(store._writer, migrations())
        return store

    def listen(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    async def write(self, change: Write[T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        return await future

    async def close(self) -> None:
        if self._task:
            await self._task
        self._thread.shutdown()
        self._reader.close()
        self._writer.close()
        self._lock.close()

    async def _drain(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
            await self._commit([one for one in group if not one[1].cancelled()])

    async def _commit(self, group: Sequence[tuple[Write[Any], asyncio.Future[Any]]]) -> None:
        """Runs and commits a group; each member succeeds or fails alone, unless the commit itself fails."""
        execute = self._writer.execute
        try:
            execute("BEGIN IMMEDIATE")
            outcomes = [self._run(change) for change, _ in group]
            events = [event for tx, _, _ in outcomes for event in tx.emitted]
            _finish(Tx(self._session, self._clock.now()).number_events(events))
            await asyncio.get_running_loop().run_in_executor(self._thread, execute, "COMMIT")
        except apsw.Error as error:
            self._roll_back()
            _log.error(
                "a group of writes could not be committed", extra={"error": str(error), "writes": len(group)}
            )
            self._refuse(group, error)
            return
        for (_, future), (tx, answer, failure) in zip(group, outcomes, strict=True):
            _resolve(future, answer, failure)
            for word in tx.nudges:
                self._tell(word)

    def _run(self, change: Write[Any]) -> tuple[Tx, Any, BaseException | None]:
        tx = Tx(self._session, self._clock.now())
        execute = self._writer.execute
        execute("SAVEPOINT change")
        try:
            answer = _finish(change(tx))
        except apsw.FullError:
            raise  # The disk is full: nobody of the group can be served.
        except Exception as failure:  # noqa: BLE001 (whatever it is, it is the answer to whoever asked)
            execute("ROLLBACK TO change")
            execute("RELEASE change")
            return Tx(self._session, tx.now), None, failure
        execute("RELEASE change")
        return tx, answer, None

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def _refuse(self, group: Sequence[tuple[Write[Any], asyncio.Future[Any]]], error: BaseException) -> None:
        for _, future in group:
            refusal = Unavailable("The change could not be stored; nothing was changed. Is the disk full?")
            refusal.__cause__ = error
            _resolve(future, None, refusal)

    def _tell(self, word: str) -> None:
        for listener in self._listeners:
            listener(word)

    def snapshot(self) -> apsw.Connection:
        """A connection of its own, for a long look at one moment."""
        return connect(Path(self._writer.filename))


def connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -16_000)
    return connection


def migrate(connection: apsw.Connection, wanted: Sequence[Migration]) -> None:
    """Each migration is one transaction, its record included: killed anywhere, it happened or it did not."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migration"
        " (number BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)"
    )
    for migration in wanted:
        connection.execute("BEGIN IMMEDIATE")
        try:
            done = connection.execute(
                "SELECT checksum FROM migration WHERE number = $1", (migration.number,)
            ).fetchone()
            if not migration.is_done(cast("str | None", done and done[0])):
                for statement in migration.statements:
                    connection.execute(statement)
                connection.execute("INSERT INTO migration VALUES ($1, $2, $3)", migration.record)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _own(path: Path) -> IO[bytes]:
    """One process owns the file: a second one would write behind the first one's back."""
    lock = path.with_name(path.name + ".lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise InUse("another Windlass runs on this data directory: stop it first") from error
    os.set_inheritable(lock.fileno(), False)
    return lock


def _finish(work: Awaitable[T]) -> T:
    """Runs a coroutine that never waits, to its end."""
    try:
        cast("Coroutine[Any, None, T]", work).send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise RuntimeError("a change waited for something other than its transaction")


def _resolve(future: asyncio.Future[Any], answer: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(answer)
    else:
        future.set_exception(failure)
