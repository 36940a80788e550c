"""Looks at the first page of an application that was just released, at its public host.

A program may accept connections and answer each request with an error: for want of a table or a key, or
because it refuses the host. The message of the service then says what to do. The page is asked for only where
Windlass chose the port: a person who names ports may serve no pages there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.base.segments import line_filter
from windlass.control.context.context import Context
from windlass.control.deploying.other_machines import hosts_of, machine_of
from windlass.control.deploying.routes import endpoints_of
from windlass.control.records.served_names import row_of
from windlass.core.deploy.remedies import LOOK, LOOKED_AT, database_remedy, remedy_of
from windlass.core.deploy.workload import Instance, Observation, Workload
from windlass.routers.router import Endpoint

ANSWERED: Final = 3.0
"""Seconds in which the page must begin: a slow one is not waited for."""
_LOG_PAUSES: Final = (0.05, 0.2, 0.5)
"""Seconds until the lines of the program about its answer are looked for, again and again."""
_LONGEST: Final = 65_536
_REFUSED: Final = 400
"""The answer of frameworks to a host that they do not know."""
_FAILED: Final = 500


async def look_at_first_page(ctx: Context, workload: Workload, seen: Sequence[Instance]) -> str:
    """Returns what to do about the first page, also in the log of the deployment; empty if it is answered, or
    cannot be asked for here."""
    if trouble := await _find_trouble(ctx, workload, seen):
        ctx.logs.build(workload.service, workload.deployment)(trouble)
    return trouble


async def _find_trouble(ctx: Context, workload: Workload, seen: Sequence[Instance]) -> str:
    place = await ctx.places.of(workload.service)
    ready = Observation(tuple(seen)).of(workload.generation).ready
    if machine_of(ctx, place) is not None or [port.automatic for port in workload.ports] != [True]:
        return ""
    (port,) = workload.ports
    held = row_of(port, await ctx.store.reads.names.of(workload.service))
    endpoint = next(iter(endpoints_of(port, ready)), None)
    if held is None or endpoint is None:
        return ""
    host, began = hosts_of(ctx, place, held)[0], ctx.clock.now()
    status = await _status_of(endpoint, host)
    if status < _FAILED and status != _REFUSED:
        return await _trouble_of_database(ctx, workload)
    end = f"{workload.name} answers GET / with {status}"
    remedy = await _remedy(ctx, workload, began)
    if not remedy and status == _REFUSED:
        remedy = f"Let the application answer at its public host {host}, such as by ALLOWED_HOSTS of Django"
    return f"{remedy}. {end}" if remedy else f"{LOOK}{end}"


async def _trouble_of_database(ctx: Context, workload: Workload) -> str:
    """Returns what to do about a program that has no database: it may answer late, or with a page that says
    so."""
    remedy = database_remedy(workload.name, await _output(ctx, workload))
    return f"{remedy}. {workload.name} runs, and reports that in its log" if remedy else ""


async def _remedy(ctx: Context, workload: Workload, began: int) -> str:
    """Returns what to do about an error, from the lines that the program has written since."""
    for pause in _LOG_PAUSES:
        await asyncio.sleep(pause)
        if remedy := remedy_of("", workload.name, await _output(ctx, workload, began)):
            return remedy
    return ""


async def _output(ctx: Context, workload: Workload, since: int | None = None) -> list[str]:
    wanted = line_filter(since=since, version=workload.deployment)
    lines = await asyncio.to_thread(ctx.logs.tail, workload.service, LOOKED_AT, wanted)
    return [msgspec.json.decode(line)["message"] for line in lines]


async def _status_of(endpoint: Endpoint, host: str) -> int:
    """Returns the status of the first page; 0 if there is no answer."""
    try:
        async with asyncio.timeout(ANSWERED):
            reader, writer = await asyncio.open_connection(endpoint.address, endpoint.port)
            try:
                writer.write(
                    f"GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: windlass-probe\r\n"
                    "Accept: text/html,*/*\r\nConnection: close\r\n\r\n".encode()
                )
                words = (await reader.readline()).split()
                await reader.read(_LONGEST)  # A program that is hung up on may report that as an error.
            finally:
                writer.close()
    except (TimeoutError, OSError, ValueError):
        return 0
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
