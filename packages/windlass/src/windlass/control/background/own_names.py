"""Gets the certificates for the names below `public_domain`, and renews them.

With a provider of DNS, there is one with `*.`, whichever server gets it. Without one, each service that is
deployed gets one for each of its names, as far as the authority permits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from windlass.base.clock import HOUR
from windlass.control.background.issuing import LOOK_AT_RENEWAL, CertificateOrder
from windlass.control.context.context import Context
from windlass.control.records.links import host_of
from windlass.control.records.own_certificates import (
    console_certificate,
    domain_of_own_certificates,
    service_of_work,
    shared_certificate,
)
from windlass.control.records.served_names import host_names
from windlass.core.words.domains import WILDCARD_PREFIX, is_at_or_below
from windlass.store import Claim, OrderRow, Row, Tx


class OwnName:
    """A name below `public_domain`. Its order says what its problem is."""

    def __init__(self, ctx: Context, name: str, org: str = "", service: str = "") -> None:
        self.id = self.name = name
        self.org, self.service = org, service
        domain = domain_of_own_certificates(ctx)
        self.weekly = domain if is_at_or_below(name, domain) else ""
        self._authority = ctx.authority.directory

    async def note(self, tx: Tx, fields: Mapping[str, object]) -> None:
        if (problem := fields.get("problem")) is None:
            return
        order = await tx.certificates.order(self.id) or OrderRow(
            self.id, self.org, self.service, self.name, self._authority
        )
        if order.message != problem:
            await tx.certificates.set_order(replace(order, message=str(problem)))


async def tend_own_certificate(ctx: Context, claim: Claim) -> None:
    """Gets and renews the certificate for all names below `public_domain`, or those of one service."""
    names: Sequence[OwnName]
    if claim.id in {shared_certificate(ctx), console_certificate(ctx)}:
        names = [OwnName(ctx, claim.id)]
    elif claim.id.startswith(WILDCARD_PREFIX):
        names = []
    else:
        names = await _names_of_service(ctx, claim)
    if not names:
        await _leave(ctx, claim)
        return
    due, attempts = ctx.clock.now() + LOOK_AT_RENEWAL, 0
    for name in names:
        order = CertificateOrder(ctx, claim, name)
        due = min(due, await order.advance())
        attempts = claim.attempts if order.is_unanswered else attempts
    await ctx.store.write(lambda tx: tx.work.reschedule(claim, due, attempts))


async def _names_of_service(ctx: Context, claim: Claim) -> Sequence[OwnName]:
    service = await ctx.store.reads.resources.get(service_of_work(claim.id))
    if service is None or not domain_of_own_certificates(ctx):
        return []
    names = await _hosts(ctx, service)
    for name in names:
        await _take_over(ctx, name, service.id)
    return [OwnName(ctx, name, service.org, service.id) for name in names]


async def _take_over(ctx: Context, name: str, service: str) -> None:
    """Forgets the certificate that a former service had for a name: it would be removed with that service."""
    former = await ctx.store.reads.certificates.get(name)
    if former and former.service != service:
        await ctx.store.write(lambda tx: tx.certificates.delete_of(name))


async def _hosts(ctx: Context, service: Row) -> Sequence[str]:
    held = host_names(await ctx.store.reads.names.of(service.id))
    return [*dict.fromkeys(host_of(ctx, name) for name in held)]


async def _leave(ctx: Context, claim: Claim) -> None:
    """Ends work for certificates that are not wanted any more. They are served until they expire, or until
    another one takes their place."""
    reads, now = ctx.store.reads, ctx.clock.now()
    service = await reads.resources.get(service_of_work(claim.id))
    names = await _hosts(ctx, service) if service else [claim.id]
    shared = shared_certificate(ctx)
    replaced = bool(shared) and claim.id != shared and shared in await reads.certificates.live("", now)
    certificates = [row for name in names if (row := await reads.certificates.get(name))]
    kept = [row for row in certificates if row.expires > now and not replaced]

    async def change(tx: Tx) -> None:
        for name in names:
            if name not in {row.name for row in kept}:
                await tx.certificates.delete_of(name)
        for row in kept:
            await tx.certificates.renew_at(row.id, row.expires)  # no renewal is missing
        if kept:
            await tx.work.reschedule(claim, now + HOUR)
        else:
            await tx.work.done(claim)

    await ctx.store.write(change)
