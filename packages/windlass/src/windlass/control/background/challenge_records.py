"""The DNS records of challenges: each is stored before it is made, and removed once its order is closed.

The work that removes them is scheduled in the same transaction, and does not depend on the order: a server
that is killed, or a domain that is deleted meanwhile, leaves no record behind.
"""

from __future__ import annotations

from typing import Final

from windlass.base.clock import DAY, HOUR, MINUTE
from windlass.base.log import log
from windlass.base.zones.provider import ZoneFailure
from windlass.control.context.context import Context
from windlass.store import ChallengeRecordRow, Claim, OrderRow, Tx

REMOVE_RECORDS: Final = "challenge records"
"""The kind of work that removes the records of an order."""
RETRY_PAUSES: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR)
_CHECK_INTERVAL: Final = MINUTE
_MAX_RECORD_AGE: Final = DAY
"""The age after which a record is needed no more, whatever the order says."""
_MAX_REMOVAL_AGE: Final = 7 * DAY
_log = log("certificates")


async def note_record(ctx: Context, order: OrderRow, name: str) -> int:
    """Writes down that a record is about to be made. Returns since when it is written down."""

    async def change(tx: Tx) -> int:
        await tx.challenge_records.add(name, order.answer, order.id)
        await tx.work.schedule(REMOVE_RECORDS, _work_id(order.id), tx.now + _CHECK_INTERVAL, org=order.org)
        rows = await tx.challenge_records.of(order.id)
        return next((row.since for row in rows if (row.name, row.value) == (name, order.answer)), tx.now)

    return await ctx.store.write(change)


async def remove_soon(ctx: Context, order: OrderRow) -> None:
    """Has the records of a closed order removed now, instead of with the next look."""
    if await ctx.store.reads.challenge_records.of(order.id):
        await ctx.store.write(lambda tx: tx.work.schedule(REMOVE_RECORDS, _work_id(order.id), org=order.org))


async def remove_records(ctx: Context, claim: Claim) -> None:
    """Removes the records of one order that it needs no more, and repeats that until none is left."""
    owner = claim.id.removeprefix(f"{REMOVE_RECORDS} ")
    rows = await ctx.store.reads.challenge_records.of(owner)
    order = await ctx.store.reads.certificates.order(owner)
    due, has_failed = ctx.clock.now() + _CHECK_INTERVAL, False
    for row in rows:
        if not _is_needed(ctx, row, order):
            has_failed |= not await _remove(ctx, row)
    if has_failed:
        due = ctx.clock.now() + RETRY_PAUSES[min(claim.attempts, len(RETRY_PAUSES)) - 1]

    async def change(tx: Tx) -> None:
        if await tx.challenge_records.of(owner):
            await tx.work.reschedule(claim, due, claim.attempts if has_failed else 0)
        else:
            await tx.work.done(claim)

    await ctx.store.write(change)


def _is_needed(ctx: Context, row: ChallengeRecordRow, order: OrderRow | None) -> bool:
    is_open = order is not None and bool(order.url) and order.answer == row.value
    return is_open and ctx.clock.now() - row.since < _MAX_RECORD_AGE


async def _remove(ctx: Context, row: ChallengeRecordRow) -> bool:
    """Removes one record. Returns whether that is settled."""
    try:
        if ctx.zones is None:
            raise ZoneFailure("dns_provider is not set any more")
        await ctx.zones.remove(row.name, row.value)
        await ctx.point("record removed")
    except ZoneFailure as error:
        is_given_up = ctx.clock.now() - row.since > _MAX_REMOVAL_AGE
        _log.warning(
            "the DNS record of a certificate stays: remove it by hand"
            if is_given_up
            else "the DNS record of a certificate is removed later",
            extra={"record": row.name, "why": str(error)},
        )
        if not is_given_up:
            return False
    await ctx.store.write(lambda tx: tx.challenge_records.remove(row))
    return True


def _work_id(owner: str) -> str:
    return f"{REMOVE_RECORDS} {owner}"
