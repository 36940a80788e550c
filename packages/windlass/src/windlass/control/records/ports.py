"""Reserves ports of this machine for services. A port belongs to one service until the service no longer uses
it."""

from __future__ import annotations

from typing import NamedTuple

from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.core.words.naming import with_article
from windlass.engines.engine import EngineError
from windlass.store import Row, Tx

PORT_PREFIX = "port "
"""The prefix of ports in the table of names. Host names contain no blanks."""
API_PREFIX = "API "
"""The prefix of facts that reserve API ports of servers, followed by the name of the port."""
_ORG_SHARE_DIVISOR, _MIN_PORTS = 8, 8
"""The largest share of all ports for one organization (an eighth), and its minimum in ports."""


class PortOwner(NamedTuple):
    org: str
    environment: str
    """The environment; empty for a cluster."""
    service: str


async def public_port(ctx: Context, service: Row) -> int:
    """Returns the external port of a public database, and reserves one if it has none."""

    async def change(tx: Tx) -> int:
        return await take_public_port(ctx.settings, tx, PortOwner(service.org, service.parent, service.id))

    return await ctx.store.write(change)


async def take_public_port(settings: Settings, tx: Tx, owner: PortOwner, port: str = "") -> int:
    """Reserves an external port for a named port of a service, and returns its number. A database has one
    port without a name. Raises EngineError if no port is free, or the organization or environment has too
    many."""
    for row in await tx.names.of(owner.service):
        if row.name.startswith(PORT_PREFIX) and row.port == port:
            return int(row.name.removeprefix(PORT_PREFIX))
    bindable = settings.bindable
    first = int(owner.service[:8], 16) % len(bindable)
    held: set[str] | None = None
    for step in range(len(bindable)):
        name = f"{PORT_PREFIX}{bindable[(first + step) % len(bindable)]}"
        if step and held is None:  # one query instead of one for each port, because thousands may be reserved
            held = await tx.names.beginning(PORT_PREFIX)
        if (
            name not in (held or ())
            and not await tx.facts.get(f"{API_PREFIX}{name}")
            and await tx.names.reserve(name, owner.service, port)
        ):
            if advice := await share_refusal(settings, tx, owner, name):
                raise EngineError(advice)
            return int(name.removeprefix(PORT_PREFIX))
    raise EngineError(
        f"Ask the operator to widen public_ports ({settings.public_ports}), or make a public port of another "
        f"service private and deploy that service: all of them are taken"
    )


async def share_refusal(settings: Settings, tx: Tx, owner: PortOwner, name: str) -> str:
    """Returns the remedy if an organization or environment exceeds its share of ports; empty otherwise.
    Must be called after the port was reserved, because concurrent transactions could both find the last
    port free."""
    every = len(settings.bindable)
    most = min(every, max(_MIN_PORTS, every // _ORG_SHARE_DIVISOR))
    held = await tx.names.count_others(owner.org, owner.environment, PORT_PREFIX, name)
    widen = f"ask the operator to widen public_ports ({settings.public_ports})"
    if held.organization >= most:
        return (
            f"Make a public port of another service private and deploy that service, or {widen}: an "
            f"organization may have at most {most} of them"
        )
    # A project counts, too: with a token for it, any number of environments can be created.
    for place, own in (("environment", held.environment), ("project", held.project)):
        if owner.environment and _leaves_few(most - held.organization, own):
            return (
                f"Make a public port of another service of this {place} private and deploy that service, or "
                f"{widen}: {with_article(place)} may have as many as are left for others of its "
                f"organization, and it has {own} of {most}"
            )
    return ""


def _leaves_few(remaining_ports: int, port_count: int) -> bool:
    """Returns whether another port for an environment or a project with `port_count` ports would leave too
    few ports to the others of the organization."""
    return port_count > 0 and port_count + 1 > remaining_ports


def allowed_ports(settings: Settings, number: int) -> str:
    """Returns the allowed ports if services may not use this port; empty if they may."""
    if number in settings.bindable:
        return ""
    return (
        f"one of {settings.public_ports}, or leave it out to get one of these, or ask the operator to "
        f"widen public_ports: {number} is not among them"
    )
