"""Measures instances in separate threads, with a time limit for each measurement.

A measurement may access a file system that does not respond, such as NFS or a FUSE file system of the
instance. Its thread cannot be ended from outside. It ends at the latest with the processes of that file
system.
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

_TIMEOUT: Final = 5.0
_MAX_RESULT_AGE_SECONDS: Final = 60.0
"""Seconds after which a late result is discarded."""
_HANGING_REASON: Final = (
    "an instance could not be measured within seconds: it has very many open files, or its disk hangs"
)
_log = log("engines.process")

T = TypeVar("T")
InstanceRun = tuple[InstanceKey, Process | None]
"""An instance, and the process of its program."""


class MeasurementTimeout(Exception):
    """Raised if a measurement is not complete after `seconds` seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class Measurements(Generic[T]):
    """Measurements of one kind. There is at most one at a time for each process of an instance."""

    def __init__(self, timeout: float = _TIMEOUT) -> None:
        self._patience = timeout
        self._started: dict[InstanceRun, tuple[Future[T], float]] = {}
        """The running and unread measurements, and the start time of each."""

    def forget_others(self, runs: Collection[InstanceRun]) -> None:
        """Discards results that are too old, and results of processes that are not in `runs`."""
        oldest = time.monotonic() - _MAX_RESULT_AGE_SECONDS
        for run, (look, began) in [*self._started.items()]:
            if look.done() and (run not in runs or began < oldest):
                del self._started[run]

    async def measure(self, run: InstanceRun, measurement: Callable[[], T]) -> T:
        """Runs the measurement `measurement` and returns its result. If an earlier call's measurement has
        completed late, returns that result instead.

        Raises MeasurementTimeout if the measurement takes too long, and immediately while an earlier one is
        still running.
        """
        started, began = self._started.get(run, (None, time.monotonic()))
        if started is None:
            started = _start(measurement)
            self._started[run] = started, began
            waiting = asyncio.wrap_future(started)
            waiting.add_done_callback(_retrieve_exception)
            await asyncio.wait([waiting], timeout=self._patience)
            if not started.done():
                _log.warning(_HANGING_REASON, extra={"instance": run[0].id})
        if not started.done():
            raise MeasurementTimeout(time.monotonic() - began)
        self._started.pop(run, None)
        return started.result()


def _retrieve_exception(future: asyncio.Future[T]) -> None:
    """Retrieves the exception, because asyncio logs unretrieved exceptions. `measure` raises it itself."""
    if not future.cancelled():
        future.exception()


def _start(measurement: Callable[[], T]) -> Future[T]:
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # cancelling the wait does not cancel the measurement

    def run() -> None:
        try:
            result.set_result(measurement())
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            result.set_exception(error)

    # At exit, Python waits for the threads of a pool, but not for daemon threads.
    threading.Thread(target=run, name="windlass-measurement", daemon=True).start()
    return result
