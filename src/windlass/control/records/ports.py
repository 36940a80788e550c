"""Ports of this machine that are given out once, and kept for as long as their owner is there."""

from __future__ import annotations

from windlass.control.context.context import Context
from windlass.engines.engine import EngineError
from windlass.store import Row, Tx

PUBLIC = range(15_000, 20_000)
"""Ports of this machine for public databases: all of one type listen on the same port inside, so each gets
another one outside."""
PORT = "port "
"""Prefix of ports in the table of names. Host names contain no blanks."""


async def public_port(ctx: Context, service: Row) -> int:
    """Returns the port of this machine at which a public database is reached; reserves it the first time."""

    async def change(tx: Tx) -> int:
        return await take_public_port(tx, service.id)

    return await ctx.store.write(change)


async def take_public_port(tx: Tx, service: str) -> int:
    """Returns the public port of a database, which it holds until it is deleted."""
    first = int(service[:8], 16) % len(PUBLIC)
    for row in await tx.names.of(service):
        if row.name.startswith(PORT) and not row.port:
            return int(row.name.removeprefix(PORT))
    for step in range(len(PUBLIC)):
        port = PUBLIC[(first + step) % len(PUBLIC)]
        if await tx.names.take(f"{PORT}{port}", service):
            return port
    raise EngineError("Make another database private first: all ports for public databases are taken")
