"""The store on PostgreSQL, for several replicas. It has the same statements as SQLite, and also one writer at
a time.

Each replica commits its waiting changes as one group, and an advisory lock serializes the groups of all
replicas. As on SQLite, a change sees all changes before it, and events have no gaps. A replica that is paused
while it has the lock is disconnected after a few seconds, by the server or by a waiting replica.

Statements are named by module and constant, such as `resources.FIND`. Placeholders are `$1`, `$2`, …, and
first appear in this order, because SQLite numbers named parameters by their first appearance. A test prepares
each statement on both databases.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import pkgutil
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from windlass.base.clock import Clock
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.base.outage import Outage
from windlass.store import tables
from windlass.store.groups import GroupCommit, Outcome
from windlass.store.migrate import APPLIED, RECORD, RECORDS, Migration, find_missing, migrations
from windlass.store.nudges import MAY_HAVE_MISSED
from windlass.store.postgres_clock import follow_clock
from windlass.store.postgres_limits import (
    AWAY_ERRORS,
    CONNECT_SECONDS,
    CUT_ERRORS,
    LOOK_SECONDS,
    LOST_CONNECTION_ERRORS,
    PooledSession,
    connect,
    first_connection,
    limit,
)
from windlass.store.store import KeyGuard
from windlass.store.tables.figures import Figure, FigureTable
from windlass.store.tables.row_sizes import RowSizeTable
from windlass.store.tables.table import NameTaken
from windlass.store.transaction import Reads, Tx, Write

_LOOKING, _CHANGING = {"SELECT", "WITH"}, {"INSERT", "UPDATE", "DELETE"}


def _statements() -> Iterator[tuple[str, str]]:
    for module in pkgutil.iter_modules(tables.__path__):
        for name, value in vars(importlib.import_module(f"{tables.__name__}.{module.name}")).items():
            if name.startswith("_") or not name.isupper():
                continue
            named = value if isinstance(value, dict) else {"": value}
            for key, text in named.items():
                if isinstance(text, str) and text.split()[0] in _LOOKING | _CHANGING:
                    yield f"{module.name}.{name}.{key}".rstrip("."), text


ALL_STATEMENTS: Final = dict(_statements())
READING_STATEMENTS: Final = frozenset(text for text in ALL_STATEMENTS.values() if text.split()[0] in _LOOKING)
"""Statements that change nothing."""


T = TypeVar("T")

CHANNEL = "windlass"
LISTEN = f'LISTEN "{CHANNEL}"'
LISTEN_SECONDS = 15.0
"""Seconds between two checks of the listening connection."""
_CLOSE_SECONDS = 2.0
# Arbitrary numbers that must never change.
WRITER_LOCK, MIGRATION_LOCK = 7_146_115_201, 7_146_115_202
_LOCK = f"SELECT pg_advisory_xact_lock({WRITER_LOCK})"
# The last statement fails if the database has migrations that this server does not know. Migrations use the
# same lock, so that no change of an older version follows a migration.
_BEGIN_GROUP = f"""
BEGIN; SET LOCAL lock_timeout = '5s'; {_LOCK}; SELECT 1 / (count(*) = {{}} AND {{}})::int FROM migration"""
# The statement also fails if this server seals with a key that is not the current one.
_PRESENT_KEY = "EXISTS (SELECT 1 FROM fact WHERE name = '{}' AND value = '{}'::bytea)"
_APPLIED = "SELECT count(*) FROM migration"
_STATE = "SELECT count(*), current_setting('transaction_read_only') = 'on' FROM migration"
_READ_ONLY: Final = (
    "Let PostgreSQL accept changes, or name the server that does in WINDLASS_DATABASE_URL: this one is "
    "read-only now, as a standby is, and changes cannot be stored"
)
_DISK_FULL: Final = "Free space on the disk of PostgreSQL: it is full, and changes cannot be stored"
_UNREACHABLE: Final = "The database cannot be reached; nothing was changed. Try again shortly."
OUTDATED_ADVICE = (
    "Use a server of the present version: this one is older than the database, and changes nothing any more. "
    "Operators: upgrade or stop it"
)
_MAX_ATTEMPTS = 4
_OTHER_KEY = "The key that seals secrets is being replaced; nothing was changed. Try again shortly"
# PostgreSQL has no timeout for a connection that was paused while asyncpg prepares a statement, which is
# neither idle nor active. A waiting replica terminates such a connection.
_CUT_OFF = f"""
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE locktype = 'advisory' AND granted AND datname = current_database() AND datid = database
    AND (classid::bigint << 32) + objid::bigint = {WRITER_LOCK} AND objsubid = 1
    AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - interval '5 seconds'"""
_log = log("store")


class _LostBeforeGroup(Unavailable):
    """Raised if the connection was lost before a group of changes, so that none of them has run."""


class PostgresSession:
    """A session on a connection or on a connection pool."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        try:
            row: Sequence[Any] | None = await self._connection.fetchrow(statement, *values)
        except asyncpg.UniqueViolationError as error:
            raise NameTaken(str(error)) from error
        return row

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        try:
            rows: Sequence[Sequence[Any]] = await self._connection.fetch(statement, *values)
        except asyncpg.UniqueViolationError as error:
            raise NameTaken(str(error)) from error
        return rows

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        await self._connection.executemany(statement, rows)


