"""The audit log: pages of filtered events, and their subjects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Struct

from windlass.base.clock import HOUR
from windlass.base.errors import Invalid
from windlass.base.segments import instant
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.reporting.audit_entries import TargetNames, body_of, entry_type, show_entry
from windlass.control.request.paths import target
from windlass.control.request.permissions import Visibility
from windlass.core.declare.audit_query import AuditParameters, TargetParameters
from windlass.core.words.audit import AuditNames, kinds_of, origin_kept
from windlass.store import NEVER, EventFilter, EventRow, Reads

_SCAN_STEP = 5_000
"""The range of event numbers that one query scans with a selective filter. Other requests can run between two
queries."""
_BATCH_SIZE = 200
MAX_PAGE_BYTES = 8 * 1024 * 1024
"""The size of the events of a page in the database. A page of large events is shorter than requested, and has
a link to the next one."""
_MAX_SCANNED = 50_000
_MAX_KINDS = 4
"""The largest number of event kinds in one database query."""
_MAX_CLOCK_SKEW = HOUR
"""The largest difference between the clocks of replicas."""
_TIMESTAMP_UNITS = ((11, 1000, 1), (14, 1, 1), (17, 1, 1000), (19, 1, 1_000_000))
"""Units of numeric timestamps (seconds, milli-, micro- and nanoseconds): the largest number of digits, and
the factor and divisor that convert to milliseconds."""


class AuditFilter(Struct, frozen=True):
    """A filter for events: conditions for the database, and a function for other conditions."""

    conditions: EventFilter
    fits: Callable[[EventRow], Awaitable[bool]] | None = None


@reads("organization.events")
async def events(ctx: Context, call: Call) -> Reply:
    org = await target(ctx.store.reads, call)
    asked = call.asked(AuditParameters)
    if asked.continue_token and asked.step_back_token:
        raise Invalid("stepBackToken: cannot be given together with continueToken")
    source = ctx.store.reads
    query = _query_of(
        ctx.registry.audit,
        call,
        asked,
        Visibility(source, call.actor, org.id),
        sub_target=asked.sub_target_type or "",
        subject=asked.target_id or "",
        project=asked.service_project_id or "",
        environment=asked.service_environment_id or "",
    )
    page = await _page(source, query, asked)
    names = TargetNames(source, ctx.registry.audit)
    full = call.dialect.is_full
    entries = [await show_entry(row, names, is_full_interface=full) for row in page.rows]
    older_gone = page.next is None and await source.events.anchor() is not None
    links = {
        name: _link(ctx, call, asked, **{token: str(number)})
        for name, token, number in (
            ("previous", "stepBackToken", page.previous),
            ("next", "continueToken", page.next),
        )
        if number is not None
    }
    return Reply(encode({"links": links, "organization_max_limit_reached": older_gone, "events": entries}))


@reads("organization.targets")
async def targets(ctx: Context, call: Call) -> Reply:
    org = await target(ctx.store.reads, call)
    asked = call.asked(TargetParameters)
    source = ctx.store.reads
    query = _query_of(
        ctx.registry.audit,
        call,
        asked,
        Visibility(source, call.actor, org.id),
        project=asked.project_id or "",
        environment=asked.environment_id or "",
    )
    column = {UNSET: "subject", "PROJECT": "project", "ENVIRONMENT": "environment"}[asked.target_level]
    targets: dict[str, None] = {}
    looked_at = 0
    if query is not None:
        async with aclosing(older_events(source, query.conditions, NEVER, _BATCH_SIZE)) as batches:
            async for batch in batches:
                targets |= dict.fromkeys(getattr(row, column) for row in await _filter(query, batch))
                looked_at += len(batch)
                if looked_at >= _MAX_SCANNED:
                    break
    names = TargetNames(source, ctx.registry.audit)
    listed = [{"id": id, "name": await names.of(id)} for id in targets if id]
    return Reply(
        encode({"targets": sorted(listed, key=lambda target: (target["name"].casefold(), target["id"]))})
    )


def _query_of(
    audit_names: AuditNames,
    call: Call,
    parameters: AuditParameters | TargetParameters,
    sight: Visibility,
    *,
    sub_target: str = "",
    subject: str = "",
    project: str = "",
    environment: str = "",
) -> AuditFilter | None:
    """Returns the filter of a query; None if no event can match."""
    full, word = call.dialect.is_full, parameters.event_type or ""
    kinds = kinds_of(word, is_full_interface=full) if word else ()
    family = audit_names.family_of(sub_target) if sub_target else ""
    since = _parse_time(parameters.from_timestamp, 0)
    until = _parse_time(parameters.to_timestamp, NEVER)
    if (word and not kinds) or family is None:
        return None
    conditions = EventFilter(
        org=sight.org,
        since=since,
        until=until,
        kinds=kinds if len(kinds) <= _MAX_KINDS else (),
        subject_families=audit_names.families_of(parameters.target_type) if parameters.target_type else (),
        family=family,
        subject=subject,
        actor=parameters.triggered_by,
        origin=origin_kept(parameters.origin) if parameters.origin else "",
        project=project,
        environment=environment,
    )
    return AuditFilter(conditions, _extra_conditions(word, sight, is_full_interface=full))


def _extra_conditions(
    word: str, sight: Visibility, *, is_full_interface: bool
) -> Callable[[EventRow], Awaitable[bool]] | None:
    """Returns a function for the conditions that the database cannot check; None if there are none."""
    if not word and sight.is_whole:
        return None

    async def fits(row: EventRow) -> bool:
        if not await sight.includes_event(row):
            return False
        return not word or word in {
            row.kind,
            entry_type(row, body_of(row.body), is_full_interface=is_full_interface),
        }

    return fits


async def _filter(query: AuditFilter, rows: list[EventRow]) -> list[EventRow]:
    return [row for row in rows if await query.fits(row)] if query.fits else rows


def _parse_time(text: str, default: int) -> int:
    if not text:
        return default
    if not text.isdecimal():
        return instant(text)
    times, by = next((times, by) for digits, times, by in _TIMESTAMP_UNITS if len(text) <= digits)
    return int(text) * times // by


class AuditPage(Struct, frozen=True):
    rows: list[EventRow]
    """The events of the page, newest first."""
    previous: int | None = None
    next: int | None = None


async def _page(reads: Reads, query: AuditFilter | None, parameters: AuditParameters) -> AuditPage:
    """Returns a page of events. Page tokens are event numbers, so that new events neither repeat nor skip
    entries."""
    if query is None:
        return AuditPage([])
    size = parameters.page_size
    if parameters.step_back_token:
        above = int(parameters.step_back_token)
        rows, is_more = await take_page(
            query, _newer_events(reads, query.conditions, above, _at_once(query, size)), size
        )
        kept = rows[::-1]
        previous = kept[0].seq if is_more else None
        return AuditPage(kept, previous, kept[-1].seq if kept else above + 1)
    below = int(parameters.continue_token) if parameters.continue_token else NEVER
    kept, is_more = await take_page(
        query, older_events(reads, query.conditions, below, _at_once(query, size)), size
    )
    previous = None if below == NEVER else kept[0].seq if kept else max(0, below - 1)
    return AuditPage(kept, previous, kept[-1].seq if is_more else None)


def _at_once(query: AuditFilter, size: int) -> int:
    return size + 1 if query.fits is None else max(size + 1, _BATCH_SIZE)


async def take_page(
    query: AuditFilter, walk: AsyncGenerator[list[EventRow], None], size: int
) -> tuple[list[EventRow], bool]:
    """Returns the events of a page, and whether there are more."""
    events: list[EventRow] = []
    left = MAX_PAGE_BYTES
    async with aclosing(walk) as batches:
        async for batch in batches:
            for event in await _filter(query, batch):
                left -= len(event.body)
                if len(events) == size or (left < 0 and events):
                    return events, True
                events.append(event)
    return events, False


async def older_events(
    reads: Reads, conditions: EventFilter, below_number: int, limit: int
) -> AsyncGenerator[list[EventRow], None]:
    oldest, newest = await _span(reads, conditions)
    place = min(below_number, newest + 1)
    while place > oldest:
        end = max(oldest, place - _SCAN_STEP) if conditions.is_selective else oldest
        rows = await reads.audit.older(conditions, place, end, limit)
        place = rows[-1].seq if rows.is_cut or len(rows) == limit else end
        yield rows
        await asyncio.sleep(0)


async def _newer_events(
    reads: Reads, conditions: EventFilter, above_number: int, limit: int
) -> AsyncGenerator[list[EventRow], None]:
    oldest, newest = await _span(reads, conditions)
    place = max(above_number, oldest - 1)
    while place < newest:
        end = min(newest, place + _SCAN_STEP) if conditions.is_selective else newest
        rows = await reads.audit.newer(conditions, place, end, limit)
        place = rows[-1].seq if rows.is_cut or len(rows) == limit else end
        yield rows
        await asyncio.sleep(0)


async def _span(reads: Reads, conditions: EventFilter) -> tuple[int, int]:
    """Returns the first and last event number of a period, extended by the clock skew. Event numbers follow
    the time almost exactly."""
    oldest, newest = await reads.events.span()
    first = (
        await _since(reads, conditions.since - _MAX_CLOCK_SKEW, oldest, newest + 1)
        if conditions.since
        else oldest
    )
    last = (
        await _since(reads, conditions.until + _MAX_CLOCK_SKEW, first, newest + 1)
        if conditions.until < NEVER
        else newest
    )
    return first, min(last, newest)


async def _since(reads: Reads, timestamp: int, low: int, high: int) -> int:
    """Returns the first event number at or after a time."""
    while low < high:
        middle = (low + high) // 2
        time = await reads.events.time_of(middle)
        if time is None or time >= timestamp:
            high = middle
        else:
            low = middle + 1
    return low


def _link(ctx: Context, call: Call, audit_parameters: AuditParameters, **token: str) -> str:
    """Returns the URL of another page of the same query."""
    parameters = {**msgspec.to_builtins(audit_parameters), **token}
    tokens = {"continueToken", "stepBackToken"} - token.keys()
    query = urlencode(
        {name: value for name, value in parameters.items() if value != "" and name not in tokens}
    )
    base = "/compat" if call.dialect.is_full else ""
    return f"{ctx.settings.url}{base}/organization/{call.id}/events?{query}"
