"""Warns of the end of certificates that users have uploaded. No authority renews them."""

from __future__ import annotations

from typing import Final

from windlass.base.clock import DAY, stamp
from windlass.base.log import log
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.domains import StoredDomain, change_document
from windlass.families.domain import domain
from windlass.store import CertificateRow, Claim, Tx

WARNINGS: Final = (
    (0, "Upload another certificate: the present one has ended at {}."),
    (7 * DAY, "Upload another certificate now: the present one ends within 7 days, at {}."),
    (21 * DAY, "Upload another certificate: the present one ends within 21 days, at {}."),
)
"""The warnings, by the time that is left."""
_log = log("certificates")


async def watch_upload(
    ctx: Context, claim: Claim, certificate: CertificateRow, previous: StoredDomain, *, tells: bool
) -> int:
    """Warns of the end of an uploaded certificate. Returns when to look again. `previous`: the domain as it
    was last stored; `tells`: whether its problem may be about its certificate."""
    now = ctx.clock.now()
    left = certificate.expires - now
    warning = next((text for days, text in WARNINGS if left <= days), "")
    problem = warning.format(stamp(certificate.expires))
    if warning and problem != previous.problem:
        _log.warning("an uploaded certificate ends", extra={"domain": certificate.name, "why": problem})
    fields: dict[str, object] = {
        "certificate_state": "LIVE" if left > 0 else "FAILED",
        **({"problem": problem} if tells else {}),
    }

    async def change(tx: Tx) -> None:
        await fence(tx, claim)
        await tx.certificates.delete_order(certificate.id)
        if row := await tx.resources.find(domain.name, certificate.id):
            await change_document(tx, row, fields)

    await ctx.store.write(change)
    return min((certificate.expires - days for days, _ in WARNINGS if left > days), default=now + DAY)
