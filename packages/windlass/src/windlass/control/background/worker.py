"""The loop over the `work` table, which does all background work: claims due work, performs it, and releases
it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from msgspec import Struct, field

from windlass.base.clock import MINUTE, SECOND
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.base.outage import Outage
from windlass.base.slot_waits import waiting
from windlass.base.turn_budget import TurnBudget
from windlass.builders.builder import BuilderUnavailable
from windlass.control.background import housekeeping
from windlass.control.background.auto_deploy import deploy_new_commit
from windlass.control.background.challenge_records import REMOVE_RECORDS, remove_records
from windlass.control.background.comment_work import carry_out_comments
from windlass.control.background.domain_work import tend_domain
from windlass.control.background.image_push_work import pass_on_image_pushes
from windlass.control.background.own_names import tend_own_certificate
from windlass.control.background.preview_work import tend_preview
from windlass.control.background.pull_request_work import look_at_pull_requests
from windlass.control.background.push_work import pass_on_pushes
from windlass.control.background.resealing import RESEAL, reseal_as_work
from windlass.control.background.running_hours import follow_hours
from windlass.control.background.timetables import start_due_runs
from windlass.control.context.context import Context
from windlass.control.deploying.job_runs import execute_run
from windlass.control.deploying.ledger import LostClaim
from windlass.control.deploying.reconcile import reconcile
from windlass.control.records.branch_watches import AUTO_DEPLOY
from windlass.control.records.deployments import RECONCILE
from windlass.control.records.domains import DOMAIN_WORK
from windlass.control.records.git_webhooks import COMMENT_WORK, PUSH_WORK
from windlass.control.records.outbox import DELIVERY_WORK
from windlass.control.records.own_certificates import TEND_OWN
from windlass.control.records.previews import PREVIEW_WORK as PREVIEW
from windlass.control.records.previews import PULL_REQUEST_WORK
from windlass.control.records.registry_webhooks import IMAGE_PUSH_WORK
from windlass.control.records.running_hours import HOURS_WORK
from windlass.control.records.runs import EXPIRY_WORK, RUN_WORK, TIMETABLES_WORK, expire_run
from windlass.control.reporting.delivery import deliver
from windlass.control.request import idempotency
from windlass.control.request.deleting import DISCARD, DISCARD_ELSEWHERE
from windlass.control.workloads.repositories import COPY_REPOSITORY, copy_repository
from windlass.engines.engine import EngineUnavailable
from windlass.store import Claim, Idle, Queue, Tx, is_owned, work_class

LEASE_TIME = 15 * SECOND
"""Milliseconds until the work of a killed worker is due again. A live worker renews its lease after a third
of this time."""
_RETRY_PAUSES = (1 * SECOND, 5 * SECOND, 30 * SECOND, 5 * MINUTE)
_MAX_SLEEP = 60.0
_SPARE_CHECK_SECONDS = 2.0
"""Seconds between checks for further due work while all slots, or those of one environment, are occupied."""
_ERROR_PAUSE = 1.0
"""Seconds until the loop continues after an error."""
_TAKEN_OVER_WARNING = (
    "work is taken over: the server that did it was killed, paused, or cut off from the database"
)
_LOST_LEASE_WARNING = (
    "work was taken over by another server: this one was paused, or cut off from the database"
)
QUICK_SLOTS, CALLING_SLOTS, BRANCH_SLOTS = 8, 256, 4
"""Slots for quick work, for work that waits for external servers, and for work that starts git."""
CALLING_SHARE = 2
"""The part of the slots for external servers that one organization may have: their servers decide how long
such work takes."""
RUN_SLOTS = 1024
"""Slots for job runs, which only wait for an engine."""
_MAX_CLAIMED = 64
"""The largest number of work items that one transaction claims. Larger transactions would delay API
requests."""
_log = log("worker")

WorkFunction = Callable[[Context, Claim], Coroutine[Any, Any, None]]


def work_functions() -> dict[str, WorkFunction]:
    """Returns the function for each kind of work."""
    return {
        RECONCILE: reconcile,
        housekeeping.SWEEP: housekeeping.sweep,
        housekeeping.TIDY: housekeeping.tidy,
        housekeeping.TIDY_ELSEWHERE: housekeeping.tidy_elsewhere,
        DISCARD: housekeeping.discard,
        DISCARD_ELSEWHERE: housekeeping.discard,
        housekeeping.SCALE: housekeeping.Autoscaler().scale,
        housekeeping.SCALE_ELSEWHERE: housekeeping.Autoscaler(elsewhere=True).scale,
        DELIVERY_WORK: deliver,
        idempotency.ERASE_SECRETS: idempotency.forget,
        RESEAL: reseal_as_work,
        AUTO_DEPLOY: deploy_new_commit,
        PUSH_WORK: pass_on_pushes,
        COMMENT_WORK: carry_out_comments,
        IMAGE_PUSH_WORK: pass_on_image_pushes,
        PULL_REQUEST_WORK: look_at_pull_requests,
        PREVIEW: tend_preview,
        HOURS_WORK: follow_hours,
        COPY_REPOSITORY: copy_repository,
        TIMETABLES_WORK: start_due_runs,
        EXPIRY_WORK: expire_run,
        RUN_WORK: execute_run,
        DOMAIN_WORK: tend_domain,
        TEND_OWN: tend_own_certificate,
        REMOVE_RECORDS: remove_records,
    }


class WorkQueue(Struct):
    """A class of work with its own slots, so that quick work never waits behind slow work."""

    number: int
    slots: int
    running: dict[asyncio.Task[None], Claim] = field(default_factory=dict)
    waiting: set[asyncio.Task[None]] = field(default_factory=set)
    """Running work that only waits, either for other work or for a program to become ready."""
    of_environments: set[asyncio.Task[None]] = field(default_factory=set)
    """Running work in the extra slots for idle environments; see `has_spare`."""

    @property
    def holding_slots(self) -> set[asyncio.Task[None]]:
        """Running work that occupies a slot, without waiting work."""
        return self.running.keys() - self.waiting

    @property
    def room(self) -> int:
        return self.slots - len(self.holding_slots)

    def room_of_environments(self) -> dict[str, int]:
        """Returns the number of free slots of each environment with work in progress. Waiting work is
        included in the limit, so that a thousand restarts in one environment do not start at once."""
        most = self.slots // CALLING_SHARE if self.number == Queue.DELIVER else self.slots
        running = Counter(claim.key for claim in self.running.values())
        return {key: most - count for key, count in running.items()}

    @property
    def has_room_for_all(self) -> bool:
        return min(self.slots, self.room, *self.room_of_environments().values()) > 0

    def has_spare(self, idle: Idle) -> bool:
        """Returns whether there is a free extra slot while all slots are occupied. One extra slot is for
        organizations without work in progress, and one for environments without work in progress."""
        if idle is Idle.ENVIRONMENT:
            return not self.holding_slots & self.of_environments
        return len(self.holding_slots - self.of_environments) <= self.slots


class Worker:
    def __init__(self, ctx: Context, lease: int = LEASE_TIME) -> None:
        self._ctx = ctx
        self._lease = lease
        self._wake = asyncio.Event()
        self._functions = work_functions()
        self._budget = TurnBudget()
        self._queues: dict[int, WorkQueue] = {}
        self._outage = Outage(_log, "the worker waits for the database", "the worker goes on")
        self._claiming: asyncio.Task[int] | None = None
        ctx.store.listen(self._note_nudge, "work")

    @property
    def running(self) -> int:
        return len(self._all())

    def _note_nudge(self, topic: str) -> None:
        if topic == "work":
            self._wake.set()

    async def run(self) -> None:
        """Runs due work in an endless loop. Sleeps until more work is due or a notification of the store
        arrives."""
        while True:
            self._wake.clear()
            try:
                await self.start_due()
                if self._outage.lasts and not await self._ctx.store.problem():
                    self._outage.end()
                await self._sleep()
            except Unavailable as error:
                self._outage.note(str(error))
                await asyncio.sleep(_ERROR_PAUSE)
            except Exception:  # noqa: BLE001 (the loop must outlive its items)
                _log.exception("the worker stumbled")
                await asyncio.sleep(_ERROR_PAUSE)

    async def start_due(self) -> int:
        """Claims and starts due work, as far as slots are free. Returns the number of claims."""
        # A cancellation must not interrupt the claiming task: its claims would be lost.
        self._claiming = asyncio.create_task(self._start_due())
        return await asyncio.shield(self._claiming)

    async def _start_due(self) -> int:
        due, now = await self._ctx.store.reads.work.due(), self._ctx.clock.now()
        ready = self._order(number for number, since in self._claimable(due).items() if since <= now)
        return sum([await self._start_from(number) for number in ready])

    def _claimable(self, queues: Mapping[int, int]) -> Mapping[int, int]:
        """Returns the queues from which this server may claim, without queues of places that other servers
        own."""
        return {number: due for number, due in queues.items() if self._ctx.ownership.may_claim(number)}

    def _order(self, queues: Iterable[int]) -> list[int]:
        """Sorts queues by priority: deployments first, other work later, and builds after work without a
        build."""
        later = {Queue.QUICK, Queue.DELIVER, Queue.BRANCHES, self._ctx.ownership.queues.housekeeping}
        return sorted(queues, key=lambda number: (number in later, number < 0, number))

    def _queue(self, number: int) -> WorkQueue:
        if number not in self._queues:
            self._queues[number] = WorkQueue(number, self._slots(number))
        return self._queues[number]

    def _slots(self, number: int) -> int:
        """Returns the number of slots of a queue. Most queues contain deployments of this machine or of a
        cluster."""
        fixed: dict[int, int] = {
            Queue.QUICK: QUICK_SLOTS,
            self._ctx.ownership.queues.housekeeping: QUICK_SLOTS,
            Queue.DELIVER: CALLING_SLOTS,
            Queue.BRANCHES: BRANCH_SLOTS,
        }
        usual = RUN_SLOTS if work_class(number) is Queue.RUNS else self._ctx.settings.parallel_deployments
        return fixed.get(number, usual)

    async def _start_from(self, number: int) -> int:
        queue = self._queue(number)
        room = min(_MAX_CLAIMED, queue.room)
        spare = await self._spare_of(queue) if room <= 0 else None
        if room <= 0 and spare is None:
            return 0
        owner = self._ctx.ownership.holder if is_owned(number) else None
        limits = queue.room_of_environments()
        claims = await self._ctx.store.write(
            lambda tx: tx.work.claim(self._lease, max(room, 1), number, owner, spare, limits)
        )
        for claim in claims:
            if claim.is_taken_over:
                _log.warning(_TAKEN_OVER_WARNING, extra={"work": claim.id, "kind": claim.kind})
            self._start(self._queue(number), claim, spare)
        if spare and claims:
            self._wake.set()  # there may be more extra slots
        return len(claims)

    async def _spare_of(self, queue: WorkQueue) -> Idle | None:
        """Returns for whom an extra slot may be used: an organization or an environment that has due work but
        none in progress. None if there is none."""
        if not _has_spares(queue.number):
            return None
        now = self._ctx.clock.now()
        for idle in filter(queue.has_spare, Idle):
            pieces, _ = await self._ctx.store.reads.work.next_pieces(queue.number, 1, now, idle)
            if pieces:
                return idle
        return None

    def _start(self, queue: WorkQueue, claim: Claim, spare: Idle | None) -> None:
        # If this work item is running already, this process was paused past its lease, and the earlier task
        # has lost its claim.
        earlier = [task for task, held in queue.running.items() if held.id == claim.id]
        for task in earlier:
            task.cancel()
        started = asyncio.create_task(self._do(queue, claim, earlier))
        queue.running[started] = claim
        if spare is Idle.ENVIRONMENT:
            queue.of_environments.add(started)
        started.add_done_callback(self._forget_task)

    @contextmanager
    def _note_wait(self, queue: WorkQueue, task: asyncio.Task[None]) -> Iterator[None]:
        if task in queue.waiting:
            yield
            return
        queue.waiting.add(task)
        self._wake.set()
        try:
            yield
        finally:
            queue.waiting.discard(task)

    def _all(self) -> dict[asyncio.Task[None], Claim]:
        return {task: claim for queue in self._queues.values() for task, claim in queue.running.items()}

    async def settle(self) -> None:
        """Performs all due work to its end. For tests, in which the clock does not advance."""
        while True:
            # Work that ends during `start_due` frees a slot for work that had no slot before.
            idle = not self.running
            if await self.start_due() == 0 and idle:
                return
            if self.running:
                await asyncio.wait(self._all(), return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        """Stops the worker. Interrupted work is due again at once, for the next worker. If `stop` is
        cancelled because the database does not respond, the work is ended all the same."""
        try:
            if self._claiming:
                await asyncio.wait([self._claiming])
        finally:
            running = await self._end_all()
        interrupted = [claim for task, claim in running.items() if task.cancelled()]
        if interrupted:
            await self._release_claims(interrupted)

    async def _end_all(self) -> Mapping[asyncio.Task[None], Claim]:
        if self._claiming:
            self._claiming.cancel()
        running = self._all()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return running

    async def _release_claims(self, claims: Sequence[Claim]) -> None:
        async def change(tx: Tx) -> None:
            for claim in claims:
                await _release_claim(tx, claim, tx.now, claim.attempts - 1)

        try:
            await self._ctx.store.write(change)
        except Unavailable:
            _log.warning("interrupted work waits for the end of its lease", extra={"pieces": len(claims)})

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        for queue in self._queues.values():
            queue.running.pop(task, None)
            queue.of_environments.discard(task)
        self._queues = {number: queue for number, queue in self._queues.items() if queue.running}
        self._wake.set()

    async def _do(self, queue: WorkQueue, claim: Claim, earlier_tasks: Sequence[asyncio.Task[None]]) -> None:
        own = asyncio.current_task()
        assert own is not None
        waiting.set(partial(self._note_wait, queue, own))
        keeper = asyncio.create_task(self._renew_lease(claim, own))
        try:
            if earlier_tasks:
                await asyncio.wait(earlier_tasks)
            await self._budget.run(self._functions[claim.kind](self._ctx, claim))
        except LostClaim:
            _log.warning(_LOST_LEASE_WARNING, extra={"work": claim.id, "kind": claim.kind})
            keeper.cancel()  # The lease task would notice the loss, too, and interrupt the check.
            await self._look_again(claim)
        except asyncio.CancelledError:
            if keeper.done():  # The lease task has cancelled this task, because the claim is lost.
                await self._look_again(claim)
            raise
        except (EngineUnavailable, BuilderUnavailable, Unavailable) as error:
            _log.warning("work waits", extra={"work": claim.id, "kind": claim.kind, "why": str(error)})
            await self._retry_later(claim)
        except Exception:  # noqa: BLE001 (whatever goes wrong with one piece of work, the others continue)
            _log.exception(
                "work failed and will be tried again", extra={"work": claim.id, "kind": claim.kind}
            )
            await self._retry_later(claim)
        finally:
            keeper.cancel()

    async def _renew_lease(self, claim: Claim, work: asyncio.Task[None]) -> None:
        """Renews the lease while the work runs. Cancels the work if another worker has claimed it."""
        while True:
            await asyncio.sleep(self._lease / SECOND / 3)
            try:
                held = await self._ctx.store.write(lambda tx: tx.work.renew_lease(claim, self._lease))
            except Unavailable:
                continue  # The lease may survive the outage. If not, the claim's epoch prevents double work.
            if not held:
                _log.warning(_LOST_LEASE_WARNING, extra={"work": claim.id, "kind": claim.kind})
                work.cancel()
                return

    async def _look_again(self, claim: Claim) -> None:
        try:
            await self._ctx.store.write(lambda tx: _ask_to_look(tx, claim))
        except Unavailable:
            _log.warning("could not ask to look again", extra={"work": claim.id})

    async def _retry_later(self, claim: Claim) -> None:
        wait = _RETRY_PAUSES[min(claim.attempts, len(_RETRY_PAUSES)) - 1]
        try:
            await self._ctx.store.write(lambda tx: _release_claim(tx, claim, tx.now + wait, claim.attempts))
        except Unavailable:
            _log.warning("failed work waits for the end of its lease", extra={"work": claim.id})

    async def _sleep(self) -> None:
        wait, now = _MAX_SLEEP, self._ctx.clock.now()
        for number, due in self._claimable(await self._ctx.store.reads.work.due()).items():
            queue = self._queue(number)
            if due > now or queue.has_room_for_all:
                wait = min(wait, max(0.0, (due - now) / SECOND))
            elif queue.room > 0 or _has_spares(number):  # Other work may become due.
                wait = min(wait, _SPARE_CHECK_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()


def _has_spares(number: int) -> bool:
    """Returns whether a queue has extra slots for organizations and environments without work in progress:
    queues of deployments and of branch checks do."""
    return work_class(number) in {Queue.RECONCILE, Queue.BRANCHES, None}


async def _release_claim(tx: Tx, claim: Claim, due_at: int, attempts: int) -> None:
    """Releases the claim and reschedules the work, unless another worker has claimed it."""
    if not await tx.work.reschedule(claim, due_at, attempts):
        await _ask_to_look(tx, claim)


async def _ask_to_look(tx: Tx, claim: Claim) -> None:
    """Schedules another check of the service. The worker with the new claim may not have seen what this
    worker started just before the loss."""
    if claim.kind == RECONCILE:
        await tx.work.schedule(RECONCILE, claim.id)
