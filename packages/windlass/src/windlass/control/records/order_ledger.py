"""The orders of certificates in the last three hours, of all organizations, and the new ones of a week.

An authority limits the orders of an account, which all organizations share. The ledger outlives domains, so
that neither a domain that is deleted and made again nor a certificate that is switched off and on again
starts from nothing.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Struct

from windlass.base.clock import DAY, HOUR
from windlass.core.words.domains import is_at_or_below
from windlass.store import Reads, Tx

ORDERS_WINDOW: Final = 3 * HOUR
"""Let's Encrypt permits an account 300 orders in this time."""
MAX_ORDERS_OF_NAME: Final = 5
MAX_ORDERS_OF_ORG: Final = 50
"""The orders of one organization for names without a certificate."""
MAX_ORDERS_FOR_NEW_NAMES: Final = 200
"""All orders for names without a certificate. The others are left for renewals."""
MAX_ORDERS: Final = 280
WEEK: Final = 7 * DAY
MAX_CERTIFICATES_PER_WEEK: Final = 45
"""The new certificates in a week for names below one domain. Let's Encrypt permits 50 for a registered
domain."""
MAX_CERTIFICATES_OF_ORG_PER_WEEK: Final = 36
"""Those of one organization. The others are left for other organizations."""
CERTIFICATES_WARNING_COUNT: Final = 30
"""The number of them from which on users are told."""
_FACT_NAME: Final = "acme_orders"
_FACT_OF_WEEK: Final = "acme_orders_of_week"

Full = Literal["", "name", "organization", "installation", "names"]


class CertificateOrderEntry(Struct, frozen=True, array_like=True):
    name: str
    org: str
    since: int
    is_renewal: bool


async def enter_order(
    tx: Tx, name: str, org: str, *, is_renewal: bool, weekly: str = "", ledger: str = ""
) -> tuple[int, Full]:
    """Enters an order in the ledger. Returns 0; or when there is room for it again, and what has no room.

    `weekly`: the domain whose new certificates are counted by the week. `ledger`: the authority whose limits
    count; empty for the usual one.
    """
    fact, fact_of_week = (f"{each} {ledger}" if ledger else each for each in (_FACT_NAME, _FACT_OF_WEEK))
    recent = await _orders_since(tx, fact, tx.now, ORDERS_WINDOW)
    new = [each for each in recent if not each.is_renewal]
    limits: list[tuple[Full, list[CertificateOrderEntry], int]] = [
        ("name", [each for each in recent if each.name == name], MAX_ORDERS_OF_NAME),
        ("installation", recent, MAX_ORDERS),
    ]
    if not is_renewal:
        limits += [
            ("organization", [each for each in new if each.org == org], MAX_ORDERS_OF_ORG),
            ("installation", new, MAX_ORDERS_FOR_NEW_NAMES),
        ]
    waits = [
        (orders[-most].since + ORDERS_WINDOW, what) for what, orders, most in limits if len(orders) >= most
    ]
    of_week = await _orders_since(tx, fact_of_week, tx.now, WEEK) if weekly and not is_renewal else []
    of_domain = [each for each in of_week if is_at_or_below(each.name, weekly)]
    of_org = [each for each in of_domain if each.org == org]
    for orders, most in ((of_domain, MAX_CERTIFICATES_PER_WEEK), (of_org, MAX_CERTIFICATES_OF_ORG_PER_WEEK)):
        if len(orders) >= most:
            waits.append((orders[-most].since + WEEK, "names"))
    if waits:
        return max(waits)
    placed = CertificateOrderEntry(name, org, tx.now, is_renewal)
    await tx.facts.set(fact, msgspec.json.encode([*recent, placed]))
    if weekly and not is_renewal:
        await tx.facts.set(fact_of_week, msgspec.json.encode([*of_week, placed]))
    return 0, ""


async def orders_of_week(reads: Reads, domain: str, now: int) -> int:
    """Returns the number of new certificates in the last week for names below a domain."""
    placed = await _orders_since(reads, _FACT_OF_WEEK, now, WEEK)
    return sum(is_at_or_below(each.name, domain) for each in placed)


async def _orders_since(reads: Reads, fact: str, now: int, window: int) -> list[CertificateOrderEntry]:
    stored = await reads.facts.get(fact)
    former = msgspec.json.decode(stored, type=list[CertificateOrderEntry]) if stored else []
    # A clock that was ahead does not keep orders in the ledger.
    return [each for each in former if now - window < each.since <= now]
