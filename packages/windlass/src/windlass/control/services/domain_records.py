"""Looks at the records of a domain at each name server, and decides whether they prove it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.dns import DnsFailure, NameServer, RecordType
from windlass.control.context.context import Context
from windlass.control.records.domains import challenge_value, validation_domain
from windlass.control.services.domain_proxies import proxy_of_records, title_of
from windlass.core.words.domains import WILDCARD_PREFIX, challenge_name
from windlass.families.domain import Proxy

Proof = Literal["", "CNAME", "TXT", "ADDRESS"]
Verdict = Literal[
    "RESOLVES_TO_IP",
    "MATCHES_LOAD_BALANCER_HOST",
    "DOMAIN_NOT_CONFIGURED",
    "DOMAIN_LINKED_TO_WRONG_HOST",
    "GENERIC_FAILURE",
]

_MAX_SERVERS: Final = 5
"""More name servers of the machine are not asked."""
TIMEOUT: Final = 15.0
"""Time limit for all questions about one domain."""
_MAX_LABELS: Final = 10
"""CAA records are looked for at the name and at so many names above it, less one."""
_TIMEOUT_PROBLEM: Final = f"gives no answer within {TIMEOUT:.0f} seconds"
_PROBE_LABEL: Final = "windlass-check"
"""The label that stands for all labels of a domain that begins with `*.`."""


class ServerView(Struct, frozen=True):
    """The records of a domain at one name server."""

    server: str
    addresses: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    problem: str = ""


class DomainRecords(Struct, frozen=True):
    """The records of a domain at all name servers, and those that it should have."""

    name: str
    validation: str
    challenge: str
    views: tuple[ServerView, ...]
    expected: tuple[str, ...]
    """The addresses of this machine, which are those of `validation`."""

    @property
    def answered(self) -> Sequence[ServerView]:
        """The views of servers that gave a usable answer."""
        return [view for view in self.views if not view.problem]

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(address for view in self.answered for address in view.addresses))

    @property
    def problem(self) -> str:
        """Why the servers give no usable answer; empty if one of them does."""
        return "" if self.answered else next((view.problem for view in self.views), "There is no name server")

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(alias for view in self.answered for alias in view.aliases))

    @property
    def proxy(self) -> Proxy:
        return proxy_of_records(self.addresses, self.aliases)


async def look_at(ctx: Context, service: str, name: str) -> DomainRecords:
    """Asks each name server for the records of a domain of a service."""
    validation, challenge = validation_domain(ctx, service), challenge_value(ctx, service, name)
    servers = ctx.dns.servers[:_MAX_SERVERS]
    views, expected = await asyncio.gather(
        asyncio.gather(*(_view(ctx, server, name) for server in servers)),
        _first_addresses(ctx, servers, validation),
    )
    return DomainRecords(name, validation, challenge, tuple(views), expected)


def asked_name(name: str) -> str:
    """Returns the name whose addresses stand for a domain."""
    return (
        f"{_PROBE_LABEL}.{name.removeprefix(WILDCARD_PREFIX)}" if name.startswith(WILDCARD_PREFIX) else name
    )


async def _view(ctx: Context, server: NameServer, name: str) -> ServerView:
    try:
        async with asyncio.timeout(TIMEOUT):
            first, second, texts = await asyncio.gather(
                ctx.dns.ask(server, asked_name(name), RecordType.A),
                ctx.dns.ask(server, asked_name(name), RecordType.AAAA),
                ctx.dns.ask(server, challenge_name(name), RecordType.TXT),
            )
    except DnsFailure as error:
        return ServerView(str(server), problem=str(error))
    except TimeoutError:
        return ServerView(str(server), problem=f"{server} {_TIMEOUT_PROBLEM}")
    return ServerView(
        str(server),
        (*first.values, *second.values),
        tuple(dict.fromkeys((*first.aliases, *second.aliases))),
        texts.values,
    )


async def _first_addresses(ctx: Context, servers: Sequence[NameServer], name: str) -> tuple[str, ...]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT):
            for server in servers:
                try:
                    answers = await asyncio.gather(
                        ctx.dns.ask(server, name, RecordType.A), ctx.dns.ask(server, name, RecordType.AAAA)
                    )
                except DnsFailure:
                    continue
                return tuple(value for answer in answers for value in answer.values)
    return ()


def proof_of(ctx: Context, records: DomainRecords, *, use_cdn: bool) -> Proof:
    """Returns the kind of record that proves a domain; empty if none does.

    For a name with `*.`, only the TXT record counts: a CNAME of one label below it may belong to another
    person. Addresses count only if the operator trusts all organizations, and never those of a CDN, which
    are the same for all its customers.
    """
    if proof := record_proof_of(records):
        return proof
    if ctx.settings.domain_proof == "address" and not use_cdn and (found := set(records.addresses)):
        return "ADDRESS" if found <= set(records.expected) else ""
    return ""


def record_proof_of(records: DomainRecords) -> Literal["", "CNAME", "TXT"]:
    """Returns the kind of record that proves a domain, whatever its addresses are; empty if none does."""
    if not records.name.startswith(WILDCARD_PREFIX) and any(
        records.validation in view.aliases for view in records.answered
    ):
        return "CNAME"
    if any(records.challenge in view.texts for view in records.answered):
        return "TXT"
    return ""


def is_proved_for(ctx: Context, records: DomainRecords, service: str) -> bool:
    """Returns whether one of these records proves the domain for another service."""
    own = replace(
        records,
        validation=validation_domain(ctx, service),
        challenge=challenge_value(ctx, service, records.name),
    )
    return record_proof_of(own) != ""


def verdict_of(records: DomainRecords, *, use_cdn: bool) -> tuple[Verdict, str]:
    """Returns the result of a check in the words of the interface, and what has to be done; empty if
    nothing."""
    name, validation = records.name, records.validation
    if records.problem:
        return "GENERIC_FAILURE", records.problem
    if not records.addresses:
        is_linked = any(validation in view.aliases for view in records.answered)
        if is_linked:
            return "GENERIC_FAILURE", _no_address(validation)
        wanted = f"a CNAME record for {name} that points at {validation}"
        return "DOMAIN_NOT_CONFIGURED", f"Make {wanted}: it has no address yet"
    if use_cdn:
        return "RESOLVES_TO_IP", ""
    expected = set(records.expected)
    if any(validation in view.aliases for view in records.answered) or (
        expected and set(records.addresses) <= expected
    ):
        return "MATCHES_LOAD_BALANCER_HOST", ""
    there = ", ".join(records.addresses)
    if records.proxy:
        advice = "Set use_cdn, or switch the proxy off for this name (DNS only)"
        return "DOMAIN_LINKED_TO_WRONG_HOST", f"{advice}: it resolves to {title_of(records.proxy)} ({there})"
    return (
        "DOMAIN_LINKED_TO_WRONG_HOST",
        f"Point {name} at {validation} with a CNAME record: it resolves to {there}, and not to this machine",
    )


def _no_address(validation: str) -> str:
    domain = validation.partition(".")[2]
    return (
        f"Ask the operator of Windlass for an address record of *.{domain} (setting public_domain): "
        f"{validation}, where the name points at, has no address"
    )


def advice_of(records: DomainRecords) -> str:
    """Returns what has to be done so that a record proves a domain."""
    if records.problem:
        return f"{records.problem}."
    text = f"a TXT record {challenge_name(records.name)} with {records.challenge}"
    if records.name.startswith(WILDCARD_PREFIX):
        return f"Make {text}: no record proves that {records.name} is yours yet."
    return (
        f"Make a CNAME record for {records.name} that points at {records.validation}, or {text}: no record "
        "proves yet that the name is yours."
    )


async def caa_of(ctx: Context, name: str) -> tuple[tuple[str, ...], str]:
    """Returns the CAA records that count for a name, and the problem with them; see RFC 8659."""
    labels = name.removeprefix(WILDCARD_PREFIX).split(".")
    above = [".".join(labels[start:]) for start in range(len(labels) - 1)]
    for server in ctx.dns.servers[:1]:
        try:
            async with asyncio.timeout(TIMEOUT):
                for each in above[:_MAX_LABELS]:
                    records = await ctx.dns.ask(server, each, RecordType.CAA)
                    if records.values:
                        return records.values, ""
        except DnsFailure as error:
            return (), f"Authorities may refuse {name}: {error}"
        except TimeoutError:
            return (), f"Authorities may refuse {name}: {server} {_TIMEOUT_PROBLEM}"
    return (), ""
