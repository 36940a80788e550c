"""PostgreSQL, for several replicas. The same statements, the same order: one writer at a time.

Each replica commits what is waiting as one group; an advisory lock takes the groups of all replicas one
after the other. So a change sees everything before it and events have no gaps, as on SQLite.
A replica that is paused while it holds the lock is cut off by the server after a few seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from windlass.base.clock import Clock
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.store.migrate import Migration, migrations
from windlass.store.store import Reads, Taken, Tx, Write

T = TypeVar("T")

CHANNEL = "windlass"
GROUP = 128
# Any two numbers, as long as they stay the same.
_WRITER, _MIGRATION = 7_146_115_201, 7_146_115_202
_PATIENCE = {"idle_in_transaction_session_timeout": "5s", "lock_timeout": "20s", "statement_timeout": "30s"}
_AWAY = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError, asyncio.TimeoutError)

_log = log("store")


class PostgresSession:
    """A connection, or a pool of them."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        try:
            found: Sequence[Any] | None = await self._connection.fetchrow(statement, *values)
        except asyncpg.UniqueViolationError as error:
            raise Taken(str(error)) from error
        return found

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        try:
            found: Sequence[Sequence[Any]] = await self._connection.fetch(statement, *values)
        except asyncpg.UniqueViolationError as error:
            raise Taken(str(error)) from error
        return found

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        await self._connection.executemany(statement, rows)


class PatientSession(PostgresSession):
    """Reads outside a transaction: a lost connection is the caller's `Unavailable`, not a crash."""

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        try:
            return await super().one(statement, *values)
        except _AWAY as error:
            raise _unavailable() from error

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        try:
            return await super().all(statement, *values)
        except _AWAY as error:
            raise _unavailable() from error


class PostgresStore:
    """`PostgresStore.open(url, clock)` makes one."""

    def __init__(self, url: str, pool: asyncpg.Pool[Any], clock: Clock) -> None:
        self._url = url
        self._pool = pool
        self._clock = clock
        self.reads = Reads(PatientSession(pool))
        self._waiting: deque[tuple[Write[Any], asyncio.Future[Any]]] = deque()
        self._draining: asyncio.Task[None] | None = None
        self._writer: asyncpg.Connection[Any] | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._ear = asyncio.create_task(self._hear())
        self._lost = asyncio.Event()

    @classmethod
    async def open(cls, url: str, clock: Clock) -> PostgresStore:
        connection = await asyncpg.connect(url)
        try:
            await migrate(connection, migrations())
        finally:
            await connection.close()
        pool = await asyncpg.create_pool(url, min_size=1, max_size=8, server_settings=dict(_PATIENCE))
        return cls(url, pool, clock)

    def listen(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    async def write(self, change: Write[T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, future))
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain())
        return await future

    async def close(self) -> None:
        if self._draining:
            await self._draining
        self._ear.cancel()
        await asyncio.gather(self._ear, return_exceptions=True)
        if self._writer:
            await self._writer.close()
        await self._pool.close()

    async def _drain(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
            group = [one for one in group if not one[1].cancelled()]
            try:
                outcomes = await self._commit([change for change, _ in group])
            except (*_AWAY, asyncpg.PostgresError) as error:
                _log.error("a group of writes could not be committed", extra={"error": str(error)})
                await self._drop_writer()
                outcomes = [(None, _unavailable(error)) for _ in group]
            for (_, future), (answer, failure) in zip(group, outcomes, strict=True):
                _resolve(future, answer, failure)

    async def _commit(self, changes: Sequence[Write[Any]]) -> list[tuple[Any, BaseException | None]]:
        connection = await self._writing()
        session = PostgresSession(connection)
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_WRITER})")
            outcomes: list[tuple[Any, BaseException | None]] = []
            events: list[tuple[Any, ...]] = []
            nudges: set[str] = set()
            for change in changes:
                tx = Tx(session, self._clock.now())
                answer, failure = await self._run(connection, change, tx)
                outcomes.append((answer, failure))
                if failure is None:
                    events += tx.emitted
                    nudges |= set(tx.nudges)
            await Tx(session, self._clock.now()).number_events(events)
            for word in nudges:
                await connection.execute(f"SELECT pg_notify('{CHANNEL}', $1)", word)
        return outcomes

    async def _run(
        self, connection: asyncpg.Connection[Any], change: Write[T], tx: Tx
    ) -> tuple[T | None, BaseException | None]:
        try:
            async with connection.transaction():
                return await change(tx), None
        except _AWAY:
            raise
        except Exception as failure:  # noqa: BLE001 (whatever it is, it is the answer to whoever asked)
            return None, failure

    async def _writing(self) -> asyncpg.Connection[Any]:
        if self._writer is None or self._writer.is_closed():
            self._writer = await asyncpg.connect(self._url, server_settings=dict(_PATIENCE))
        return self._writer

    async def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.terminate()

    async def _hear(self) -> None:
        """Listens for nudges; a lost connection is made anew, and what was missed costs only time."""
        while True:
            try:
                connection = await asyncpg.connect(self._url)
                lost = asyncio.Event()
                connection.add_termination_listener(lambda *_: lost.set())  # noqa: B023
                await connection.add_listener(CHANNEL, lambda *heard: self._tell(str(heard[-1])))
                self._tell("work")
                try:
                    await lost.wait()
                finally:
                    await connection.close()
            except (*_AWAY, asyncpg.PostgresError) as error:
                _log.warning("not listening to the database", extra={"error": str(error)})
            await asyncio.sleep(1)

    def _tell(self, word: str) -> None:
        for listener in self._listeners:
            listener(word)


async def migrate(connection: asyncpg.Connection[Any], wanted: Sequence[Migration]) -> None:
    """One replica migrates, the others wait; each migration is one transaction, its record included."""
    await connection.execute(f"SELECT pg_advisory_lock({_MIGRATION})")
    try:
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)"
        )
        for migration in wanted:
            async with connection.transaction():
                done = await connection.fetchval(
                    "SELECT checksum FROM migration WHERE number = $1", migration.number
                )
                if not migration.is_done(done):
                    for statement in migration.statements:
                        await connection.execute(statement)
                    await connection.execute("INSERT INTO migration VALUES ($1, $2, $3)", *migration.record)
    finally:
        await connection.execute(f"SELECT pg_advisory_unlock({_MIGRATION})")


def _unavailable(cause: BaseException | None = None) -> Unavailable:
    refusal = Unavailable("The database cannot be reached; nothing was changed. Try again shortly.")
    refusal.__cause__ = cause
    return refusal


def _resolve(future: asyncio.Future[Any], answer: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(answer)
    else:
        future.set_exception(failure)
