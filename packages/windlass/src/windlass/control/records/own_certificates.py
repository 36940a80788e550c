"""Certificates for the names below `public_domain`, which Windlass gives to services.

With a provider of DNS, one certificate with `*.` is for all of them. Without one, each name has its own.
"""

from __future__ import annotations

from typing import Final

from windlass.base.certificates import covers
from windlass.control.context.context import Context
from windlass.control.records.order_ledger import (
    CERTIFICATES_WARNING_COUNT,
    MAX_CERTIFICATES_PER_WEEK,
    orders_of_week,
)
from windlass.core.words.domains import WILDCARD_PREFIX, BadDomain, ascii_name
from windlass.store import Reads, Tx

TEND_OWN: Final = "own certificate"
"""The kind of work that gets these certificates. Its id is the name with `*.`, or that of `work_of_names`."""
_NAMES_PREFIX: Final = "names "


def shared_certificate(ctx: Context) -> str:
    """Returns the name of the certificate for all names below `public_domain`, which is also its id; empty if
    there is none."""
    return f"{WILDCARD_PREFIX}{domain}" if ctx.zones and (domain := _domain(ctx)) else ""


def domain_of_own_certificates(ctx: Context) -> str:
    """Returns the domain whose names have one certificate each; empty if they have none, or share one."""
    return "" if ctx.zones else _domain(ctx)


def _domain(ctx: Context) -> str:
    settings = ctx.settings
    is_wanted = settings.public_domain_certificates and settings.https_port and settings.acme_directory
    if not is_wanted:
        return ""
    try:
        return ascii_name(settings.public_domain)
    except BadDomain:  # a name of this machine only, such as localhost
        return ""


def console_certificate(ctx: Context) -> str:
    """Returns the name of the certificate for the console, which is also its id; empty if there is none."""
    settings, shared = ctx.settings, shared_certificate(ctx)
    if not (settings.console_domain and settings.https_port and settings.acme_directory):
        return ""
    try:
        name = ascii_name(settings.console_domain)
    except BadDomain:  # a name of this machine only, such as windlass.localhost
        return ""
    return "" if shared and covers([shared], name) else name


def work_of_names(service: str) -> str:
    """Returns the id of the work that gets the certificates for the names of one service."""
    return f"{_NAMES_PREFIX}{service}"


def service_of_work(id: str) -> str:
    return id.removeprefix(_NAMES_PREFIX)


async def schedule_own(ctx: Context, tx: Tx, service: str, org: str) -> None:
    """Schedules certificates for the names of a service that is deployed, unless they share one."""
    if domain_of_own_certificates(ctx):
        await tx.work.schedule(TEND_OWN, work_of_names(service), org=org)


async def schedule_shared(ctx: Context, tx: Tx) -> None:
    """Schedules the certificates that belong to no service."""
    for name in filter(None, (shared_certificate(ctx), console_certificate(ctx))):
        await tx.work.schedule(TEND_OWN, name)


class SecureNames:
    """The names of a service that visitors can open by HTTPS: those with a valid certificate, or all of them,
    if a proxy in front has the certificates."""

    def __init__(self, names: frozenset[str], *, has_all: bool = False) -> None:
        self._names, self._has_all = names, has_all

    def __contains__(self, host: object) -> bool:
        return self._has_all or (isinstance(host, str) and covers(self._names, host))


async def secure_names(ctx: Context, reads: Reads, service: str) -> SecureNames:
    if not ctx.settings.https_port:
        # With a port for visitors only, a proxy in front ends HTTPS.
        return SecureNames(frozenset(), has_all=bool(ctx.settings.public_https_port))
    now = ctx.clock.now()
    own, shared = await reads.certificates.live(service, now), await reads.certificates.live("", now)
    return SecureNames(frozenset(own | shared))


async def remark_about(ctx: Context, reads: Reads, host: str, *, is_secure: bool) -> str:
    """Returns what is to be said about the certificate for a name of a service; empty if nothing."""
    if not is_secure and (shared := shared_certificate(ctx)):
        order = await reads.certificates.order(shared)
        return order.message if order else ""
    domain = domain_of_own_certificates(ctx)
    if not domain:
        return ""
    order = None if is_secure else await reads.certificates.order(host)
    if order and order.message:
        return order.message
    count = await orders_of_week(reads, domain, ctx.clock.now())
    if count < CERTIFICATES_WARNING_COUNT:
        return ""
    return (
        f"Ask the operator of Windlass to set dns_provider: {count} of {MAX_CERTIFICATES_PER_WEEK} new "
        f"certificates in a week are used for names below {domain}."
    )
