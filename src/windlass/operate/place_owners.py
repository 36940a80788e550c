"""Findings about places: whether the server that each belongs to runs, by the lease that it renews, and the
organization that it serves alone."""

from __future__ import annotations

from windlass.base.clock import stamp
from windlass.control.records.sole_organization import sole_organization
from windlass.core.declare.stored import NamedDocument
from windlass.families.organization import organization
from windlass.operate.findings import Finding, ok, warn
from windlass.store import OwnerRow, Reads


async def examine_owners(reads: Reads, own: str, now: int) -> list[Finding]:
    """Checks each place. `own` is the id of the server of this data directory."""
    findings = []
    for row in await reads.owners.all():
        findings.append(_of_owner(row, own, now))
        findings += await _of_organization(reads, row.place)
    return findings


async def _of_organization(reads: Reads, place: str) -> list[Finding]:
    """Names the organization that a place serves alone."""
    org = await reads.resources.find(organization.name, await sole_organization(reads, place))
    if org is None:
        return []
    name = org.read(NamedDocument).name
    served = f"serves the organization {name} ({org.id}) alone, until it has deleted its services there"
    return [ok(f"Place {place}", served)]


def _of_owner(row: OwnerRow, own: str, now: int) -> Finding:
    place, lease = f"Place {row.place}", f"its lease ended at {stamp(row.until)}"
    server = "the server of this data directory" if row.owner == own else _server_of(row)
    if row.is_lost:
        advice = "start that server; if it is gone for good, see `windlass serve --adopt`"
        return warn(place, f"belongs to {server}, which does not answer: {lease}", advice)
    if row.until <= now:
        return ok(place, f"belongs to {server}, which does not run, or has another time: {lease}")
    if row.former:
        advice = "start the former server once: it ends what still runs there"
        return warn(
            place, f"belongs to {server}, and was taken from {', '.join(sorted(row.formers))}", advice
        )
    return ok(place, f"belongs to {server}, with a lease until {stamp(row.until)}")


def _server_of(row: OwnerRow) -> str:
    """Names the owner by its id, and by the host where it is reached."""
    runs_images = row.takes == "image"
    owner = f"{'the servers of the Docker engine' if runs_images else 'the server'} {row.owner}"
    return f"{owner} at {row.host}" if row.host else owner
