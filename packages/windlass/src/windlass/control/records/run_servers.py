"""Addresses of the servers of a place, for runs that talk to Windlass: if the server that started a run is
gone, another one of its place takes its state.

Each server keeps its own address fresh, and one that is old is forgotten: something else may listen there.
"""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.base.clock import MINUTE
from windlass.store import Reads, Tx

FRESH: Final = 2 * MINUTE
"""The time for which an address is announced after its server was last seen."""
_RENEWED: Final = MINUTE // 2
_decode = msgspec.json.Decoder(dict[str, int]).decode


def _fact(place: str) -> str:
    return f"run_servers:{place}"


async def _read_fresh(source: Reads, place: str, now: int) -> dict[str, int]:
    """Returns the addresses that are fresh, with the time at which each server was last seen."""
    stored = await source.facts.get(_fact(place))
    return {address: at for address, at in _decode(stored or b"{}").items() if now - FRESH < at <= now}


async def announce_address(tx: Tx, place: str, address: str) -> None:
    """Notes that the server with this address runs; seldom writes."""
    seen = await _read_fresh(tx, place, tx.now)
    if address and tx.now - seen.get(address, 0) > _RENEWED:
        await tx.facts.set(_fact(place), msgspec.json.encode({**seen, address: tx.now}))


async def other_addresses(source: Reads, place: str, address: str, now: int) -> list[str]:
    """Returns the addresses of the other servers of a place, as runs there find them."""
    return sorted({*await _read_fresh(source, place, now)} - {address})
