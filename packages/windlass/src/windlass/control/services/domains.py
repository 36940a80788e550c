"""Domains of services: what follows from their changes, and the answers about their records."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from windlass.base.errors import Conflict
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.domains import (
    DOMAIN_PREFIX,
    DOMAIN_WORK,
    UPLOADED_ORIGIN,
    StoredDomain,
    proof_fields,
    refuse_own_name,
    release,
)
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.paths import target
from windlass.control.request.reading import in_dialect
from windlass.control.services.domain_records import look_at, verdict_of
from windlass.core.words.domains import ascii_name
from windlass.families.domain import CheckedCustomDomainResponse, CustomDomain, domain
from windlass.store import Row, Tx, route_topic

CHECK_TIMEOUT: Final = 30.0
"""Time limit for a check of all domains of a service."""
_NOT_LOOKED_AT: Final = (
    "Check it alone: the name servers of the domains take too long to answer for all of them"
)
MAX_DOMAINS: Final = 100
"""Maximum number of domains of one service."""


@behaves(domain)
class Domains(Behaviour[CustomDomain]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[CustomDomain]) -> None:
        service, spec = draft.above, draft.spec
        if len(await tx.resources.of_parent(service.id, domain.name)) >= MAX_DOMAINS:
            raise Conflict(f"Delete a domain of this service first: it has {MAX_DOMAINS}, which is the most")
        name = await _accept_name(ctx, tx, draft.id, service, spec)
        await _accept_target(tx, draft.id, service, spec)
        draft.give(**proof_fields(ctx, service.id, name), **_first_state(spec))

    async def created(self, ctx: Context, tx: Tx, draft: Draft[CustomDomain]) -> None:
        await tx.work.schedule(DOMAIN_WORK, draft.id, org=draft.org)

    async def updating(self, ctx: Context, tx: Tx, change: Change[CustomDomain]) -> None:
        row, spec = change.row, change.spec
        service = await tx.resources.get(row.parent)
        assert service is not None
        name = await _accept_name(ctx, tx, row.id, service, spec)
        is_renamed = name != row.read(StoredDomain).name
        if is_renamed or spec.redirect_to != change.before.redirect_to:
            await _accept_target(tx, row.id, service, spec)
            tx.nudge(route_topic(service.id))
        if is_renamed:
            await release(tx, row)
            change.extras |= proof_fields(ctx, service.id, name) | {
                "state": "UNPROVED",
                "proved_at": msgspec.UNSET,
                "proof_lost_at": msgspec.UNSET,
            }
        is_switched = spec.generate_certificate != change.before.generate_certificate
        if is_renamed or (is_switched and not await _has_upload(tx, row)):
            await tx.certificates.delete_of(row.id)
            change.extras |= {
                "certificate_expires_at": msgspec.UNSET,
                "certificate_origin": "",
                **_first_state(spec),
            }

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        await tx.work.schedule(DOMAIN_WORK, row.id, org=row.org)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await release(tx, row)


async def _accept_name(ctx: Context, tx: Tx, id: str, service: Row, spec: CustomDomain) -> str:
    """Returns the domain in ASCII form, unless Windlass or another service serves it."""
    name = ascii_name(spec.domain)
    refuse_own_name(ctx, name)
    for sibling in await tx.resources.of_parent(service.id, domain.name):
        if sibling.id != id and sibling.read(StoredDomain).name == name:
            raise Conflict(f"domain: leave this one out: the service has {name} already")
    held = await tx.names.holder(f"{DOMAIN_PREFIX}{name}")
    if held and held.port != id:
        holder = await tx.resources.find(domain.name, held.port)
        is_by_record = ctx.settings.domain_proof != "address"  # an address gives way to a record
        if holder and is_by_record and not holder.read(StoredDomain).lost:
            raise Conflict(
                f"domain: choose another name, or remove the records that lead {name} to where it is served "
                "now: a service of this installation serves it"
            )
    return name


async def _accept_target(tx: Tx, id: str, service: Row, spec: CustomDomain) -> None:
    """Refuses redirects to names that the service does not have, and those of two steps or in a circle."""
    if not spec.redirect_to:
        return
    target, own = ascii_name(spec.redirect_to), ascii_name(spec.domain)
    siblings = {
        row.id: row.read(StoredDomain) for row in await tx.resources.of_parent(service.id, domain.name)
    }
    siblings.pop(id, None)
    found = next((sibling for sibling in siblings.values() if sibling.name == target), None)
    if found is None:
        raise Conflict(f"redirect_to: add {target} to this service first: it is no domain of it")
    if found.redirect_to:
        raise Conflict(f"redirect_to: choose {found.target}: {target} redirects its visitors there itself")
    if other := next((sibling for sibling in siblings.values() if sibling.target == own), None):
        raise Conflict(f"redirect_to: change that of {other.name} first: it redirects its visitors to {own}")


async def _has_upload(tx: Tx, row: Row) -> bool:
    certificate = await tx.certificates.get(row.id)
    return certificate is not None and certificate.origin == UPLOADED_ORIGIN


def _first_state(spec: CustomDomain) -> dict[str, object]:
    return {"certificate_state": "WAITING" if spec.generate_certificate else "NONE"}


@reads("domain.status")
async def read_state(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    return Reply(in_dialect(call, row.body), row.tag)


@reads("*.checkCustomDomain")
async def check_all(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    rows = await source.resources.of_parent(service.id, domain.name)
    async with ctx.domain_checks.room(service.org):
        until = asyncio.get_running_loop().time() + CHECK_TIMEOUT
        checked = await asyncio.gather(*(_check_one(ctx, row, until) for row in rows))
    return Reply(results([encode(each) for each in checked]))


async def _check_one(ctx: Context, row: Row, until: float) -> CheckedCustomDomainResponse:
    domain = row.read(StoredDomain)
    try:
        async with asyncio.timeout_at(until), ctx.domain_checks.look_room(row.org):
            records = await look_at(ctx, row.parent, domain.name)
    except TimeoutError:
        return CheckedCustomDomainResponse(
            domain_name=domain.domain, status="GENERIC_FAILURE", error_details=_NOT_LOOKED_AT
        )
    status, details = verdict_of(records, use_cdn=domain.use_cdn)
    return CheckedCustomDomainResponse(
        domain_name=domain.domain, status=status, error_details=details or msgspec.UNSET
    )
