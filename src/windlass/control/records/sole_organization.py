"""The organization that a place serves where its services share a network or a user of the kernel: the first
that has something built, started or kept there.

In a shared network, a program can take the port of another one, and with it requests, passwords and tokens.
Of a shared user, it can use up what the kernel counts for the user. Within one organization that is a matter
of trust; between two it is not.
"""

from __future__ import annotations

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.records.stored_clusters import place_of, spec_of
from windlass.families.cluster import cluster
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
        first = "" if is_open else next(iter(await _deployed_at(tx, place)), "")
        await tx.facts.set(fact, _ANY if is_open else first.encode())

    await ctx.store.write(change)


async def admit(tx: Tx, on: Row, org: str) -> None:
    """Refuses a deployment on a cluster whose place serves another organization alone."""
    place = place_of(spec_of(on))
    if not place:
        return
    fact = f"{_FACT}{place}"
    if await tx.facts.get(fact) in {None, _ANY, org.encode()}:
        return
    if await sole_organization(tx, place):
        raise Conflict(
            "Use a cluster with another engine, or have the organization that has services here delete them, "
            "or have the operator follow `windlass doctor`, or set WINDLASS_SHARE_MACHINE=1 if the "
            "organizations here trust each other: services of this machine share a network or a user, so "
            "that one can take the ports of another or stop it, and only one organization may deploy"
        )
    await tx.facts.set(fact, org.encode())


async def sole_organization(source: Reads, place: str) -> str:
    """Returns the organization that a place serves alone; empty if it serves several, or none yet. One that
    has nothing there any more makes room."""
    org = (await source.facts.get(f"{_FACT}{place}") or _ANY).decode()
    return org if org in await _deployed_at(source, place) else ""


async def _deployed_at(source: Reads, place: str) -> list[str]:
    """Returns the organizations with services that have something at a place, or are being deployed there:
    those whose services run first, and of these the oldest first."""
    found: list[str] = []
    for org, at in await source.statuses.deployed():
        row = await source.resources.find(cluster.name, at)
        if row is not None and place_of(spec_of(row)) == place:
            found.append(org)
    return found
