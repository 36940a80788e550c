"""Measures instances in their own threads, and waits some seconds for each.

A measurement may touch a file system that never answers, such as NFS, or FUSE of the instance. Its thread
cannot be ended. It returns at the latest when the processes of that file system end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from windlass.base.kernel import Process
from windlass.base.log import log
from windlass.process.records import InstanceKey

_PATIENCE: Final = 5.0
_OLDEST: Final = 60.0
"""Seconds after which a late result is too old to be used."""
_HANGS: Final = (
    "an instance could not be measured within seconds: it has very many open files, or its disk hangs"
)
_log = log("engines.process")

T = TypeVar("T")
InstanceRun = tuple[InstanceKey, Process | None]
"""An instance, and the process of its program."""


class MeasurementTimeout(Exception):
    """A look has not come back yet, after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class Measurements(Generic[T]):
    """Measurements of one kind, at most one at a time for each run of an instance."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._started: dict[InstanceRun, tuple[Future[T], float]] = {}
        """Measurements, and when each began."""

    def forget_others(self, runs: Collection[InstanceRun]) -> None:
        """Deletes late results that are too old or belong to other runs."""
        oldest = time.monotonic() - _OLDEST
        for run, (look, began) in [*self._started.items()]:
            if look.done() and (run not in runs or began < oldest):
                del self._started[run]

    async def measure(self, run: InstanceRun, look: Callable[[], T]) -> T:
        """Returns the result of `look`. If an earlier call for this run finished late, returns that result
        instead. May raise MeasurementHangs, and does so at once while an earlier call hangs."""
        started, began = self._started.get(run, (None, time.monotonic()))
        if started is None:
            started = _start(look)
            self._started[run] = started, began
            waiting = asyncio.wrap_future(started)
            waiting.add_done_callback(_take_note)
            await asyncio.wait([waiting], timeout=self._patience)
            if not started.done():
                _log.warning(_HANGS, extra={"instance": run[0].id})
        if not started.done():
            raise MeasurementTimeout(time.monotonic() - began)
        self._started.pop(run, None)
        return started.result()


def _take_note(waiting: asyncio.Future[T]) -> None:
    """Reads the exception, which asyncio would log otherwise: `measure` raises it."""
    if not waiting.cancelled():
        waiting.exception()


def _start(look: Callable[[], T]) -> Future[T]:
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # a wait that is cancelled does not cancel it

    def run() -> None:
        try:
            result.set_result(look())
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            result.set_exception(error)

    # Python waits for threads of a pool before it exits, and for daemons it does not.
    threading.Thread(target=run, name="windlass-measurement", daemon=True).start()
    return result
