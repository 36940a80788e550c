"""The orders of certificates in the last three hours, of all organizations.

An authority limits the orders of an account, which all organizations share. The ledger outlives domains, so
that neither a domain that is deleted and made again nor a certificate that is switched off and on again
starts from nothing.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Struct

from windlass.base.clock import HOUR
from windlass.store import Tx

WINDOW: Final = 3 * HOUR
"""Let's Encrypt permits an account 300 orders in this time."""
MOST_OF_NAME: Final = 5
MOST_OF_ORG: Final = 50
"""The orders of one organization for names without a certificate."""
MOST_OF_NEW_NAMES: Final = 200
"""All orders for names without a certificate. The others are left for renewals."""
MOST: Final = 280
_FACT: Final = "acme_orders"

Full = Literal["", "name", "organization", "installation"]


class PlacedOrder(Struct, frozen=True, array_like=True):
    name: str
    org: str
    since: int
    is_renewal: bool


async def enter_order(tx: Tx, name: str, org: str, *, is_renewal: bool) -> tuple[int, Full]:
    """Enters an order in the ledger. Returns 0; or when there is room for it again, and what has no room."""
    stored = await tx.facts.get(_FACT)
    former = msgspec.json.decode(stored, type=list[PlacedOrder]) if stored else []
    # A clock that was ahead does not keep orders in the ledger.
    recent = [each for each in former if tx.now - WINDOW < each.since <= tx.now]
    new = [each for each in recent if not each.is_renewal]
    limits: list[tuple[Full, list[PlacedOrder], int]] = [
        ("name", [each for each in recent if each.name == name], MOST_OF_NAME),
        ("installation", recent, MOST),
    ]
    if not is_renewal:
        limits += [
            ("organization", [each for each in new if each.org == org], MOST_OF_ORG),
            ("installation", new, MOST_OF_NEW_NAMES),
        ]
    waits = [(orders[-most].since + WINDOW, what) for what, orders, most in limits if len(orders) >= most]
    if waits:
        return max(waits)
    recent.append(PlacedOrder(name, org, tx.now, is_renewal))
    await tx.facts.set(_FACT, msgspec.json.encode(recent))
    return 0, ""
