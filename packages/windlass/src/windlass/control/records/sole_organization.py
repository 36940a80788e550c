"""Restricts a place to one organization if its services share a network, an OS user or memory.

The first organization that builds, starts or stores something at such a place gets it. In a shared network, a
program can bind the port of another program and receive its requests, passwords and tokens. With a shared
user, a program can exhaust the user's kernel limits, and without control groups the machine's memory.
Services of one organization trust each other, services of several organizations do not.
"""

from __future__ import annotations

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.records.stored_clusters import place_of
from windlass.families.cluster import Cluster, cluster
from windlass.store import Reads, Row, Tx

_FACT_PREFIX = "sole organization of "
_ANY_ORGANIZATION = b"any"


async def note_sharing(ctx: Context) -> None:
    """Records whether the place of this server may serve several organizations."""
    place, reason = ctx.ownership.place, await ctx.places.local.engine.why_one_organization()
    is_open = not reason or ctx.settings.share_machine
    fact = f"{_FACT_PREFIX}{place}"
    known = await ctx.store.reads.facts.get(fact)
    if is_open == (known in {None, _ANY_ORGANIZATION}):
        return

    async def change(tx: Tx) -> None:
        first = next((org for at, org in await _deployed(tx) if at == place and not is_open), "")
        await tx.facts.set(fact, _ANY_ORGANIZATION if is_open else first.encode())

    await ctx.store.write(change)


async def check_sole_organization(tx: Tx, on: Row, org: str) -> None:
    """Raises Conflict if the cluster's place is restricted to another organization."""
    place = place_of(on.read(Cluster))
    if not place:
        return
    fact = f"{_FACT_PREFIX}{place}"
    if await tx.facts.get(fact) in {None, _ANY_ORGANIZATION, org.encode()}:
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


async def sole_organizations(reads: Reads) -> dict[str, str]:
    """Returns the organizations to which places are restricted, by place. A restriction ends when its
    organization has nothing at the place any more."""
    deployed = await _deployed(reads)
    return {
        place: org
        for place, org in deployed
        if await reads.facts.get(f"{_FACT_PREFIX}{place}") == org.encode()
    }


async def _deployed(reads: Reads) -> list[tuple[str, str]]:
    """Returns places with organizations that have deployments or open deployments there. Organizations with
    running services come first, and older ones before newer ones."""
    found: list[tuple[str, str]] = []
    for org, at in await reads.statuses.deployed():
        row = await reads.resources.find(cluster.name, at)
        if row is not None:
            found.append((place_of(row.read(Cluster)), org))
    return found
