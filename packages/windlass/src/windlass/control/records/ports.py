"""Ports of this machine that services hold: each is given out once, and kept while its service wants it."""

from __future__ import annotations

from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.engines.engine import EngineError
from windlass.store import Row, Tx

PORT = "port "
"""Prefix of ports in the table of names. Host names contain no blanks."""
API = "API "
"""Prefix of the facts that name ports of servers, before the name of the port."""
_SHARE, _LEAST = 8, 8
"""The part of all ports that one organization may hold, and how many it may hold where there are few."""


async def public_port(ctx: Context, service: Row) -> int:
    """Returns the port of this machine at which a public database is reached; reserves it the first time."""

    async def change(tx: Tx) -> int:
        return await take_public_port(ctx.settings, tx, service.org, service.id)

    return await ctx.store.write(change)


async def take_public_port(settings: Settings, tx: Tx, org: str, service: str, port: str = "") -> int:
    """Returns the port of the machine for a port of a service, by name, which it holds from now on. A
    database has one without a name. Raises EngineError if there is none left, for anyone or for its
    organization."""
    for row in await tx.names.of(service):
        if row.name.startswith(PORT) and row.port == port:
            return int(row.name.removeprefix(PORT))
    bindable = settings.bindable
    first = int(service[:8], 16) % len(bindable)
    held: set[str] | None = None
    for step in range(len(bindable)):
        name = f"{PORT}{bindable[(first + step) % len(bindable)]}"
        if step and held is None:  # at once: thousands may be held
            held = await tx.names.beginning(PORT)
        if (
            name not in (held or ())
            and not await tx.facts.get(f"{API}{name}")
            and await tx.names.take(name, service, port)
        ):
            if advice := await beyond_share(settings, tx, org, name):
                raise EngineError(advice)
            return int(name.removeprefix(PORT))
    raise EngineError(
        f"Ask the operator to widen public_ports ({settings.public_ports}), or make a public port of another "
        f"service private and deploy that service: all of them are taken"
    )


async def beyond_share(settings: Settings, tx: Tx, org: str, name: str) -> str:
    """Returns what to do if an organization has no right to one port more; empty if it has. Look after the
    port was taken: two that take the last ones at the same time would both find them free."""
    every = len(settings.bindable)
    most = min(every, max(_LEAST, every // _SHARE))
    if await tx.names.count_others(org, PORT, name) < most:
        return ""
    return (
        "Make a public port of another service private and deploy that service, or ask the operator to "
        f"widen public_ports ({settings.public_ports}): an organization may have at most {most} of them"
    )


def outside(settings: Settings, number: int) -> str:
    """Returns which ports to choose from, if this is none that services may have; empty if it is."""
    if number in settings.bindable:
        return ""
    return (
        f"one of {settings.public_ports}, or leave it out to get one of these, or ask the operator to "
        f"widen public_ports: {number} is not among them"
    )
