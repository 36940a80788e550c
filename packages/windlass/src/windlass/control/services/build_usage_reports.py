"""Reports of what the builds of a deployment used, behind links that end.

A link is stored with its environment, as a digest of its code. It is removed with the environment, and when
the next link is created after its end.
"""

from __future__ import annotations

import secrets
from typing import Final

from msgspec import Struct

from windlass.base import tokens
from windlass.base.clock import SECOND, stamp
from windlass.base.errors import Conflict, Invalid
from windlass.control.context.call import Call, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.records.recording import emit_asked
from windlass.control.records.shown_deployments import shown_usage
from windlass.control.request.paths import target
from windlass.control.services.deployment_groups import Group, group_of, id_of
from windlass.control.services.environments import services_of
from windlass.control.services.shown_groups import identifier
from windlass.core.declare.document import Document
from windlass.core.deploy.progress import Particulars
from windlass.core.words.events import Event
from windlass.families.build_usage_report import BuildUsageReportRequest
from windlass.families.environment import environment
from windlass.store import Reads, Row, Tx

REPORT_PATH: Final = "/build-usage-report/"
DELETE_SUFFIX: Final = "/delete"
MAX_REPORTS: Final = 100
"""Maximum number of links of an environment that have not ended."""
_LINK: Final = "build usage report "
"""Prefix of the names of links from an environment; the rest is the digest of a code. A link leads to its end
and to a deployment."""


class BuildUsageLink(Struct, frozen=True):
    environment: Row
    deployment: str
    ends: int


@writes("environment.deploymentBuildUsageReport")
async def create_report(ctx: Context, tx: Tx, call: Call) -> Reply:
    row, asked = await target(tx, call), call.sent(BuildUsageReportRequest)
    group = await _group(ctx, tx, row, asked.execution_id)
    if not group:
        raise Invalid(
            "execution_id: choose one of the history of the environment: no deployment of it has this id"
        )
    if await _forget_ended(tx, row) >= MAX_REPORTS:
        raise Conflict(
            f"Delete a report first: the environment has {MAX_REPORTS} of which the links have not ended"
        )
    code = secrets.token_urlsafe(32)
    ends = tx.now + asked.report_expiration_in_seconds * SECOND
    await tx.links.set(row.id, _name_of(code), f"{ends} {id_of(group)}")
    data = {"deployment": id_of(group), "link_ends_at": stamp(ends)}
    await emit_asked(ctx, tx, Event.REPORT_SHARED, row, call, data)
    url = f"{ctx.settings.url}{REPORT_PATH}{row.id}/{code}"
    return Reply(encode({"report_url": url, "delete_report_url": f"{url}{DELETE_SUFFIX}"}))


async def find_link(ctx: Context, environment_id: str, code: str) -> BuildUsageLink | None:
    """Returns a link that has not ended."""
    source = ctx.store.reads
    row = await source.resources.find(environment.name, environment_id)
    stored = await source.links.target(row.id, _name_of(code)) if row else None
    if row is None or stored is None:
        return None
    ends, deployment = _parse(stored)
    return BuildUsageLink(row, deployment, ends) if ctx.clock.now() < ends else None


async def delete_link(ctx: Context, link: BuildUsageLink, code: str) -> None:
    async def write(tx: Tx) -> None:
        await tx.links.unset(link.environment.id, _name_of(code))

    await ctx.store.write(write)


async def report_of(ctx: Context, link: BuildUsageLink) -> Document:
    group = await _group(ctx, ctx.store.reads, link.environment, link.deployment)
    return {
        "environment_id": link.environment.id,
        "environment_name": name_of(link.environment),
        "execution_id": link.deployment,
        "created_at": stamp(group[0].row.created) if group else None,
        "link_ends_at": stamp(link.ends),
        "services": [
            {
                **identifier(ctx, past),
                "build_seconds": _build_seconds(past.details),
                **(shown_usage(past.details.usage) if past.details.usage else _UNKNOWN),
            }
            for past in group
        ],
    }


_UNKNOWN: Final[Document] = {"cpu_seconds": None, "peak_memory_bytes": None}


def _build_seconds(details: Particulars) -> float | None:
    return (details.built - details.began) / SECOND if details.built and details.began else None


async def _group(ctx: Context, reads: Reads, environment: Row, id: str) -> Group:
    deployment = await reads.deployments.get(id)
    if deployment is None:
        return ()
    return await group_of(reads, await services_of(ctx, reads, environment), deployment)


async def _forget_ended(tx: Tx, environment: Row) -> int:
    """Removes links that have ended. Returns the number of the others."""
    left = 0
    for name in [name for name in await tx.links.fields(environment.id) if name.startswith(_LINK)]:
        stored = await tx.links.target(environment.id, name)
        if stored is not None and _parse(stored)[0] <= tx.now:
            await tx.links.unset(environment.id, name)
        else:
            left += 1
    return left


def _name_of(code: str) -> str:
    return f"{_LINK}{tokens.digest(code)}"


def _parse(stored: str) -> tuple[int, str]:
    ends, _, deployment = stored.partition(" ")
    return int(ends), deployment
