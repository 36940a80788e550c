"""Opens a domain as a visitor does, and finds out whether the gateway of this server answers."""

from __future__ import annotations

import secrets
from typing import Final

from windlass.base.dns import DnsFailure
from windlass.base.http_out import AddressRefused, NoAnswer
from windlass.control.context.context import Context
from windlass.control.services.domain_records import DomainRecords, asked_name
from windlass.families.domain import PortAnswer
from windlass.routers.router import Challenge, RouteError

_PATH: Final = "/.well-known/acme-challenge/windlass-"
"""The path at which the gateway answers, followed by a random word. Challenges come before all routes."""
_SECONDS: Final = 5.0


async def visit(ctx: Context, records: DomainRecords) -> PortAnswer:
    """Asks for a random path, which only this gateway answers rightly."""
    port = ctx.visits.port
    if not records.addresses:
        return PortAnswer(port=port, reached=False, problem="It has no address that can be opened.")
    word = secrets.token_hex(8)
    host, path, id = asked_name(records.name), f"{_PATH}{word}", f"check {word}"
    router = ctx.places.local.router
    try:
        await router.put_challenge(id, Challenge(host, path, word.encode()))
        try:
            answer = await ctx.visits.http.send("GET", f"http://{host}:{port}{path}", seconds=_SECONDS)
        finally:
            await router.drop_challenge(id)
    except (NoAnswer, AddressRefused, DnsFailure) as error:
        advice = f"Let port {port} of {host} lead to this gateway"
        return PortAnswer(port=port, reached=False, problem=f"{advice}: {error}")
    except RouteError as error:
        return PortAnswer(port=port, reached=False, problem=f"The gateway does not answer: {error}")
    if answer.status == 200 and answer.body == word.encode():
        return PortAnswer(port=port, reached=True)
    return PortAnswer(
        port=port,
        reached=False,
        problem=f"Let port {port} of {host} lead to this gateway: another server answers there "
        f"({answer.status}).",
    )
