"""The organization that a place serves where its services share a network, a user of the kernel or memory:
the first one with something built, started or stored there.

In a shared network, a program can take the port of another one, and with it requests, passwords and tokens.
Of a shared user, it can use up what the kernel counts for the user; without control groups, the memory of the
machine. Within one organization that is a matter of trust; between two it is not.
"""

from __future__ import annotations

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.records.stored_clusters import place_of
from windlass.families.cluster import Cluster, cluster
from windlass.store import Reads, Row, Tx

_FACT = "sole organization of "
_ANY = b"any"


async def note_sharing(ctx: Context) -> None:
    """Records whether the place of this server may serve several organizations."""
    place, reason = ctx.ownership.place, await ctx.places.local.engine.why_one_organization()
    is_open = not reason or ctx.settings.share_machine
    fact = f"{_FACT}{place}"
    known = await ctx.store.reads.facts.get(fact)
    if is_open == (known in {None, _ANY}):
        return

    async def change(tx: Tx) -> None:
        first = next((org for at, org in await _deployed(tx) if at == place and not is_open), "")
        await tx.facts.set(fact, _ANY if is_open else first.encode())

    await ctx.store.write(change)


async def check_sole_organization(tx: Tx, on: Row, org: str) -> None:
    """Refuses a deployment on a cluster whose place serves another organization alone."""
    place = place_of(on.read(Cluster))
    if not place:
        return
    fact = f"{_FACT}{place}"
    if await tx.facts.get(fact) in {None, _ANY, org.encode()}:
        return
    if place in await sole_organizations(tx):
        raise Conflict(
            "Use a cluster with another engine, or have the organization that has services here delete them, "
            "or have the operator follow `windlass doctor`, or set WINDLASS_SHARE_MACHINE=1 if the "
            "organizations here trust each other: services of this machine share a network, a user or "
            "memory, so that one can take the ports of another or stop it, and only one organization may "
            "deploy"
        )
    await tx.facts.set(fact, org.encode())


async def sole_organizations(source: Reads) -> dict[str, str]:
    """Returns the organizations that are the only ones of their places, keyed by place. Organizations that
    have nothing there any more are omitted."""
    deployed = await _deployed(source)
    return {
        place: org for place, org in deployed if await source.facts.get(f"{_FACT}{place}") == org.encode()
    }


async def _deployed(source: Reads) -> list[tuple[str, str]]:
    """Returns places with organizations that have something there, or are deploying there: those whose
    services run first, and of these the oldest first."""
    found: list[tuple[str, str]] = []
    for org, at in await source.statuses.deployed():
        row = await source.resources.find(cluster.name, at)
        if row is not None:
            found.append((place_of(row.read(Cluster)), org))
    return found
