"""Connections to PostgreSQL with time limits, because a stalled database reports no error.

The limits are set by statements, because poolers refuse them as connection parameters. Poolers that share
connections between transactions are refused.
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
"""Seconds for one statement, and for waiting for a free connection of the pool."""
LOOK_SECONDS = 2.0
"""Seconds for the statement that checks whether the database responds."""
_SERVER_SETTINGS: Final = """
SET statement_timeout = '30s'; SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '5s'"""
_CLIENT_GONE: Final = "SET client_connection_check_interval = '1s'"
"""Setting that makes the server cancel a statement whose client has disconnected, for example after a
timeout."""
_LOOKS_FOR_CLIENTS: Final = (14,)
"""The first PostgreSQL version with this setting."""
# Errors of the server or the network, which are not the fault of one change.
AWAY_ERRORS: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # no connections are accepted, or a lock timed out
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
    TimeoutError,
)
# Errors of a lost connection, including internal errors of asyncpg if the connection was lost while idle.
CUT_ERRORS: Final = (*AWAY_ERRORS, asyncpg.InterfaceError, asyncpg.InternalClientError)
LOST_CONNECTION_ERRORS: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionError,
)
"""Errors of a connection that the server has closed."""
_LOST_STATEMENTS: Final = (
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
)
_MAX_ROUNDS: Final = 3
_UNCHANGED: Final = "nothing was changed. Try again shortly."
_POOLED: Final = (
    "database_url: name the PostgreSQL server itself, or a pooler that keeps a connection for each client "
    "(pool_mode = session in pgbouncer): this pooler shares connections between transactions, which loses "
    "locks, notifications and prepared statements"
)


async def connect(url: str) -> asyncpg.Connection[Any]:
    """Returns a new connection within a time limit. Its statements have time limits."""
    connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS, command_timeout=ANSWER_SECONDS)
    await limit(connection)
    return connection


async def limit(connection: asyncpg.Connection[Any]) -> None:
    """Sets the server's time limits for a client that is silent or gone."""
    if connection.get_server_version() >= _LOOKS_FOR_CLIENTS:
        # The setting is refused if the server's operating system does not support it.
        with suppress(asyncpg.InvalidParameterValueError):
            await connection.execute(f"{_SERVER_SETTINGS}; {_CLIENT_GONE}")
            return
    await connection.execute(_SERVER_SETTINGS)


async def first_connection(url: str) -> asyncpg.Connection[Any]:
    """Returns a new connection without time limits for statements. Raises BadSetting for unusable
    settings."""
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS)
        with on_failure(connection.terminate):
            await _refuse_shared(url, connection)
    except ValueError:
        # The original message is omitted, because it may contain a piece of the password.
        raise BadSetting("database_url: must be like postgresql://user:password@host:5432/name") from None
    except _LOST_STATEMENTS as error:
        raise BadSetting(_POOLED) from error
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise BadSetting(f"database_url: choose a user and a database that are there: {error}") from error
    except TimeoutError as error:
        raise DatabaseUnavailable("The database cannot be reached: it does not answer") from error
    except (*CUT_ERRORS, asyncpg.PostgresError) as error:
        raise DatabaseUnavailable(f"The database cannot be reached: {error}") from error
    return connection


async def _refuse_shared(url: str, connection: asyncpg.Connection[Any]) -> None:
    """Raises BadSetting if a pooler distributes the transactions of one connection over several server
    connections.

    A pooler reports a process id of its own. To detect sharing, a second client opens a transaction: a shared
    server connection then serves both clients, or changes.
    """
    if connection.get_server_pid() == await _process(connection):
        return
    other = await asyncpg.connect(url, timeout=CONNECT_SECONDS, command_timeout=CONNECT_SECONDS)
    try:
        for _ in range(_MAX_ROUNDS):
            before = await _process(connection)
            async with other.transaction():
                if await _process(other) == before or await _process(connection) != before:
                    raise BadSetting(_POOLED)
    except asyncpg.ConnectionDoesNotExistError as error:  # a pooler that shares statements
        raise BadSetting(_POOLED) from error
    finally:
        other.terminate()


async def _process(connection: asyncpg.Connection[Any]) -> int:
    """Returns the id of the server process that serves a connection now."""
    number: int = await connection.fetchval("SELECT pg_backend_pid()", timeout=CONNECT_SECONDS)
    return number


class PooledSession:
    """Reads outside a transaction, each on a connection from the pool.

    A lost connection or a stalled database raises `DatabaseUnavailable`. Requests read before they change
    anything, so a failed read means that nothing was changed.
    """

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
        except CUT_ERRORS as error:
            raise DatabaseUnavailable(f"The database cannot be reached; {_UNCHANGED}") from error

    async def _free_connection(self) -> Any:
        if self._pool.get_idle_size():
            return await self._pool.acquire()  # no time limit is needed for an idle connection
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._pool.acquire()

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        raise TypeError("changes are not made outside a transaction")
