"""The diagnosis of a domain, or of a name before it becomes one: its records, its way here, its authority."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import UNSET, Struct

from windlass.base.clock import stamp
from windlass.base.dns import DnsFailure
from windlass.base.errors import Invalid
from windlass.base.zones.provider import ZoneFailure
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.records.domains import (
    DOMAIN_PREFIX,
    DOMAIN_WORK,
    StoredDomain,
    challenge_id,
    refuse_own_name,
)
from windlass.control.request.paths import target
from windlass.control.services.dns_challenges import NoZone, find_place, tell_failure
from windlass.control.services.domain_proxies import title_of
from windlass.control.services.domain_records import (
    DomainRecords,
    Proof,
    advice_of,
    caa_of,
    look_at,
    proof_of,
    verdict_of,
)
from windlass.control.services.domain_visits import BY_TLS, DomainVisits, visit
from windlass.core.declare.fields import Maybe
from windlass.core.words.domains import WILDCARD_PREFIX, BadDomain, ascii_name, challenge_name
from windlass.families.domain import (
    DomainCheck,
    DomainFinding,
    NameToCheck,
    PortAnswer,
    ResolvedName,
    domain,
)
from windlass.routers.router import RouteError
from windlass.store import Reads


class _Subject(Struct, frozen=True):
    """The name that is checked for a service."""

    service: str
    stored: StoredDomain
    """The domain, or what it would be."""
    id: str = ""
    """The id of the domain; empty for a name that is none yet."""


@reads("domain.check")
async def check(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    return await _check(ctx, row.org, _Subject(row.parent, row.read(StoredDomain), row.id))


@reads("*.checkDomain")
async def check_name(ctx: Context, call: Call) -> Reply:
    source, sent = ctx.store.reads, call.sent(NameToCheck)
    service = await target(source, call)
    try:
        name = ascii_name(sent.domain)
    except BadDomain as error:
        raise Invalid(f"domain: {error}") from error
    refuse_own_name(ctx, name)
    for row in await source.resources.of_parent(service.id, domain.name):
        if (stored := row.read(StoredDomain)).name == name:
            return await _check(ctx, service.org, _Subject(service.id, stored, row.id))
    new = StoredDomain(sent.domain, True, sent.use_cdn, "UNPROVED")
    return await _check(ctx, service.org, _Subject(service.id, new))


async def _check(ctx: Context, org: str, subject: _Subject) -> Reply:
    source, stored = ctx.store.reads, subject.stored
    order = await source.certificates.order(subject.id) if subject.id else None
    # While an order is proved by TLS, the gateway shows its certificate, and no other.
    is_proved_by_tls = order is not None and order.challenge == BY_TLS
    async with ctx.domain_checks.room(org):
        records, (caa, caa_problem) = await asyncio.gather(
            look_at(ctx, subject.service, stored.name), caa_of(ctx, stored.name)
        )
        visits = await visit(ctx, records, by_tls=not is_proved_by_tls)
        zone = await _findings_of_zone(ctx, stored, subject.service)
    proof = proof_of(ctx, records, use_cdn=stored.use_cdn)
    if proof and subject.id and stored.state == "UNPROVED":
        await ctx.store.write(lambda tx: tx.work.schedule(DOMAIN_WORK, subject.id, org=org))
    said = order.message if order else ""
    fetched = await _is_fetched(ctx, subject.id)
    findings = [
        *_findings_of_records(records, stored, proof),
        *_findings_of_way(stored, caa, caa_problem, visits, records),
        *([DomainFinding(good=False, message=f"The authority said: {said}")] if said else []),
        *zone,
        *_findings_of_challenge(fetched),
        *await _findings_of_state(ctx, source, subject),
    ]
    answer = DomainCheck(
        domain=stored.domain,
        proved_by=proof,
        validation_domain=records.validation,
        challenge_name=challenge_name(records.name),
        challenge_value=records.challenge,
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
        proxy=records.proxy or visits.proxy,
        authority_message=said,
        http=visits.http,
        https=visits.https,
        challenge_fetched=fetched,
        next_try_at=stored.next_try_at,
        # The problem of the last look is often one of those that are found now.
        findings=[*{finding.message: finding for finding in findings}.values()],
    )
    return Reply(encode(answer))


def _findings_of_records(records: DomainRecords, domain: StoredDomain, proof: Proof) -> list[DomainFinding]:
    findings = [
        DomainFinding(good=False, message=f"{view.problem}.") for view in records.views if view.problem
    ]
    if proof:
        findings.append(DomainFinding(good=True, message=f"Its {proof} record proves it."))
    elif records.answered:
        findings.append(DomainFinding(good=False, message=advice_of(records)))
    status, details = verdict_of(records, use_cdn=domain.use_cdn)
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
    domain: StoredDomain,
    caa: Sequence[str],
    caa_problem: str,
    visits: DomainVisits,
    records: DomainRecords,
) -> list[DomainFinding]:
    findings: list[DomainFinding] = []
    if caa_problem:
        findings.append(DomainFinding(good=False, message=f"{caa_problem}."))
    if caa and domain.generate_certificate:
        findings.append(
            DomainFinding(
                good=True,
                message=f"CAA records name the authorities that may issue for it: {'; '.join(caa)}.",
            )
        )
    if visits.proxy and not records.proxy:
        title = title_of(visits.proxy)
        findings.append(DomainFinding(good=domain.use_cdn, message=f"Its visitors pass through {title}."))
    ports = (visits.http, visits.https)
    findings += [_finding_of_port(port) for port in ports if isinstance(port, PortAnswer)]
    return findings


async def _findings_of_zone(ctx: Context, domain: StoredDomain, service: str) -> list[DomainFinding]:
    """Returns whether the certificate of a domain with `*.` can be proved by DNS."""
    if not domain.name.startswith(WILDCARD_PREFIX) or not domain.generate_certificate:
        return []
    try:
        place = await find_place(ctx, domain.name, service)
    except NoZone as error:
        return [DomainFinding(good=False, message=f"{error}.")]
    except (ZoneFailure, DnsFailure) as error:
        return [DomainFinding(good=False, message=tell_failure(error, domain.name))]
    return [DomainFinding(good=True, message=f"Its certificate is proved by a record of {place.name}.")]


async def _is_fetched(ctx: Context, id: str) -> Maybe[bool]:
    """Returns whether the challenge of a domain's order was fetched from the gateway of this server."""
    try:
        answers = await ctx.places.local.router.challenges()
    except RouteError:
        return UNSET
    count = answers.get(challenge_id(id)) if id else None
    return UNSET if count is None else count > 0


