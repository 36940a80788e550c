"""Connections to PostgreSQL with time limits: a stalled database does not report that itself.

The limits of the server are set by statements, because a pooler refuses them among the parameters of a new
connection. A pooler that shares connections between transactions is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal

import asyncpg

from windlass.base.cleanup import on_failure
from windlass.base.errors import DatabaseUnavailable
from windlass.config import BadSetting

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""Seconds for one statement, and for a free connection of the pool."""
LOOK_SECONDS = 2.0
"""Seconds for the statement that shows whether the database answers."""
_SERVER: Final = """
SET statement_timeout = '30s'; SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '5s'"""
_CLIENT_GONE: Final = "SET client_connection_check_interval = '1s'"
"""Ends the statement of a connection that was cut, such as that of figures which took too long."""
_LOOKS_FOR_CLIENTS: Final = (14,)
"""The version of PostgreSQL that can do so."""
# Failures of the server or of the network, and not of one change.
AWAY: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # no connections are let in, or a lock could not be had
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
    TimeoutError,
)
# Failures of a lost connection; internal errors, too, if it was lost while it was idle.
CUT: Final = (*AWAY, asyncpg.InterfaceError, asyncpg.InternalClientError)
_LOST_STATEMENTS: Final = (
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
)
_ROUNDS: Final = 3
_UNCHANGED: Final = "nothing was changed. Try again shortly."
_POOLED: Final = (
    "database_url: name the PostgreSQL server itself, or a pooler that keeps a connection for each client "
    "(pool_mode = session in pgbouncer): this pooler shares connections between transactions, which loses "
    "locks, notifications and prepared statements"
)


async def connect(url: str) -> asyncpg.Connection[Any]:
    """Connects in bounded time; each statement of the connection has a time limit."""
    connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS, command_timeout=ANSWER_SECONDS)
    await limit(connection)
    return connection


async def limit(connection: asyncpg.Connection[Any]) -> None:
    """Sets the limits of the server, for a client that is silent or gone."""
    if connection.get_server_version() >= _LOOKS_FOR_CLIENTS:
        # Refused where the operating system of the server does not support it.
        with suppress(asyncpg.InvalidParameterValueError):
            await connection.execute(f"{_SERVER}; {_CLIENT_GONE}")
            return
    await connection.execute(_SERVER)


async def first_connection(url: str) -> asyncpg.Connection[Any]:
    """Connects without statement timeouts; refuses a database or pooler that can never work."""
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS)
        with on_failure(connection.terminate):
            await _refuse_shared(url, connection)
    except ValueError:
        # The reason is not repeated: what could not be read may be a piece of the password.
        raise BadSetting("database_url: must be like postgresql://user:password@host:5432/name") from None
    except _LOST_STATEMENTS as error:
        raise BadSetting(_POOLED) from error
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise BadSetting(f"database_url: choose a user and a database that are there: {error}") from error
    except TimeoutError as error:
        raise DatabaseUnavailable("The database cannot be reached: it does not answer") from error
    except (*CUT, asyncpg.PostgresError) as error:
        raise DatabaseUnavailable(f"The database cannot be reached: {error}") from error
    return connection


async def _refuse_shared(url: str, connection: asyncpg.Connection[Any]) -> None:
    """Raises BadSetting if transactions of one connection run on several connections of the server.

    A pooler reports its own process number. While a second client holds a transaction, a shared connection
    is either the one that it holds, or is replaced by another."""
    if connection.get_server_pid() == await _process(connection):
        return
    other = await asyncpg.connect(url, timeout=CONNECT_SECONDS, command_timeout=CONNECT_SECONDS)
    try:
        for _ in range(_ROUNDS):
            before = await _process(connection)
            async with other.transaction():
                if await _process(other) == before or await _process(connection) != before:
                    raise BadSetting(_POOLED)
    except asyncpg.ConnectionDoesNotExistError as error:  # where each statement is shared
        raise BadSetting(_POOLED) from error
    finally:
        other.terminate()


async def _process(connection: asyncpg.Connection[Any]) -> int:
    """Returns the process id of the PostgreSQL backend that serves a connection now."""
    number: int = await connection.fetchval("SELECT pg_backend_pid()", timeout=CONNECT_SECONDS)
    return number


class PooledSession:
    """Reads outside a transaction, each on a connection of the pool: a lost connection and a stalled database
    are the caller's `Unavailable`. A request reads before it changes anything, so it has changed nothing."""

    def __init__(self, pool: asyncpg.Pool[Any]) -> None:
        self._pool = pool

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None:
        row: Sequence[Any] | None = await self._query("fetchrow", statement, values)
        return row

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = await self._query("fetch", statement, values)
        return rows

    async def _query(
        self, method: Literal["fetch", "fetchrow"], statement: str, values: Sequence[Any]
    ) -> Any:
        try:
            connection = await self._free_connection()
            try:
                return await getattr(connection, method)(statement, *values, timeout=ANSWER_SECONDS)
            except (TimeoutError, asyncio.CancelledError):
                connection.terminate()  # asyncpg would wait for a stalled server to cancel the statement
                raise
            finally:
                await self._pool.release(connection)
        except TimeoutError as error:
            raise DatabaseUnavailable(f"The database does not answer; {_UNCHANGED}") from error
        except CUT as error:
            raise DatabaseUnavailable(f"The database cannot be reached; {_UNCHANGED}") from error

    async def _free_connection(self) -> Any:
        if self._pool.get_idle_size():
            return (
                await self._pool.acquire()
            )  # without the cost of a time limit: there is nothing to wait for
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._pool.acquire()

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        raise TypeError("changes are not made outside a transaction")
