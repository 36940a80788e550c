"""Encrypts all stored secrets with the current key, and retires keys that are no longer in use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from windlass.base.clock import MINUTE
from windlass.base.encryption import CannotDecrypt, Encryption
from windlass.base.log import log
from windlass.control.context.call import ITSELF
from windlass.control.context.context import Context, no_point
from windlass.control.people.organizations import NO_PARENT
from windlass.control.records.recording import About, emit
from windlass.control.records.sealing_keys import (
    read_keys,
    record_retired,
    record_unreadable,
    seal_with_present,
)
from windlass.core.access import SYSTEM
from windlass.core.words.events import Event
from windlass.families.organization import organization
from windlass.store import Claim, Store, Tx
from windlass.store.tables import sealed
from windlass.store.tables.sealed import SealedColumn, SealedValue

RESEAL: Final = "reseal"
"""The kind of work that encrypts all secrets with the current key."""
AT_ONCE: Final = 64
MAX_NAMED_VALUES: Final = 20
RETRY_PAUSE: Final = MINUTE
"""Milliseconds until secrets that could not be decrypted are tried again."""
_log = log("keys")


class ResealReport(Struct):
    resealed: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Names of values that could not be decrypted. They stay as they are."""


async def reseal_as_work(ctx: Context, claim: Claim) -> None:
    report = await reseal(ctx.store, ctx.encryption, ctx.point)

    async def change(tx: Tx) -> None:
        if report.unreadable:
            await tx.work.reschedule(claim, tx.now + RETRY_PAUSE)
        else:
            await tx.work.done(claim)

    await ctx.store.write(change)


async def reseal(
    store: Store, encryption: Encryption, point: Callable[[str], Awaitable[None]] = no_point
) -> ResealReport:
    """Encrypts all values with the current key that are encrypted with another key. Values that change
    meanwhile use the current key already, and are skipped."""
    current = await _begin(store, encryption)
    report = ResealReport()
    while count := await _pass(store, encryption, report, point):
        report.resealed += count
    if report.unreadable:
        shown = report.unreadable[:MAX_NAMED_VALUES]
        _log.error("sealed values cannot be opened and stay as they are", extra={"values": shown})
    await store.write(lambda tx: _finish(tx, current, report.unreadable))
    return report


async def _begin(store: Store, encryption: Encryption) -> str:
    """Returns the current key, after all transactions with an earlier key have been stored."""
    state = await read_keys(store.reads)
    assert state is not None, "work is there only after a start"
    seal_with_present(encryption, state)

    async def wait_for_earlier_changes(tx: Tx) -> None:
        """Does nothing. Transactions are sequential, so earlier ones are completed before this one."""

    await store.write(wait_for_earlier_changes)
    return state.current


async def _pass(
    store: Store, encryption: Encryption, report: ResealReport, point: Callable[[str], Awaitable[None]]
) -> int:
    """Checks every value. Returns the number of values that were encrypted again."""
    count, report.unreadable = 0, []
    for column in sealed.COLUMNS:
        after: Sequence[str] = ("",) * len(column.key)
        while page := await store.reads.sealed.page(column, after, AT_ONCE):
            count += await _reseal_page(store, encryption, column, page, report)
            await point("resealed")
            await asyncio.sleep(0)  # with SQLite, reading a page blocks the event loop
            after = page[-1].key
    return count


async def _reseal_page(
    store: Store,
    encryption: Encryption,
    column: SealedColumn,
    page: Sequence[SealedValue],
    report: ResealReport,
) -> int:
    renewed: list[tuple[SealedValue, bytes]] = []
    for value in page:
        if encryption.is_present(value.value):
            continue
        try:
            content = encryption.decrypt(value.value, *value.owner)
        except CannotDecrypt:
            report.unreadable.append(f"{column.name} of {' '.join(value.key)}")
        else:
            renewed.append((value, encryption.encrypt(content, *value.owner)))

    async def change(tx: Tx) -> int:
        tx.resources.read_again()
        return sum([await tx.sealed.replace(column, value, new) for value, new in renewed])

    return await store.write(change) if renewed else 0


async def _finish(tx: Tx, current: str, unreadable: Sequence[str]) -> None:
    state = await read_keys(tx)
    if state is None or state.current != current:
        return  # Another key became the current one, with its own work item.
    names = tuple(unreadable[:MAX_NAMED_VALUES])
    if names or state.unreadable:
        await record_unreadable(tx, names)
    if state.is_settled or unreadable:
        return
    await record_retired(tx, state)
    former = [id for id in state.needed if id != current]
    await announce(tx, Event.SEALING_KEY_RETIRED, {"key": current, "retired_keys": former})


async def announce(tx: Tx, kind: Event, data: Mapping[str, object]) -> None:
    """Records an event in the audit log of the first organization."""
    row = await tx.resources.first(NO_PARENT, organization.name)
    if row is not None:
        about = About(row.id, row.family, row.id, row.family)
        emit(tx, kind, row.id, about, SYSTEM.id, SYSTEM.name, ITSELF, data)
