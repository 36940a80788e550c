"""Domains of services: what follows from their changes, and the answers about their records."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from windlass.base.clock import stamp
from windlass.base.dns import DnsFailure
from windlass.base.errors import Conflict
from windlass.base.zones.provider import ZoneFailure
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.domains import (
    DOMAIN,
    TEND,
    StoredDomain,
    proof_fields,
    refuse_own_name,
    release,
)
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.paths import target
from windlass.control.request.reading import in_dialect
from windlass.control.services.dns_challenges import NoZone, find_place
from windlass.control.services.domain_records import (
    DomainRecords,
    advice_of,
    caa_of,
    look_at,
    proof_of,
    verdict_of,
)
from windlass.control.services.domain_visits import visit
from windlass.core.words.domains import ANY, ascii_name
from windlass.families.domain import (
    CheckedCustomDomainResponse,
    CustomDomain,
    DomainCheck,
    DomainFinding,
    PortAnswer,
    ResolvedName,
    domain,
)
from windlass.store import Reads, Row, Tx

MOST: Final = 100
"""Maximum number of domains of one service."""


@behaves(domain)
class Domains(Behaviour[CustomDomain]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[CustomDomain]) -> None:
        service, spec = draft.above, draft.spec
        if len(await tx.resources.of_parent(service.id, domain.name)) >= MOST:
            raise Conflict(f"Delete a domain of this service first: it has {MOST}, which is the most")
        name = await _accept_name(ctx, tx, draft.id, service, spec)
        draft.give(**proof_fields(ctx, service.id, name), **_first_state(spec))

    async def created(self, ctx: Context, tx: Tx, draft: Draft[CustomDomain]) -> None:
        await tx.work.schedule(TEND, draft.id, org=draft.org)

    async def updating(self, ctx: Context, tx: Tx, change: Change[CustomDomain]) -> None:
        row, spec = change.row, change.spec
        service = await tx.resources.get(row.parent)
        assert service is not None
        name = await _accept_name(ctx, tx, row.id, service, spec)
        is_renamed = name != row.read(StoredDomain).name
        if is_renamed:
            await release(tx, row)
            change.extras |= proof_fields(ctx, service.id, name) | {
                "state": "UNPROVED",
                "proved_at": msgspec.UNSET,
                "proof_lost_at": msgspec.UNSET,
            }
        if is_renamed or spec.generate_certificate != change.before.generate_certificate:
            await tx.certificates.forget(row.id)
            change.extras |= {"certificate_expires_at": msgspec.UNSET, **_first_state(spec)}

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        await tx.work.schedule(TEND, row.id, org=row.org)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await release(tx, row)


async def _accept_name(ctx: Context, tx: Tx, id: str, service: Row, spec: CustomDomain) -> str:
    """Returns the domain in ASCII form, unless Windlass or another service serves it."""
    name = ascii_name(spec.domain)
    refuse_own_name(ctx, name)
    for sibling in await tx.resources.of_parent(service.id, domain.name):
        if sibling.id != id and sibling.read(StoredDomain).name == name:
            raise Conflict(f"domain: leave this one out: the service has {name} already")
    held = await tx.names.holder(f"{DOMAIN}{name}")
    if held and held.port != id:
        holder = await tx.resources.find(domain.name, held.port)
        is_by_record = ctx.settings.domain_proof != "address"  # an address gives way to a record
        if holder and is_by_record and not holder.read(StoredDomain).lost:
            raise Conflict(
                f"domain: choose another name, or remove the records that lead {name} to where it is served "
                "now: a service of this installation serves it"
            )
    return name


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
        checked = await asyncio.gather(*(_check_one(ctx, row.read(StoredDomain), row.parent) for row in rows))
    return Reply(results([encode(each) for each in checked]))


async def _check_one(ctx: Context, stored: StoredDomain, service: str) -> CheckedCustomDomainResponse:
    records = await look_at(ctx, service, stored.name)
    status, details = verdict_of(records, use_cdn=stored.use_cdn)
    return CheckedCustomDomainResponse(
        domain_name=stored.domain, status=status, error_details=details or msgspec.UNSET
    )


@reads("domain.check")
async def check(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    row = await target(source, call)
    stored = row.read(StoredDomain)
    async with ctx.domain_checks.room(row.org):
        records, (caa, caa_problem) = await asyncio.gather(
            look_at(ctx, row.parent, stored.name), caa_of(ctx, stored.name)
        )
        http = await visit(ctx, records)
        zone = await _findings_of_zone(ctx, stored, row.parent)
    proof = proof_of(ctx, records, use_cdn=stored.use_cdn)
    order = await source.certificates.order(row.id)
    if proof and stored.state == "UNPROVED":
        await ctx.store.write(lambda tx: tx.work.schedule(TEND, row.id, org=row.org))
    said = order.message if order else ""
    findings = [
        *_findings_of_records(records, stored, proof),
        *_findings_of_way(stored, caa, caa_problem, http, said),
        *zone,
        *await _findings_of_state(ctx, source, row, stored),
    ]
    answer = DomainCheck(
        domain=stored.domain,
        proved_by=proof,
        validation_domain=records.validation,
        expected_addresses=[*records.expected],
        resolvers=[
            ResolvedName(
                server=view.server,
                addresses=[*view.addresses],
                aliases=[*view.aliases],
                texts=[*view.texts],
                problem=view.problem,
            )
            for view in records.views
        ],
        caa=[*caa],
        proxy=records.proxy,
        authority_message=said,
        http=http,
        next_try_at=stored.next_try_at,
        # The problem of the last look is often one of those that are found now.
        findings=[*{finding.message: finding for finding in findings}.values()],
    )
    return Reply(encode(answer))


def _findings_of_records(records: DomainRecords, stored: StoredDomain, proof: str) -> list[DomainFinding]:
    findings = [
        DomainFinding(good=False, message=f"{view.problem}.") for view in records.views if view.problem
    ]
    if proof:
        findings.append(DomainFinding(good=True, message=f"Its {proof} record proves it."))
    elif records.answered:
        findings.append(DomainFinding(good=False, message=advice_of(records)))
    status, details = verdict_of(records, use_cdn=stored.use_cdn)
    if details and status != "GENERIC_FAILURE":
        findings.append(DomainFinding(good=False, message=f"{details}."))
    elif not details:
        where = ", ".join(records.addresses)
        findings.append(DomainFinding(good=True, message=f"It resolves to {where}."))
    if len({frozenset(view.addresses) for view in records.answered}) > 1:
        findings.append(
            DomainFinding(
                good=False,
                message="The name servers do not agree: wait until the change has reached all of them.",
            )
        )
    return findings


def _findings_of_way(
    stored: StoredDomain, caa: tuple[str, ...], caa_problem: str, http: PortAnswer, said: str
) -> list[DomainFinding]:
    findings: list[DomainFinding] = []
    if caa_problem:
        findings.append(DomainFinding(good=False, message=f"{caa_problem}."))
    if caa and stored.generate_certificate:
        findings.append(
            DomainFinding(
                good=True,
                message=f"CAA records name the authorities that may issue for it: {'; '.join(caa)}.",
            )
        )
    if http.reached:
        findings.append(DomainFinding(good=True, message=f"Port {http.port} of it leads to this gateway."))
    else:
        findings.append(DomainFinding(good=False, message=http.problem))
    if said:
        findings.append(DomainFinding(good=False, message=f"The authority said: {said}"))
    return findings


async def _findings_of_zone(ctx: Context, stored: StoredDomain, service: str) -> list[DomainFinding]:
    """Returns whether the certificate of a domain with `*.` can be proved by DNS."""
    if not stored.name.startswith(ANY) or not stored.generate_certificate:
        return []
    try:
        place = await find_place(ctx, stored.name, service)
    except NoZone as error:
        return [DomainFinding(good=False, message=f"{error}.")]
    except (ZoneFailure, DnsFailure) as error:
        return [DomainFinding(good=False, message=f"The record of the proof cannot be made: {error}.")]
    return [DomainFinding(good=True, message=f"Its certificate is proved by a record of {place.name}.")]


async def _findings_of_state(
    ctx: Context, source: Reads, row: Row, stored: StoredDomain
) -> list[DomainFinding]:
    findings: list[DomainFinding] = []
    certificate = await source.certificates.get(row.id)
    if certificate and certificate.expires > ctx.clock.now():
        findings.append(
            DomainFinding(good=True, message=f"Its certificate is valid until {stamp(certificate.expires)}.")
        )
    if stored.problem:
        findings.append(DomainFinding(good=False, message=stored.problem))
    return findings