class PostgresWriter(PostgresSession):
    """The session of a group of changes. Records whether the current change has written and must be rolled
    back on failure."""

    def __init__(
        self, connection: asyncpg.Connection[Any], migrations: int, key_guard: KeyGuard | None
    ) -> None:
        super().__init__(connection)
        self._migrations, self._guard = migrations, key_guard
        self.execute = connection.execute
        self.touched = False
        self._refusal: Exception | None = None

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        return await self._run(statement, super().one(statement, *values))

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        return await self._run(statement, super().all(statement, *values))

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        await self._run(statement, super().many(statement, rows))

    async def _run(self, statement: str, query: Awaitable[T]) -> T:
        self.touched |= statement not in READING_STATEMENTS
        try:
            return await query
        except (NameTaken, *CUT_ERRORS, asyncpg.PostgresError) as refusal:
            self.touched, self._refusal = True, refusal  # the transaction accepts no more statements
            raise

    async def begin(self) -> None:
        try:
            await _take_turn(self._connection, self._migrations, self._guard)
        except LOST_CONNECTION_ERRORS as error:
            raise _LostBeforeGroup(_UNREACHABLE) from error

    async def attempt(self, change: Write[Any], tx: Tx) -> Outcome:
        self.touched, self._refusal = False, None
        try:
            answer = await change(tx)
        except Exception as failure:  # an exception of a change is returned to its caller
            if self._connection.is_closed() or isinstance(failure, AWAY_ERRORS):
                raise
            return None, failure
        return answer, self._refusal  # a change fails even if it ignores a refused statement


