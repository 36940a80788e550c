"""Looks at the records of each domain, begins or ends to serve it, and gets its certificate.

A domain whose proof is lost is served for three more days, unless another service proves it meanwhile: name
servers fail, and records are moved. Name servers that do not answer count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from windlass.base.clock import DAY, HOUR, MINUTE, SECOND, stamp
from windlass.base.log import log
from windlass.control.background.issuing import CertificateOrder
from windlass.control.background.uploaded_certificates import watch_upload
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.domains import (
    UPLOADED_ORIGIN,
    StoredDomain,
    change_document,
    hold,
    proof_fields,
    withdraw,
)
from windlass.control.services.domain_records import (
    DomainRecords,
    Proof,
    advice_of,
    is_proved_for,
    look_at,
    proof_of,
)
from windlass.families.domain import domain
from windlass.store import Claim, Row, Tx

LOST_PROOF_GRACE: Final = 3 * DAY
"""How long a domain is served whose proof is lost."""
PROVED_CHECK_INTERVAL: Final = 6 * HOUR
"""How often the records of a proved domain are looked at."""
_LOST_CHECK_INTERVAL: Final = 10 * MINUTE
_NEW_CHECK_INTERVALS: Final = ((10 * MINUTE, 20 * SECOND), (HOUR, MINUTE), (DAY, 10 * MINUTE))
"""How often the records of a new domain are looked at, by its age."""
_LONG_CHECK_INTERVAL: Final = HOUR
_SERVED_ELSEWHERE: Final = (
    "Remove the records that lead it to where it is served now: another service of this installation serves "
    "this domain."
)
_log = log("domains")


class CertifiedDomain:
    """A domain that is to have a certificate."""

    def __init__(self, row: Row, domain: StoredDomain, *, tells: bool) -> None:
        """`tells`: whether the problem of the domain may be about its certificate. While no record proves the
        domain, it is about its records."""
        self.id, self.name = row.id, domain.name
        self.org, self.service = row.org, row.parent
        self.weekly = ""
        self._tells = tells

    async def note(self, tx: Tx, fields: Mapping[str, object]) -> None:
        told = {name: value for name, value in fields.items() if name != "problem" or self._tells}
        if (row := await tx.resources.find(domain.name, self.id)) and told:
            await change_document(tx, row, told)


async def tend_domain(ctx: Context, claim: Claim) -> None:
    """Looks at the records of one domain, and repeats that until the domain is deleted."""
    row = await ctx.store.reads.resources.find(domain.name, claim.id)
    if row is None:
        await ctx.store.write(lambda tx: tx.work.done(claim))
        return
    due = await _when_to_look(ctx, row)
    is_proved = True
    if due <= ctx.clock.now():
        due, is_proved = await _look(ctx, claim, row)
    attempts = 0
    present = await ctx.store.reads.resources.find(domain.name, claim.id)
    if present and (after := present.read(StoredDomain)).state == "PROVED":
        certificate = await ctx.store.reads.certificates.get(row.id)
        if certificate and (certificate.origin, certificate.name) == (UPLOADED_ORIGIN, after.name):
            former = row.read(StoredDomain)
            due = min(due, await watch_upload(ctx, claim, certificate, former, tells=is_proved))
        elif after.generate_certificate:
            order = CertificateOrder(ctx, claim, CertifiedDomain(present, after, tells=is_proved))
            due = min(due, await order.advance())
            attempts = claim.attempts if order.is_unanswered else 0
            await ctx.store.write(lambda tx: _note_next(tx, claim, due))
    await ctx.store.write(lambda tx: tx.work.reschedule(claim, due, attempts))


async def _when_to_look(ctx: Context, row: Row) -> int:
    """Returns when the records of a domain are looked at. Each order was placed after a look, so that none is
    needed each time when the order is read."""
    stored, now = row.read(StoredDomain), ctx.clock.now()
    order = await ctx.store.reads.certificates.order(row.id)
    is_open = order is not None and order.url and order.name == stored.name
    if not order or not is_open or stored.state != "PROVED" or stored.lost or order.since > now:
        return now
    return order.since + PROVED_CHECK_INTERVAL


async def _look(ctx: Context, claim: Claim, row: Row) -> tuple[int, bool]:
    """Looks at the records of a domain. Returns when to look again, and whether they prove it."""
    stored = row.read(StoredDomain)
    async with ctx.domain_checks.look_room(row.org):
        records = await look_at(ctx, row.parent, stored.name)
    proof = proof_of(ctx, records, use_cdn=stored.use_cdn)
    await ctx.point("domain looked at")
    due = await ctx.store.write(lambda tx: _record(ctx, tx, claim, records, proof))
    await ctx.point("domain recorded")
    return due, bool(proof)


async def _note_next(tx: Tx, claim: Claim, due_at: int) -> None:
    await fence(tx, claim)
    if row := await tx.resources.find(domain.name, claim.id):
        await change_document(tx, row, {"next_try_at": stamp(due_at)})


async def _record(ctx: Context, tx: Tx, claim: Claim, records: DomainRecords, proof: Proof) -> int:
    """Stores what the records of a domain prove. Returns when to look again."""
    await fence(tx, claim)
    row = await tx.resources.find(domain.name, claim.id)
    if row is None:
        return tx.now
    stored = row.read(StoredDomain)
    if stored.name != records.name:  # it was renamed meanwhile
        return tx.now
    fields: dict[str, object] = proof_fields(ctx, row.parent, stored.name)
    if proof:
        due = await _record_proof(ctx, tx, row, stored, records, proof, fields)
    else:
        due = await _record_lack(tx, row, stored, records, fields)
    present = await tx.resources.find(domain.name, row.id)
    assert present is not None
    await change_document(tx, present, {**fields, "next_try_at": stamp(due)})
    return due


async def _record_proof(
    ctx: Context,
    tx: Tx,
    row: Row,
    stored_domain: StoredDomain,
    records: DomainRecords,
    proof: Proof,
    fields: dict[str, object],
) -> int:
    by_record = proof in {"CNAME", "TXT"} and ctx.settings.domain_proof == "address"
    if not await hold(
        tx, row, stored_domain.name, lambda other: by_record and not is_proved_for(ctx, records, other.parent)
    ):
        fields |= {"state": "UNPROVED", "problem": _SERVED_ELSEWHERE}
        return tx.now + _pause(tx, row)
    fields |= {"state": "PROVED", "proof_lost_at": None}
    if stored_domain.lost or stored_domain.state != "PROVED" or not stored_domain.generate_certificate:
        fields |= {"problem": ""}
    if stored_domain.state != "PROVED":
        _log.info("a domain is proved", extra={"domain": stored_domain.name, "by": proof})
        fields |= {"proved_at": stamp(tx.now)}
    return tx.now + PROVED_CHECK_INTERVAL


async def _record_lack(
    tx: Tx, row: Row, stored_domain: StoredDomain, records: DomainRecords, fields: dict[str, object]
) -> int:
    """Records that no record proves a domain, or that no name server answers."""
    advice = advice_of(records)
    if stored_domain.state == "UNPROVED":
        fields |= {"problem": advice}
        return tx.now + _pause(tx, row)
    if not records.answered:
        fields |= {"problem": advice}
        return tx.now + _LOST_CHECK_INTERVAL
    if not stored_domain.lost:
        _log.warning("the proof of a domain is lost", extra={"domain": stored_domain.name})
        fields |= {
            "proof_lost_at": stamp(tx.now),
            "problem": _still_served(advice, tx.now + LOST_PROOF_GRACE),
        }
    elif tx.now - stored_domain.lost >= LOST_PROOF_GRACE:
        _log.warning("a domain without proof is not served any more", extra={"domain": stored_domain.name})
        await withdraw(tx, row, advice)
        fields |= {"problem": advice}
        return tx.now + _pause(tx, row)
    return tx.now + _LOST_CHECK_INTERVAL


def _still_served(advice: str, until: int) -> str:
    return f"{advice} Until {stamp(until)}, it is served all the same."


def _pause(tx: Tx, row: Row) -> int:
    """Returns the milliseconds until the records of a domain that is not proved are looked at again."""
    age = tx.now - row.created
    return next((pause for youth, pause in _NEW_CHECK_INTERVALS if age < youth), _LONG_CHECK_INTERVAL)
