"""Domains of services: how they are proved, who holds them, and their documents.

A domain is held once it is proved. The reservation is a row of the table `host`, whose key is the domain's
resource. A claim without a proof holds nothing, so that it never blocks the owner of the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from windlass.base.clock import instant, stamp
from windlass.base.errors import Invalid
from windlass.control.context.context import Context
from windlass.core.deploy.hosts import by_name
from windlass.core.words.domains import ascii_name, challenge_name, is_at_or_below
from windlass.engines.workload import WorkloadPort
from windlass.families.domain import domain
from windlass.store import NameRow, Reads, Row, Tx, route_topic

DOMAIN_WORK: Final = "domain"
"""The kind of work that looks at the records of a domain, and gets its certificate."""
DOMAIN_PREFIX: Final = "domain "
"""The prefix of names that are domains of users, followed by the domain."""
_TOKEN_DIGITS: Final = 20

State = Literal["UNPROVED", "PROVED"]

ORDERED_ORIGIN: Final = "ACME"
"""The origin of a certificate of an authority."""
UPLOADED_ORIGIN: Final = "UPLOADED"
"""The origin of a certificate that a user has uploaded."""
REMOVED_ORIGIN: Final = "REMOVED"
"""The origin of an uploaded certificate that is served until one of an authority takes its place."""


class StoredDomain(Struct, frozen=True):
    """The fields of a domain's document that the server reads."""

    domain: str
    generate_certificate: bool
    use_cdn: bool
    state: State
    certificate_state: str = "NONE"
    certificate_origin: str = ""
    problem: str = ""
    redirect_to: str = ""
    proof_lost_at: str | UnsetType | None = UNSET
    next_try_at: str | UnsetType | None = UNSET

    @property
    def name(self) -> str:
        """The domain in ASCII form."""
        return ascii_name(self.domain)

    @property
    def target(self) -> str:
        """The domain to which visitors are redirected, in ASCII form; empty for none."""
        return ascii_name(self.redirect_to) if self.redirect_to else ""

    @property
    def lost(self) -> int:
        """Since when no record proves the domain; 0 while one does."""
        return moment_of(self.proof_lost_at) if self.proof_lost_at else 0


def challenge_id(id: str) -> str:
    """Returns the id under which routers answer the challenge of an order."""
    return f"acme {id}"


def moment_of(text: str) -> int:
    return instant(datetime.fromisoformat(text))


def validation_domain(ctx: Context, service: str) -> str:
    """Returns the name that a CNAME record points at to prove a domain of a service. It cannot be guessed, so
    a record for one service proves nothing for another."""
    mark = ctx.encryption.mark(b"validation domain", service.encode())
    return f"w{mark[:_TOKEN_DIGITS]}.{ctx.settings.public_domain}".lower()


def delegation_domain(ctx: Context, service: str) -> str:
    """Returns the name below `public_domain` at which a service's certificates with `*.` are proved, if
    `_acme-challenge` of its domain points there with a CNAME record.

    It is another name than `validation_domain`: a record there would hide the address of `*.` from it.
    """
    mark = ctx.encryption.mark(b"challenge delegation", service.encode())
    return f"acme-{mark[:_TOKEN_DIGITS]}.{ctx.settings.public_domain}".lower()


def challenge_value(ctx: Context, service: str, name: str) -> str:
    """Returns the text of the TXT record that proves a domain of a service."""
    mark = ctx.encryption.mark(b"domain challenge", service.encode(), name.encode())
    return f"windlass={mark[:32]}"


def proof_fields(ctx: Context, service: str, name: str) -> dict[str, object]:
    """Returns the fields of a domain's document that say how it is proved."""
    return {
        "validation_domain": validation_domain(ctx, service),
        "challenge_name": challenge_name(name),
        "challenge_value": challenge_value(ctx, service, name),
    }


def live_certificate(expires: int, origin: str) -> dict[str, object]:
    """Returns the fields of a domain's document that say which certificate it has."""
    return {
        "certificate_state": "LIVE",
        "certificate_origin": origin,
        "certificate_expires_at": stamp(expires),
        "problem": "",
    }


