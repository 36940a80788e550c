"""The store on SQLite: one file, used by one process, without a database server.

Reads run on the event loop, because a simple read takes a few microseconds, and a switch to a thread takes
ten times as long. The statements of changes run on the event loop too. Only commits, which wait for the disk,
run in a thread; changes that arrive meanwhile form the next group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import apsw

from windlass.base import filelock
from windlass.base.clock import Clock
from windlass.base.commit_thread import CommitThread
from windlass.base.errors import NO_DATA, READ_ONLY, Unavailable
from windlass.base.private import is_read_only, private_file
from windlass.base.subprocesses import in_thread
from windlass.store.groups import GroupCommit, Outcome
from windlass.store.migrate import APPLIED, RECORD, RECORDS, Migration, find_missing, migrations
from windlass.store.store import KeyGuard
from windlass.store.tables import work
from windlass.store.tables.figures import Figure, FigureTable
from windlass.store.tables.row_sizes import RowSizeTable
from windlass.store.tables.table import NameTaken
from windlass.store.transaction import Reads, Tx, Write

T = TypeVar("T")

# Older versions can lose committed pages in WAL mode when two connections write and checkpoint at once.
OLDEST_SAFE = (3, 51, 3)
# Errors of the file or the machine, after which SQLite may have rolled the transaction back.
_UNAVAILABLE_ERRORS = (
    apsw.FullError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.InterruptError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.ProtocolError,
    apsw.CorruptError,
    apsw.NotADBError,
)
_MIN_FREE_BYTES = 1 << 20
"""Free bytes below which a disk counts as full."""
_RESERVE_BYTES = 4 << 20
"""Free bytes in the database file that are reserved for changes that free resources. The WAL is kept as
large."""
_AMPLE_SPACE_FACTOR = 16
"""The reserve is created only if the disk has this multiple of the reserve's size free."""
_WAITED = "a change waited for something other than its transaction"
_GROUPS_BETWEEN_CHECKS = 64
"""Number of groups of changes between two checks of the reserve."""
_UNIQUE_ERRORS = {apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY}


class TooOld(Exception):
    """Raised for a version of SQLite that can lose committed data."""


class InUse(Exception):
    """Raised if another process uses the data directory."""


def check_version(version: str | None = None) -> None:
    """Raises TooOld for an unsafe SQLite library. The apsw of a distribution may use an older library than
    apsw itself requires."""
    version = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SAFE:
        raise TooOld(
            f"SQLite {version} can lose committed data in WAL mode; 3.51.3 or later is needed: "
            "install the apsw version of the lock file"
        )


class SqliteSession:
    """A session on a connection. Its methods are coroutines for compatibility, and never wait."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._execute_many = connection.executemany
        self._refusal: Exception | None = None
        """The error with which the database refused a statement of the current change."""

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        try:
            row: Sequence[Any] | None = self._execute(statement, values).fetchone()
        except apsw.ConstraintError as error:
            self._refusal = _translate(error)
            raise self._refusal from error
        return row

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        try:
            rows: Sequence[Sequence[Any]] = self._execute(statement, values).fetchall()
        except apsw.ConstraintError as error:
            self._refusal = _translate(error)
            raise self._refusal from error
        return rows

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._execute_many(statement, rows)


class SqliteWriter(SqliteSession):
    """The session of a group of changes."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._changes = connection.total_changes
        self._before = 0

    @property
    def touched(self) -> bool:
        return self._changes() != self._before

    async def begin(self) -> None:
        self._execute("BEGIN IMMEDIATE")

    async def execute(self, statements: str) -> None:
        self._execute(statements)

    async def attempt(self, change: Write[Any], tx: Tx) -> Outcome:
        self._refusal, self._before = None, self._changes()
        try:
            answer = await _carry_out(change(tx))
        except _UNAVAILABLE_ERRORS:
            raise
        except Exception as failure:  # noqa: BLE001 (the caller gets the exception)
            return None, failure
        # A change fails even if it ignores a refused statement, as on PostgreSQL.
        return answer, self._refusal