class PostgresStore(GroupCommit):
    """A store on PostgreSQL. Created by `PostgresStore.open`."""

    def __init__(self, url: str, pool: asyncpg.Pool[Any], clock: Clock, migrations: int) -> None:
        super().__init__(clock)
        self._url = url
        self._pool = pool
        self._migrations = migrations
        """The number of migrations that this version knows."""
        self.reads = Reads(PooledSession(pool))
        self._writer: asyncpg.Connection[Any] | None = None
        self._listen_outage = Outage(_log, "not listening to the database", "listening to the database again")
        self._guard: KeyGuard | None = None
        self._shortage = ""
        """The reason why the last group of changes was refused, if the disk of the database is full."""
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, url: str, clock: Clock) -> PostgresStore:
        steps = migrations()
        connection = await first_connection(url)
        try:
            await migrate(connection, steps)
            await follow_clock(connection, clock)
        finally:
            await connection.close()
        pool = await asyncpg.create_pool(
            url, min_size=1, max_size=8, timeout=CONNECT_SECONDS, init=limit, reset=_as_it_is
        )
        return cls(url, pool, clock, len(steps))

    def guard_key(self, key_guard: KeyGuard) -> None:
        self._guard = key_guard

    async def problem(self) -> str:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                row = await self.reads.session.one(_STATE)
        except TimeoutError:
            return "The database does not answer"
        if row is None or row[0] != self._migrations:
            return OUTDATED_ADVICE
        return _READ_ONLY if row[1] else self._shortage

    def shortage(self, *, ends_something: bool) -> str:
        """Returns an empty string. The disk belongs to the database server, which refuses changes itself."""
        return ""

    @property
    def connections(self) -> Mapping[str, int]:
        idle = self._pool.get_idle_size()
        return {"used": self._pool.get_size() - idle, "idle": idle, "most": self._pool.get_max_size()}

    async def figures(self, now: int) -> list[Figure]:
        return await FigureTable(self.reads.session).all(now)

    async def row_sizes(self) -> dict[str, int]:
        return await RowSizeTable(self.reads.session).all()

    async def close(self) -> None:
        """Closes all connections after the changes in progress. Terminates the connections if the database
        does not respond."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._wind_up()
                self._listener.cancel()
                await asyncio.gather(self._listener, return_exceptions=True)
                if self._writer:
                    await self._writer.close()
                await self._pool.close()
        except TimeoutError:
            _log.warning("connections to the database are cut: it does not answer")
        finally:
            self._listener.cancel()
            self._drop_writer()
            self._pool.terminate()

    async def _commit(self, changes: Sequence[Write[Any]]) -> tuple[Sequence[Outcome], Iterable[str]]:
        try:
            return await self._commit_once(changes)
        except _LostBeforeGroup:
            # The server had closed the idle connection, for example because it was restarted.
            return await self._commit_once(changes)

    async def _commit_once(self, changes: Sequence[Write[Any]]) -> tuple[Sequence[Outcome], Iterable[str]]:
        refusal = _UNREACHABLE
        stored = False
        try:
            connection = await self._open_writer()
            session = PostgresWriter(connection, self._migrations, self._guard)
            outcomes, nudges = await self._run_all(session, Tx(session), changes)
            refusal = (
                "The database went away while the change was being stored, and perhaps it was: look, or "
                "repeat the request under its Idempotency-Key."
            )
            await connection.execute(_commit_statement(nudges))
            stored, self._shortage = True, ""
        except asyncpg.DiskFullError as error:
            self._shortage = _DISK_FULL
            raise Unavailable(f"{_DISK_FULL}; nothing was changed") from error
        except asyncpg.ReadOnlySQLTransactionError as error:
            raise Unavailable(f"{_READ_ONLY}; nothing was changed") from error
        except (*CUT_ERRORS, asyncpg.PostgresError) as error:
            raise Unavailable(refusal) from error
        finally:
            if not stored:
                self._drop_writer()
        # The nudges are announced locally at once, before the database returns the notifications.
        return outcomes, nudges

    async def _open_writer(self) -> asyncpg.Connection[Any]:
        if self._writer is None or self._writer.is_closed():
            self._writer = await connect(self._url)
        return self._writer

    def _drop_writer(self) -> None:
        """Closes the connection of the writer, which rolls back its transaction."""
        self._end.forget()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.terminate()

    async def _listen(self) -> None:
        """Listens for nudges, and reconnects if the connection is lost."""
        while True:
            try:
                await self._listen_until_lost()
            except (*CUT_ERRORS, asyncpg.PostgresError) as error:
                self._listen_outage.note(str(error))
            await asyncio.sleep(1)

    async def _listen_until_lost(self) -> None:
        connection = await self._connect()
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda *_: lost.set())
            await follow_clock(connection, self._clock)
            await connection.add_listener(CHANNEL, lambda *heard: self._notify_listeners(str(heard[-1])))
            self._listen_outage.end()
            self._notify_listeners("work")
            self._notify_listeners(MAY_HAVE_MISSED)
            while not await _wait_for_event(lost, LISTEN_SECONDS):
                # These statements also detect a stalled or disconnected database.
                await follow_clock(connection, self._clock)
                await connection.execute(LISTEN)
        finally:
            connection.terminate()

    async def _connect(self) -> asyncpg.Connection[Any]:
        """Returns a new connection. If the caller is cancelled meanwhile, the connection is closed."""
        connecting = asyncio.ensure_future(connect(self._url))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            with contextlib.suppress(*CUT_ERRORS, asyncpg.PostgresError):
                (await connecting).terminate()
            raise


async def _take_turn(
    connection: asyncpg.Connection[Any], migrations: int, key_guard: KeyGuard | None
) -> None:
    """Begins a transaction with the writer lock, and disconnects a paused replica that has the lock.

    Raises Unavailable if the database has other migrations than `migrations`, or a sealing key that this
    server does not have.
    """
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            await connection.execute(_BEGIN_GROUP.format(migrations, _key_check(key_guard)))
        except asyncpg.DivisionByZeroError:
            await connection.execute("ROLLBACK")
            if key_guard is None or await connection.fetchval(_APPLIED) != migrations:
                # the message for the log, without the exception by which the mismatch was detected
                raise Unavailable(OUTDATED_ADVICE) from None
            await key_guard.adopt()
        except asyncpg.LockNotAvailableError:
            if attempt == _MAX_ATTEMPTS:
                raise
            await connection.execute("ROLLBACK")
            await _end_paused_sessions(connection)
        else:
            return
    raise Unavailable(_OTHER_KEY)


def _key_check(key_guard: KeyGuard | None) -> str:
    return _PRESENT_KEY.format(*key_guard.present) if key_guard else "true"


async def _end_paused_sessions(connection: asyncpg.Connection[Any]) -> None:
    """Disconnects replicas that have the writer lock but are paused. Their changes are rolled back."""
    for row in await connection.fetch(_CUT_OFF):
        _log.warning("cut off a replica that was paused in the middle of a change", extra={"backend": row[0]})


def _commit_statement(nudges: Iterable[str]) -> str:
    """Returns statements that notify other replicas and commit, in one round trip."""
    notifications = (
        f"SELECT pg_notify('{CHANNEL}', '{word.replace(chr(39), chr(39) * 2)}');" for word in nudges
    )
    return f"{''.join(notifications)} COMMIT"


async def migrate(connection: asyncpg.Connection[Any], migrations: Sequence[Migration]) -> None:
    """Applies missing migrations, each in one transaction. Other replicas wait meanwhile."""
    await connection.execute(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
    try:
        await connection.execute(RECORDS)
        applied = {row[0]: row[1] for row in await connection.fetch(APPLIED)}
        for migration in find_missing(migrations, applied):
            async with connection.transaction():
                await connection.execute(_LOCK)
                for statement in migration.statements:
                    await connection.execute(statement)
                await connection.execute(RECORD, *migration.record)
    finally:
        if not connection.is_closed():
            await connection.execute(f"SELECT pg_advisory_unlock({MIGRATION_LOCK})")


async def _wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event. Returns whether it has occurred within the time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def _as_it_is(connection: object) -> None:
    """Skips the reset of a pooled connection. Readers change no session state, and a reset costs a second
    round trip."""