def _findings_of_challenge(fetched: Maybe[bool]) -> list[DomainFinding]:
    match fetched:
        case True:
            return [DomainFinding(good=True, message="The authority has fetched the challenge of its order.")]
        case False:
            message = "The authority has not fetched the challenge of its order from this gateway yet."
            return [DomainFinding(good=False, message=message)]
        case _:
            return []


def _finding_of_port(answer: PortAnswer) -> DomainFinding:
    if not answer.reached:
        return DomainFinding(good=False, message=answer.problem)
    if answer.redirects_to_itself:
        return DomainFinding(
            good=False,
            message="Let the proxy in front connect by HTTPS (Cloudflare: the mode Full (strict) of "
            "SSL/TLS): it connects by HTTP, so visitors are redirected to the same address without end.",
        )
    way = ", through a proxy that ends TLS" if answer.is_proxied else ""
    return DomainFinding(good=True, message=f"Port {answer.port} of it leads to this gateway{way}.")


async def _findings_of_state(ctx: Context, reads: Reads, subject: _Subject) -> list[DomainFinding]:
    findings: list[DomainFinding] = []
    if not subject.id:
        if await _is_served_elsewhere(reads, subject):
            findings.append(
                DomainFinding(
                    good=False,
                    message="Remove the records that lead it to where it is served now: another service of "
                    "this installation serves it.",
                )
            )
        return findings
    certificate = await reads.certificates.get(subject.id)
    if certificate and certificate.expires > ctx.clock.now():
        findings.append(
            DomainFinding(good=True, message=f"Its certificate is valid until {stamp(certificate.expires)}.")
        )
    if target := subject.stored.target:
        held = await reads.names.holder(f"{DOMAIN_PREFIX}{target}")
        is_held = held is not None and held.service == subject.service
        message = f"Its visitors are redirected to {target}."
        if not is_held:
            message = f"Prove {target} first: until then, the service answers here instead of redirecting."
        findings.append(DomainFinding(good=is_held, message=message))
    if subject.stored.problem:
        findings.append(DomainFinding(good=False, message=subject.stored.problem))
    return findings


async def _is_served_elsewhere(reads: Reads, subject: _Subject) -> bool:
    held = await reads.names.holder(f"{DOMAIN_PREFIX}{subject.stored.name}")
    return held is not None and held.service != subject.service
