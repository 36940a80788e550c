"""Requests the first page of a new release at its public host name, and reports errors.

A program may accept connections but answer each request with an error, because a table or key is missing or
because it rejects the host name. The message of the service then contains the remedy. The page is requested
only if Windlass chose the port: a port that a person configured may not serve pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from windlass.base.isolation.instance_connections import open_connection
from windlass.base.segments import line_filter
from windlass.control.context.context import Context
from windlass.control.deploying.routes import endpoints_of, hosts_of, machine_of
from windlass.control.records.served_names import row_of
from windlass.core.deploy.states import DeploymentPhase
from windlass.engines.start_remedies import LOG_HINT, LOOKED_AT, database_remedy, remedy_of
from windlass.engines.workload import Instance, Observation, Workload
from windlass.routers.router import Endpoint

ANSWER_TIMEOUT: Final = 10.0
"""Seconds until the response must begin. Programs may load modules for the first request."""
_LOG_PAUSES: Final = (0.05, 0.2, 0.5)
"""Seconds between the attempts to find the program's log lines about the request."""
_MAX_PAGE_BYTES: Final = 65_536
_ANSWER_TIMEOUT: Final = 1.0
_BAD_REQUEST: Final = 400
_REFUSAL_STATUSES: Final = (_BAD_REQUEST, 403)
"""Statuses with which frameworks reject an unknown host name."""
_HOST_REFUSALS: Final = (
    b"<title>Bad Request (400)</title>",
    b"Blocked hosts:",
    b"Blocked request. This host",
)
"""Phrases of Django, Rails and Vite in pages that reject a host name."""
_SERVER_ERROR: Final = 500


class _Page(NamedTuple):
    status: int = 0
    text: bytes = b""


async def check_first_page(ctx: Context, workload: Workload, instances: Sequence[Instance]) -> str:
    """Returns the problem of the first page and its remedy, and logs both; empty if the page is fine or
    cannot be requested here."""
    if problem := await _find_page_problem(ctx, workload, instances):
        ctx.logs.deployment(workload.service, workload.deployment, DeploymentPhase.START)(problem)
    return problem


async def _find_page_problem(ctx: Context, workload: Workload, instances: Sequence[Instance]) -> str:
    place = await ctx.places.of(workload.service)
    ready = Observation(tuple(instances)).of(workload.generation).ready
    if machine_of(ctx, place) is not None or [port.automatic for port in workload.ports] != [True]:
        return ""
    (port,) = workload.ports
    held = row_of(port, await ctx.store.reads.names.of(workload.service))
    endpoint = next(iter(endpoints_of(port, ready)), None)
    if held is None or endpoint is None:
        return ""
    host, began = hosts_of(ctx, place, held)[0], ctx.clock.now()
    page = await _request_page(endpoint, host)
    is_refused = page.status in _REFUSAL_STATUSES and await _refuses_host(endpoint, page)
    if page.status < _SERVER_ERROR and not is_refused:
        return await _database_problem(ctx, workload)
    end = f"{workload.name} answers GET / with {page.status}"
    remedy = await _remedy(ctx, workload, began)
    if not remedy and is_refused:
        remedy = (
            f"Let the application answer at its public host {host}, such as by ALLOWED_HOSTS of Django, "
            "config.hosts of Rails or allowedHosts of Vite"
        )
    return f"{remedy}. {end}" if remedy else f"{LOG_HINT}{end}"


async def _refuses_host(endpoint: Endpoint, page: _Page) -> bool:
    """Returns whether the page rejects the host name: the page contains a known phrase, or a request for
    another host succeeds."""
    if any(words in page.text for words in _HOST_REFUSALS):
        return True
    return (
        page.status == _BAD_REQUEST and 0 < (await _request_page(endpoint, "localhost")).status < _BAD_REQUEST
    )


async def _database_problem(ctx: Context, workload: Workload) -> str:
    """Returns the remedy for a program that lacks a database; empty if its log shows no such error. Such a
    program may respond late, or with an error page that has a success status."""
    remedy = database_remedy(workload.name, await _output(ctx, workload))
    return f"{remedy}. {workload.name} runs, and reports that in its log" if remedy else ""


async def _remedy(ctx: Context, workload: Workload, started_at: int) -> str:
    """Returns the remedy for an error, from the program's log lines since `started_at`."""
    for pause in _LOG_PAUSES:
        await asyncio.sleep(pause)
        if remedy := remedy_of("", workload.name, await _output(ctx, workload, started_at)):
            return remedy
    return ""


async def _output(ctx: Context, workload: Workload, since: int | None = None) -> list[str]:
    wanted = line_filter(since=since, version=workload.deployment)
    lines = await asyncio.to_thread(ctx.logs.tail, workload.service, LOOKED_AT, wanted)
    return [msgspec.json.decode(line)["message"] for line in lines]


async def _request_page(endpoint: Endpoint, host: str) -> _Page:
    """Requests the first page. The status is 0 if there is no response."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            reader, writer = await open_connection(endpoint.network, endpoint.address, endpoint.port)
            try:
                writer.write(
                    f"GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: windlass-probe\r\n"
                    "Accept: text/html,*/*\r\nConnection: close\r\n\r\n".encode()
                )
                words = (await reader.readline()).split()
                status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
                return _Page(status, await _read_beginning(reader))
            finally:
                writer.close()
    except (TimeoutError, OSError, ValueError):  # a header line or a number may exceed Python's limits
        return _Page()


async def _read_beginning(reader: asyncio.StreamReader) -> bytes:
    """Reads the beginning of the body. A short wait for it prevents errors that a program logs when its
    client disconnects."""
    read = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            while len(read) < _MAX_PAGE_BYTES and (more := await reader.read(_MAX_PAGE_BYTES)):
                read += more
    return read
