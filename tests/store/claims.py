"""Claims on work in a store, as the tests make them."""

from __future__ import annotations

from windlass.control.background.worker import LEASE_TIME
from windlass.store import Claim, Queue, Store, Tx, builds_beside

KIND = "reconcile"


async def ask(store: Store, id: str = "a", due: int | None = None) -> None:
    await store.write(lambda tx: tx.work.schedule(KIND, id, due))


async def claim(store: Store, most: int = 1) -> list[Claim]:
    async def change(tx: Tx) -> list[Claim]:
        claims = await tx.work.claim(LEASE_TIME, most)
        return claims + await tx.work.claim(LEASE_TIME, most - len(claims), builds_beside(Queue.RECONCILE))

    return await store.write(change)


async def one(store: Store) -> Claim:
    (claimed,) = await claim(store)
    return claimed


async def next_due(store: Store) -> int | None:
    return (await store.reads.work.due()).get(Queue.RECONCILE)


async def held(store: Store, claimed: Claim) -> bool:
    return await store.write(lambda tx: tx.work.held(claimed))


async def finish(store: Store, claimed: Claim) -> None:
    await store.write(lambda tx: tx.work.done(claimed))
