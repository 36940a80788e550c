"""Findings about places, for `windlass doctor`: their owners, the organizations that have a place to
themselves, and the largest users of their disks."""

from __future__ import annotations

from typing import Final

from windlass.base.clock import stamp
from windlass.config import Settings
from windlass.control.records.disk_shares import read_disk
from windlass.control.records.sole_organization import sole_organizations
from windlass.core.declare.stored import NamedDocument
from windlass.engines.findings import Finding, ok, warn
from windlass.families.organization import organization
from windlass.install.engines import own_settings, provider_in_use
from windlass.store import FIRST_PLACE, OwnerRow, Reads

_GIB: Final = 1 << 30


async def check_owners(reads: Reads, server_id: str, now: int) -> list[Finding]:
    """Checks the lease of each place's owner. `server_id` is the id of this data directory's server."""
    return [_of_owner(row, server_id, now) for row in await reads.owners.all()]


async def examine_organizations(reads: Reads) -> list[Finding]:
    """Reports the places that serve only one organization."""
    findings = []
    for place, org in (await sole_organizations(reads)).items():
        row = await reads.resources.find(organization.name, org)
        if row is not None:
            name = row.read(NamedDocument).name
            served = f"serves the organization {name} ({org}) alone, until it has deleted its services there"
            findings.append(ok(f"Place {place}", served))
    return findings


async def examine_sharing(reads: Reads, settings: Settings) -> list[Finding]:
    """Warns if services of several organizations share a resource of this machine without a limit."""
    organizations = {org for org, _ in await reads.statuses.deployed()}
    if len(organizations) < 2:
        return []
    provider = await provider_in_use(settings)
    shared = await provider.shared_resource(own_settings(provider, settings))
    if shared is None:
        return []
    return [warn("Isolation", f"services of {len(organizations)} organizations {shared.what}", shared.advice)]


async def examine_disk(reads: Reads) -> list[Finding]:
    """Reports the organizations that use most of each machine's disk. Warns of organizations above their
    share."""
    findings = []
    for place in sorted({FIRST_PLACE, *(row.place for row in await reads.owners.all())}):
        record = await read_disk(reads, place)
        sizes = [f"{await _name(reads, org)} {size / _GIB:.1f} GiB" for org, size in record.largest.items()]
        state = f"organizations hold {', '.join(sizes)}, of {record.share / _GIB:.1f} GiB each"
        if record.above:
            advice = "have them delete data, or raise organization_disk_bytes: until then they build nothing"
            findings.append(warn("Disk shares", f"{place}: {state}; above it: {len(record.above)}", advice))
        elif sizes:
            findings.append(ok("Disk shares", f"{place}: {state}"))
    return findings


async def _name(reads: Reads, org: str) -> str:
    row = await reads.resources.find(organization.name, org)
    return f"{row.read(NamedDocument).name} ({org})" if row else org


def _of_owner(row: OwnerRow, server_id: str, now: int) -> Finding:
    place, lease = f"Place {row.place}", f"its lease ended at {stamp(row.until)}"
    server = "the server of this data directory" if row.owner == server_id else _server_of(row)
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
    """Returns a description of an owner: its id, and its host if that is recorded."""
    runs_images = row.takes == "image"
    owner = f"{'the servers of the Docker engine' if runs_images else 'the server'} {row.owner}"
    return f"{owner} at {row.host}" if row.host else owner