class ReadingSession(SqliteSession):
    """Reads outside a change. Raises `Unavailable` if the file cannot be read.

    Checking the file for new data takes longer than most reads, so all reads of one turn of the event loop
    share a transaction. During a commit, each read has its own transaction, because a WAL with a reader
    cannot be restarted and would grow.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._connection = connection
        self._moment: asyncio.Handle | None = None
        """The callback that ends the shared transaction of this turn."""
        self._paused = False

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        try:
            if self._moment is None:
                self._hold_transaction()
            row: Sequence[Any] | None = self._execute(statement, values).fetchone()
        except _UNAVAILABLE_ERRORS as error:
            raise _unreadable() from error
        return row

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        try:
            if self._moment is None:
                self._hold_transaction()
            rows: Sequence[Sequence[Any]] = self._execute(statement, values).fetchall()
        except _UNAVAILABLE_ERRORS as error:
            raise _unreadable() from error
        return rows

    def pause(self) -> None:
        """Gives each read a transaction of its own, until `resume` is called."""
        self._paused = True
        self._end_transaction()

    def resume(self) -> None:
        self._paused = False

    def _hold_transaction(self) -> None:
        """Begins a transaction that ends after all callbacks that are ready now. Notifications of a later
        commit run after that."""
        if not self._paused:
            self._execute("BEGIN")
            self._moment = asyncio.get_running_loop().call_soon(self._end_transaction)

    def _end_transaction(self) -> None:
        moment, self._moment = self._moment, None
        if moment is not None:
            moment.cancel()
            if self._connection.in_transaction:
                self._execute("COMMIT")


class SqliteStore(GroupCommit):
    """A store on SQLite. Created by `SqliteStore.open`."""

    def __init__(self, path: Path, clock: Clock, lock: IO[bytes]) -> None:
        super().__init__(clock)
        self._lock = lock
        self._path = path
        self._writer = connect(path)
        self._reader = connect(path)
        self._session = SqliteWriter(self._writer)
        self._tx = Tx(self._session)
        self._reading = ReadingSession(self._reader)
        self.reads = Reads(self._reading)
        self._thread = CommitThread("windlass-commit")

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> SqliteStore:
        check_version()
        lock = lock_database(path)
        private_file(path)  # the other database files get the same mode
        async with contextlib.AsyncExitStack() as opened:
            opened.callback(lock.close)
            store = cls(path, clock, lock)
            opened.push_async_callback(store.close)
            migrate(store._writer, migrations())
            # No other process uses this file, so the workers that had claimed work have ended.
            store._writer.execute(work.RELEASE_ALL, (clock.now(),))
            opened.pop_all()
        return store

    async def close(self) -> None:
        await self._wind_up()
        self._thread.close()
        self._reading.pause()
        self._reader.close()
        self._writer.close()
        self._lock.close()

    async def _commit(self, changes: Sequence[Write[Any]]) -> tuple[Sequence[Outcome], Iterable[str]]:
        try:
            done = await self._run_all(self._session, self._tx, changes)
            self._reading.pause()
            await self._thread.run(self._writer.execute, "COMMIT")
            if self.groups % _GROUPS_BETWEEN_CHECKS == _GROUPS_BETWEEN_CHECKS - 1:
                await self._thread.run(self._keep_room)
        except apsw.Error as error:
            self._roll_back()
            raise Unavailable(
                "The change could not be stored; nothing was changed. Is the disk full?"
            ) from error
        except Exception:  # a bug in a change must not leave the transaction open
            self._roll_back()
            raise
        finally:
            self._reading.resume()
        return done

    def _roll_back(self) -> None:
        self._end.forget()
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def guard_key(self, key_guard: KeyGuard) -> None:
        """Does nothing. No other server uses this database, and this server rotates the key itself."""

    async def problem(self) -> str:
        await self.reads.counters.get("event")
        return self.shortage(ends_something=False)

    def shortage(self, *, ends_something: bool) -> str:
        try:
            is_there = filelock.is_at(self._lock.fileno(), _lock_file(self._path))
            free = _free(self._path.parent)
        except OSError:
            is_there = False
        if not is_there:
            return NO_DATA
        if is_read_only(self._lock.fileno()):
            return READ_ONLY
        if free < _MIN_FREE_BYTES and not ends_something:
            return (
                "Free space on the disk of the data directory, or stop or delete a service: the disk is "
                "full, and other changes cannot be stored"
            )
        return ""

    def _keep_room(self) -> None:
        """Keeps free pages in the database file for changes that free resources, which have to work on a full
        disk.

        Stores a large table and then drops it. Doing both in one transaction would reserve no space on the
        disk.
        """
        write = self._writer.execute
        with contextlib.suppress(apsw.Error):  # the changes are stored; the next check follows
            free = self._writer.pragma("freelist_count") * self._writer.pragma("page_size")
            if free < _RESERVE_BYTES // 2 and _free(self._path.parent) > _RESERVE_BYTES * _AMPLE_SPACE_FACTOR:
                self._writer.wal_checkpoint()  # so that the WAL restarts instead of growing
                write("CREATE TABLE IF NOT EXISTS room (content BLOB)")
                write("INSERT INTO room VALUES (zeroblob(?))", (_RESERVE_BYTES,))
                self._writer.wal_checkpoint()
                write("DROP TABLE room")
                self._writer.release_memory()  # the pages of the table are in the cache

    @property
    def connections(self) -> Mapping[str, int]:
        return {}

    async def figures(self, now: int) -> list[Figure]:
        return await in_thread(self._read_apart, lambda session: FigureTable(session).all(now))

    async def row_sizes(self) -> dict[str, int]:
        return await in_thread(self._read_apart, lambda session: RowSizeTable(session).all())

    def _read_apart(self, read_function: Callable[[SqliteSession], Coroutine[Any, Any, T]]) -> T:
        """Runs a long read in a thread with its own connection."""
        try:
            with contextlib.closing(self.snapshot()) as connection:
                return _finish(read_function(SqliteSession(connection)))
        except _UNAVAILABLE_ERRORS as error:
            raise _unreadable() from error

    def snapshot(self) -> apsw.Connection:
        """Opens a separate connection for a long read."""
        return connect(self._path)


def connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    # Query plans are kept. Otherwise each new LIMIT value needs a new plan, which takes half the time of a
    # page.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -16_000)
    return connection


def migrate(connection: apsw.Connection, migrations: Sequence[Migration]) -> None:
    """Applies missing migrations. Each is one transaction together with its record, so that a killed process
    leaves no partial migration."""
    connection.execute(RECORDS)
    for migration in find_missing(migrations, _applied_migrations(connection)):
        with connection:
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(RECORD, migration.record)


def _applied_migrations(connection: apsw.Connection) -> dict[int, str]:
    return {cast(int, number): cast(str, checksum) for number, checksum in connection.execute(APPLIED)}


def lock_database(path: Path) -> IO[bytes]:
    """Locks the database for this process, because two processes would not see each other's changes."""
    place = _lock_file(path)
    private_file(place)
    lock = filelock.try_hold(place)
    if lock is None:
        raise InUse("another Windlass runs on this data directory: stop it first")
    return os.fdopen(lock, "rb")


