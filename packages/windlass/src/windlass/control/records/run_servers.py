"""Addresses of the servers of a place, for runs that store their state in Windlass. If the server that
started a run is gone, another server of the same place accepts the state.

Each server renews its own address. Expired addresses are ignored, because another program may listen there.
"""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.base.clock import MINUTE
from windlass.store import Reads, Tx

ADDRESS_LIFETIME_MS: Final = 2 * MINUTE
"""Milliseconds for which an address is valid after its last renewal."""
_RENEWAL_INTERVAL_MS: Final = MINUTE // 2
_decode = msgspec.json.Decoder(dict[str, int]).decode


def _fact(place: str) -> str:
    return f"run_servers:{place}"


async def _read_fresh(reads: Reads, place: str, now: int) -> dict[str, int]:
    """Returns the valid addresses with the times of their last renewals."""
    stored = await reads.facts.get(_fact(place))
    return {
        address: at
        for address, at in _decode(stored or b"{}").items()
        if now - ADDRESS_LIFETIME_MS < at <= now
    }


async def announce_address(tx: Tx, place: str, address: str) -> None:
    """Renews the address of this server. Writes only if the last renewal is more than half a minute ago."""
    seen = await _read_fresh(tx, place, tx.now)
    if address and tx.now - seen.get(address, 0) > _RENEWAL_INTERVAL_MS:
        await tx.facts.set(_fact(place), msgspec.json.encode({**seen, address: tx.now}))


async def other_addresses(reads: Reads, place: str, address: str, now: int) -> list[str]:
    """Returns the addresses of the other servers of a place, as seen by runs."""
    return sorted({*await _read_fresh(reads, place, now)} - {address})
