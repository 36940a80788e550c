"""Finds the name of the record of a dns-01 challenge, and the name servers that do not have it yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from windlass.base.dns import DnsFailure, NameServer, Records, RecordType
from windlass.base.log import log
from windlass.base.zones.provider import ZoneFailure, domains_of
from windlass.control.context.context import Context
from windlass.control.records.domains import delegation_domain
from windlass.core.words.domains import WILDCARD_PREFIX

CHALLENGE_LABEL: Final = "_acme-challenge"
_MAX_SERVERS: Final = 8
"""More name servers of a zone are not asked."""
_TIMEOUT: Final = 20.0
"""Time limit for all questions about one record."""
_log = log("certificates")


class NoZone(Exception):
    """The record cannot be made. The message says what to do."""


class ChallengePlace(Struct, frozen=True):
    name: str
    """The name of the TXT record."""
    zone: str
    """The zone of the operator that the name belongs to."""


async def find_place(ctx: Context, name: str, service: str) -> ChallengePlace:
    """Returns where the record for a name belongs: at `_acme-challenge` of the name, or where a CNAME record
    of it points. Raises NoZone, ZoneFailure or DnsFailure.

    A domain of a user (`service`) may only point at the name that belongs to this service. Otherwise its
    owner could choose which names of the operator get records.
    """
    if ctx.zones is None:
        raise NoZone(
            "Ask the operator of Windlass to set dns_provider: authorities give certificates for *. only "
            "after a proof by DNS (dns-01)"
        )
    first = f"{CHALLENGE_LABEL}.{name.removeprefix(WILDCARD_PREFIX)}"
    aliases = (await _ask(ctx, first, RecordType.TXT)).aliases
    own = delegation_domain(ctx, service) if service else ""
    if own and aliases and own not in aliases:
        raise NoZone(f"Point the CNAME record of {first} at {own}: it points at {aliases[0]}")
    place = aliases[-1] if aliases else first
    if zone := await ctx.zones.zone_of(place):
        return ChallengePlace(place, zone)
    # A CNAME record of `*.` answers for a name only until that has a record of its own.
    hidden = own or first
    if aliases and (zone := await ctx.zones.zone_of(hidden)):
        return ChallengePlace(hidden, zone)
    if own and await ctx.zones.zone_of(own):
        raise NoZone(
            f"Make a CNAME record for {first} that points at {own}, and keep it: the proof for the "
            "certificate is a record there (dns-01)"
        )
    raise NoZone(f"Ask the operator of Windlass for a zone of {own or place} at its provider of DNS")


async def _ask(ctx: Context, name: str, type: RecordType) -> Records:
    """Asks the name servers of the settings one after the other, until one of them answers."""
    failure = DnsFailure("There is no name server")
    for server in ctx.dns.servers:
        try:
            return await ctx.dns.ask(server, name, type)
        except DnsFailure as error:
            failure = error
    raise failure


async def servers_without(ctx: Context, challenge_place: ChallengePlace, value: str) -> Sequence[str] | None:
    """Returns the name servers of the zone that do not have the record yet, of those that answer; None if
    none answers. Raises DnsFailure.

    The name servers of this machine are no substitute: they keep for a while that there was no record.
    """
    try:
        async with asyncio.timeout(_TIMEOUT):
            servers = await _servers_of(ctx, challenge_place.zone)
            found = await asyncio.gather(
                *(_has(ctx, server, challenge_place.name, value) for server in servers)
            )
    except TimeoutError:
        return None
    if all(has is None for has in found):
        return None
    return [str(server) for server, has in zip(servers, found, strict=True) if has is False]


async def _servers_of(ctx: Context, zone: str) -> list[NameServer]:
    """Returns the name servers of a zone, or else of the zone above it."""
    for domain in domains_of(zone):
        names = (await _ask(ctx, domain, RecordType.NS)).values[:_MAX_SERVERS]
        addresses = await asyncio.gather(*(_addresses(ctx, name) for name in names))
        if servers := [NameServer(each, ctx.dns.zone_port) for all in addresses for each in all]:
            return servers[:_MAX_SERVERS]
    return []


async def _addresses(ctx: Context, name: str) -> Sequence[str]:
    try:
        return [str(address) for address in await ctx.dns.addresses(name, 0)]
    except DnsFailure:
        return []


async def _has(ctx: Context, server: NameServer, name: str, value: str) -> bool | None:
    """Returns whether a server has a TXT record; None if it does not answer."""
    try:
        return value in (await ctx.dns.ask(server, name, RecordType.TXT)).values
    except DnsFailure:
        return None


async def obstacle(ctx: Context, name: str, service: str) -> str:
    """Returns why no record can be made for a name, and what to do; empty if it can. Raises ZoneFailure or
    DnsFailure."""
    try:
        await find_place(ctx, name, service)
    except NoZone as error:
        return f"{error}."
    return ""


def tell_failure(error: ZoneFailure | DnsFailure, name: str) -> str:
    """Returns for users why the record for a name cannot be made.

    The words of a provider are for the operator alone, and go to the log: a command may print its
    credentials, and an address may be an inner one.
    """
    why = str(error)
    if isinstance(error, ZoneFailure):
        _log.warning("the provider of DNS fails", extra={"domain": name, "why": why})
        why = "the provider of DNS fails, and the log of Windlass tells its operator why"
    return f"The record of the proof cannot be made: {why}."
