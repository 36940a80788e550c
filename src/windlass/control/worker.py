"""The loop over the `work` table: claim what is due, do it, let go. All background work is here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from windlass.base.clock import DAY, HOUR, MINUTE, SECOND
from windlass.base.log import log
from windlass.control.context import Context
from windlass.control.reconcile import LEASE, LostClaim, reconcile
from windlass.control.services import RECONCILE
from windlass.store.store import Claim, Tx

SWEEP = "sweep"
_RETRY = (1 * SECOND, 5 * SECOND, 30 * SECOND, 5 * MINUTE)
_LONGEST_SLEEP = 60.0
_log = log("worker")

Job = Callable[[Context, Claim], Awaitable[None]]


async def sweep(ctx: Context, claim: Claim) -> None:
    """Lets go of what nobody asks for any more, and comes back in an hour."""

    async def change(tx: Tx) -> None:
        await tx.sweep(answers_before=tx.now - DAY, budgets_before=tx.now - 2 * HOUR)
        await tx.again(claim, tx.now + HOUR)

    await ctx.store.write(change)


JOBS: dict[str, Job] = {RECONCILE: reconcile, SWEEP: sweep}


class Worker:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._wake = asyncio.Event()
        self._running: dict[asyncio.Task[None], Claim] = {}
        ctx.store.listen(self._heard)

    @property
    def running(self) -> int:
        return len(self._running)

    def _heard(self, word: str) -> None:
        if word == "work":
            self._wake.set()

    async def run(self) -> None:
        """For ever: what is due, then sleep until something is, or until somebody nudges."""
        while True:
            self._wake.clear()
            try:
                await self.start_due()
                await self._sleep()
            except Exception:  # noqa: BLE001
                # The loop must outlive its items and a database that is away.
                _log.exception("the worker stumbled")
                await asyncio.sleep(1)

    async def start_due(self) -> int:
        """Claims what is due, as far as there is room, and starts it."""
        room = self._ctx.settings.parallel_deployments - len(self._running)
        if room <= 0:
            return 0
        claims = await self._ctx.store.write(lambda tx: tx.claim(LEASE, room))
        for claim in claims:
            task = asyncio.create_task(self._do(claim))
            self._running[task] = claim
            task.add_done_callback(self._finished)
        return len(claims)

    async def settle(self) -> None:
        """Does all that is due now, to the end. For tests, where time stands still."""
        while await self.start_due() or self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """Interrupted work is claimed again by whoever comes next, when its lease has ended."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._wake.set()

    async def _do(self, claim: Claim) -> None:
        keeper = asyncio.create_task(self._keep(claim))
        try:
            await JOBS[claim.kind](self._ctx, claim)
        except LostClaim:
            _log.warning("lost a claim", extra={"work": claim.id})
        except Exception:  # noqa: BLE001 (whatever goes wrong with one piece of work, the others go on)
            _log.exception(
                "work failed and will be tried again", extra={"work": claim.id, "kind": claim.kind}
            )
            await self._later(claim)
        finally:
            keeper.cancel()

    async def _keep(self, claim: Claim) -> None:
        """Prolongs the lease while the work goes on."""
        while True:
            await asyncio.sleep(LEASE / SECOND / 3)
            await self._ctx.store.write(lambda tx: tx.hold(claim, LEASE))

    async def _later(self, claim: Claim) -> None:
        wait = _RETRY[min(claim.attempts, len(_RETRY)) - 1]
        await self._ctx.store.write(lambda tx: tx.again(claim, tx.now + wait))

    async def _sleep(self) -> None:
        due = await self._ctx.store.reads.next_work()
        full = len(self._running) >= self._ctx.settings.parallel_deployments
        wait = _LONGEST_SLEEP
        if due is not None and not full:
            wait = min(wait, max(0.0, (due - self._ctx.clock.now()) / SECOND))
        try:
            await asyncio.wait_for(self._wake.wait(), wait)
        except TimeoutError:
            return
