"""Ports of this machine that services hold: each is given out once, and kept while its service wants it."""

from __future__ import annotations

from typing import NamedTuple

from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.engines.engine import EngineError
from windlass.store import Row, Tx

PORT = "port "
"""Prefix of ports in the table of names. It contains a space, which no host name does."""
API = "API "
"""Prefix of the facts that name ports of servers, before the name of the port."""
_SHARE, _LEAST = 8, 8
"""One organization may hold an eighth of all ports, or this minimum if there are few."""


class PortOwner(NamedTuple):
    org: str
    environment: str
    """The environment; empty for a cluster."""
    service: str


async def public_port(ctx: Context, service: Row) -> int:
    """Returns the port of this machine at which a public database is reached; reserves it the first time."""

    async def change(tx: Tx) -> int:
        return await take_public_port(ctx.settings, tx, PortOwner(service.org, service.parent, service.id))

    return await ctx.store.write(change)


async def take_public_port(settings: Settings, tx: Tx, owner: PortOwner, port: str = "") -> int:
    """Returns the port of the machine for a port of a service, by name, which it holds from now on. A
    database has one without a name. Raises EngineError if there is none left, for anyone, its organization
    or its environment."""
    for row in await tx.names.of(owner.service):
        if row.name.startswith(PORT) and row.port == port:
            return int(row.name.removeprefix(PORT))
    bindable = settings.bindable
    first = int(owner.service[:8], 16) % len(bindable)
    held: set[str] | None = None
    for step in range(len(bindable)):
        name = f"{PORT}{bindable[(first + step) % len(bindable)]}"
        if step and held is None:  # at once: thousands may be held
            held = await tx.names.beginning(PORT)
        if (
            name not in (held or ())
            and not await tx.facts.get(f"{API}{name}")
            and await tx.names.take(name, owner.service, port)
        ):
            if advice := await share_refusal(settings, tx, owner, name):
                raise EngineError(advice)
            return int(name.removeprefix(PORT))
    raise EngineError(
        f"Ask the operator to widen public_ports ({settings.public_ports}), or make a public port of another "
        f"service private and deploy that service: all of them are taken"
    )


async def share_refusal(settings: Settings, tx: Tx, owner: PortOwner, name: str) -> str:
    """Returns what to do if an organization or environment has no right to one port more; empty if it has.
    Look after the port was taken: two that take the last ones at the same time would both find them free."""
    every = len(settings.bindable)
    most = min(every, max(_LEAST, every // _SHARE))
    others, own = await tx.names.count_others(owner.org, owner.environment, PORT, name)
    widen = f"ask the operator to widen public_ports ({settings.public_ports})"
    if others >= most:
        return (
            f"Make a public port of another service private and deploy that service, or {widen}: an "
            f"organization may have at most {most} of them"
        )
    if _leaves_few(most - others, own):
        return (
            f"Make a public port of another service of this environment private and deploy that service, or "
            f"{widen}: an environment may have as many as are left for others of its organization, and it "
            f"has {own} of {most}"
        )
    return ""


def _leaves_few(left: int, own: int) -> bool:
    """Returns whether an environment that has `own` ports may have no more of those left to its
    organization."""
    return own > 0 and own + 1 > left


def allowed_ports(settings: Settings, number: int) -> str:
    """Returns the allowed range of ports if this port is outside it; empty otherwise."""
    if number in settings.bindable:
        return ""
    return (
        f"one of {settings.public_ports}, or leave it out to get one of these, or ask the operator to "
        f"widen public_ports: {number} is not among them"
    )
