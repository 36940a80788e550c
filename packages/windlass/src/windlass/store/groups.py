"""Group commit: changes that arrive during a commit are committed together as the next group.

Every caller gets a result, even if the whole group fails.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from windlass.base.clock import Clock
from windlass.base.commit_thread import settle
from windlass.base.errors import Unavailable
from windlass.base.fair_share import FairShare
from windlass.base.log import log
from windlass.base.outage import Outage
from windlass.base.trace import start_untraced
from windlass.base.turn_budget import in_background
from windlass.store.chain import ChainEnd
from windlass.store.tables.table import DatabaseSession, Measured, NewEvent
from windlass.store.transaction import Tx, Write

T = TypeVar("T")

MAX_REQUEST_CHANGES, MAX_BACKGROUND_CHANGES = 128, 8
"""Largest number of changes in a group: from requests, and from background work. A request that arrives just
after the start of a group waits for the whole group."""
_log = log("store")

Measurer = Callable[[str, float, tuple[str, ...]], None]
"""A function that records a measurement, given by its name, seconds and labels."""
Outcome = tuple[Any, Exception | None]
"""The result of a change, or the exception that it raised."""


class ChangingSession(DatabaseSession, Protocol):
    """The connection on which a group of changes runs."""

    @property
    def touched(self) -> bool:
        """Whether the last attempted change has written to the database."""
        ...

    async def begin(self) -> None: ...

    async def execute(self, statements: str) -> object: ...

    async def attempt(self, change: Write[Any], tx: Tx) -> Outcome:
        """Runs one change, and returns its outcome. Raises only if the whole group cannot be stored."""
        ...


class _GroupFailed(Exception):
    """Raised if a change failed after it had written, so that the group has to be repeated."""


class QueuedChange(Struct, eq=False, gc=False):
    change: Write[Any]
    answer: asyncio.Future[Any]


class GroupCommit:
    """A queue of changes that are committed in groups. Subclasses implement `_commit` for each database."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = ChainEnd()
        self.writes = self.groups = 0
        self._waiting: deque[QueuedChange] = deque()
        self._waiting_behind: deque[QueuedChange] = deque()
        """Changes from background work."""
        self._committing: asyncio.Task[None] | None = None
        self._listeners: defaultdict[str, list[Callable[[str], None]]] = defaultdict(list)
        """Functions to call for nudges, by the first part of the word. An empty key stands for all words."""
        self._measurer: Measurer = _count_nothing
        self._measured: list[Measured] = []
        """Measurements of the group that is being committed."""
        self._outage = Outage(_log, "changes could not be committed", "changes are committed again")
        self._closed = False
        self._loop = asyncio.get_running_loop()

    @property
    def stores_changes(self) -> bool:
        """Returns False while changes cannot be committed, as the last group could not."""
        return not self._outage.lasts

    def listen(self, listener: Callable[[str], None], *kinds: str) -> None:
        for kind in kinds or ("",):
            self._listeners[kind].append(listener)

    def measure_with(self, measurer: Measurer) -> None:
        self._measurer = measurer

    async def write(self, change: Write[T]) -> T:
        if self._closed:
            raise Unavailable("This server is stopping; nothing was changed")
        answer: asyncio.Future[T] = self._loop.create_future()
        queue = self._waiting_behind if in_background.get() else self._waiting
        queue.append(QueuedChange(change, answer))
        if self._committing is None or self._committing.done():
            self._committing = start_untraced(self._drain())
        return await answer

    async def _commit(self, changes: Sequence[Write[Any]]) -> tuple[Sequence[Outcome], Iterable[str]]:
        """Runs changes in one transaction as if each were alone. Returns their outcomes and nudges after the
        commit.

        Raises if the group as a whole failed.
        """
        raise NotImplementedError

    async def _run_all(
        self, session: ChangingSession, tx: Tx, changes: Sequence[Write[Any]]
    ) -> tuple[Sequence[Outcome], Iterable[str]]:
        """Runs a group without savepoints. If a change fails after it has written, runs the whole group again
        with a savepoint for each change.

        A savepoint costs as much as a small change, and two more round trips to PostgreSQL.
        """
        try:
            return await self._run_each(session, tx, changes, apart=False)
        except _GroupFailed:
            await session.execute("ROLLBACK")
            return await self._run_each(session, tx, changes, apart=True)

    async def _run_each(
        self, session: ChangingSession, tx: Tx, changes: Sequence[Write[Any]], *, apart: bool
    ) -> tuple[Sequence[Outcome], Iterable[str]]:
        await session.begin()
        outcomes: list[Outcome] = []
        events: list[NewEvent] = []
        nudges: dict[str, None] = {}
        self._measured = []
        tx.resources.read_again()
        written, share = tx.session, FairShare()
        for change in changes:
            await share.pause()
            written.begin(self._clock.now())
            if apart:
                outcome = await _run_in_savepoint(session, change, tx)
            else:
                outcome = await session.attempt(change, tx)
                if outcome[1] is not None and session.touched:
                    raise _GroupFailed
            outcomes.append(outcome)
            if outcome[1] is None:
                events += written.emitted
                nudges |= dict.fromkeys(written.nudges)
                self._measured += written.measured
            else:
                tx.resources.read_again()
        await tx.events.add(events, self._end)
        return outcomes, nudges

    async def _wind_up(self) -> None:
        """Refuses new changes, and waits until the queued changes are stored."""
        self._closed = True
        if self._committing:
            try:
                await asyncio.wait([self._committing])
            finally:
                # The wait is cancelled if the database does not respond; then the commit is cancelled too.
                self._committing.cancel()

    async def _drain(self) -> None:
        while self._waiting or self._waiting_behind:
            taken = [
                *_next_changes(self._waiting, MAX_REQUEST_CHANGES),
                *_next_changes(self._waiting_behind, MAX_BACKGROUND_CHANGES),
            ]
            group = [queued for queued in taken if not queued.answer.done()]
            if group:
                await self._commit_group(group)

    async def _commit_group(self, group: Sequence[QueuedChange]) -> None:
        try:
            outcomes, nudges = await self._commit([queued.change for queued in group])
        except Unavailable as refusal:
            self._outage.note(str(refusal.__cause__ or "") or str(refusal))
            _refuse(group, refusal)
        except Exception as error:  # noqa: BLE001 (every caller of the group has to be answered)
            _log.exception("a group of writes could not be committed", extra=_failure_fields(error, group))
            _refuse(group, error)
        else:
            self._outage.end()
            self.groups += 1
            self.writes += len(group)
            for queued, (answer, failure) in zip(group, outcomes, strict=True):
                settle(queued.answer, answer, failure)
            for word in nudges:
                self._notify_listeners(word)
            for measured in self._measured:
                self._measurer(*measured)
        finally:
            # Futures are pending here only if this task was cancelled.
            for queued in group:
                queued.answer.cancel()

    def _notify_listeners(self, topic: str) -> None:
        for listener in self._listeners.get(topic.partition(":")[0], ()):
            listener(topic)
        for listener in self._listeners[""]:
            listener(topic)


def _next_changes(queue: deque[QueuedChange], limit: int) -> Iterable[QueuedChange]:
    return [queue.popleft() for _ in range(min(limit, len(queue)))]


def _count_nothing(metric: str, seconds: float, labels: tuple[str, ...]) -> None:
    """Ignores a measurement, while no metrics are collected, for example in commands on the database."""


async def _run_in_savepoint(session: ChangingSession, change: Write[Any], tx: Tx) -> Outcome:
    await session.execute("SAVEPOINT change")
    outcome = await session.attempt(change, tx)
    await session.execute("RELEASE change" if outcome[1] is None else "ROLLBACK TO change; RELEASE change")
    return outcome


def _failure_fields(error: Exception, group: Sequence[QueuedChange]) -> dict[str, Any]:
    return {"error": str(error.__cause__ or "") or str(error), "writes": len(group)}


def _refuse(group: Sequence[QueuedChange], error: Exception) -> None:
    """Fails all changes of a group. Each caller gets an exception of its own, because a shared one would
    collect all tracebacks."""
    message = error.message if isinstance(error, Unavailable) else "The change could not be stored"
    for queued in group:
        refusal = Unavailable(message)
        refusal.__cause__ = error
        settle(queued.answer, None, refusal)