def _lock_file(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _translate(error: apsw.ConstraintError) -> Exception:
    twin = error.extendedresult in _UNIQUE_ERRORS  # type: ignore[attr-defined]  # missing in its stub
    return NameTaken(str(error)) if twin else error


def _free(folder: Path) -> int:
    """Returns the free bytes of a disk; 0 if the disk has no room for further files."""
    facts = os.statvfs(folder)
    return 0 if facts.f_files and not facts.f_favail else facts.f_bavail * facts.f_frsize


def _unreadable() -> Unavailable:
    return Unavailable("The database cannot be read now. Try again shortly.")


def _finish(work: Awaitable[T]) -> T:
    """Runs a coroutine that never waits, and returns its result."""
    coroutine: Coroutine[Any, None, T] = work  # type: ignore[assignment]  # not `cast`: a call for each read
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError(_WAITED)


async def _carry_out(work: Awaitable[T]) -> T:
    """Runs a change, and returns its result. A long one may let other tasks run, but may not wait."""
    coroutine: Coroutine[Any, None, T] = work  # type: ignore[assignment]  # not `cast`: a call for each change
    while True:
        try:
            waits_for = coroutine.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if waits_for is not None:
            coroutine.close()
            raise RuntimeError(_WAITED)
        await asyncio.sleep(0)