def no_certificate() -> dict[str, object]:
    return {"certificate_origin": "", "certificate_expires_at": None}


def refuse_own_name(ctx: Context, name: str) -> None:
    """Refuses names of Windlass itself, which no service may serve."""
    settings = ctx.settings
    own_names = (urlsplit(settings.url).hostname or "", settings.console_domain)
    if any(_covers(name, own.lower()) for own in own_names if own):
        raise Invalid("domain: choose another name: this one belongs to the API and the console of Windlass")
    if is_at_or_below(name, settings.public_domain.lower()):
        raise Invalid(
            f"domain: choose a name outside {settings.public_domain}: names below it are those that Windlass "
            "gives to services"
        )


def _covers(name: str, windlass_domain: str) -> bool:
    """Returns whether a domain, which may begin with `*.`, is a name of Windlass or leads to it."""
    return name == windlass_domain or (name.startswith("*.") and is_at_or_below(windlass_domain, name[2:]))


def domain_names(rows: Iterable[NameRow]) -> list[NameRow]:
    """Returns the domains among the names of a service."""
    return [row for row in rows if row.name.startswith(DOMAIN_PREFIX)]


async def redirects_of(reads: Reads, service: str, names: Sequence[NameRow]) -> Mapping[str, str]:
    """Returns the domains of a service that redirect their visitors, each with the domain to which. Both are
    held by the service, and the second one redirects nowhere."""
    held = {plain_name(row): row.port for row in domain_names(names)}
    if len(held) < 2:
        return {}
    rows = await reads.resources.of_parent(service, domain.name)
    targets = {row.id: target for row in rows if (target := row.read(StoredDomain).target)}
    return {
        name: targets[id]
        for name, id in held.items()
        if id in targets and targets[id] in held and held[targets[id]] not in targets
    }


def plain_name(row: NameRow) -> str:
    return row.name.removeprefix(DOMAIN_PREFIX)


def port_of_domains(ports: Sequence[WorkloadPort]) -> WorkloadPort | None:
    """Returns the port that domains lead to: the default port, or else the first that has a host name."""
    named = [port for port in ports if by_name(port)]
    return next((port for port in named if port.default), named[0] if named else None)


async def release(tx: Tx, row: Row) -> None:
    """Releases the name of a domain, if the domain holds one."""
    for held in domain_names(await tx.names.of(row.parent)):
        if held.port == row.id:
            await tx.names.release(held)


async def hold(tx: Tx, row: Row, name: str, beats: Callable[[Row], bool]) -> bool:
    """Reserves the name of a proved domain. Takes it from a domain whose proof is lost, or is weaker as
    `beats` says. Returns whether the domain holds the name now."""
    held = await tx.names.holder(f"{DOMAIN_PREFIX}{name}")
    if held and held.port == row.id:
        return True
    if held:
        other = await tx.resources.find(domain.name, held.port)
        if other and not other.read(StoredDomain).lost and not beats(other):
            return False
        if other:
            await withdraw(tx, other, "Another service of this installation proves this domain now.")
        else:
            await tx.names.release(held)
    taken = await tx.names.reserve(f"{DOMAIN_PREFIX}{name}", row.parent, row.id)
    tx.nudge(route_topic(row.parent))
    return taken is not None


async def withdraw(tx: Tx, row: Row, problem: str) -> None:
    """Ends the service of a domain that is not proved any more."""
    await release(tx, row)
    await tx.certificates.delete_of(row.id)
    await change_document(
        tx,
        row,
        {
            "state": "UNPROVED",
            "certificate_state": "NONE",
            "problem": problem,
            "proved_at": None,
            "proof_lost_at": None,
            **no_certificate(),
        },
    )


async def change_document(tx: Tx, row: Row, fields: dict[str, object]) -> None:
    """Changes fields that the server maintains. A field that becomes None is left out."""
    before = msgspec.json.decode(row.body)
    after = {
        name: value for name, value in (before | fields).items() if name not in fields or value is not None
    }
    if after != before:
        await tx.resources.rewrite(row.id, msgspec.json.encode(after))


def stamp_or_none(timestamp: int) -> str | None:
    return stamp(timestamp) if timestamp else None
