"""A thread that runs blocking calls, such as commits, in order and returns each result to its caller.

An executor could do the same, but its overhead for each call is several times as high, and every small
commit would pay it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any


class CommitThread:
    def __init__(self, name: str) -> None:
        self._actions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run_calls, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Runs a call on the thread and returns or raises its result. The call is completed even if the
        caller is cancelled."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._actions.put(partial(answer_with, answer, call, *args))
        return await answer

    def close(self) -> None:
        """Waits until all submitted calls are done, then ends the thread."""
        self._actions.put(None)
        self._thread.join()

    def _run_calls(self) -> None:
        while (call := self._actions.get()) is not None:
            call()


def answer_with(answer: asyncio.Future[Any], call: Callable[..., Any], *args: Any) -> None:
    """Runs a call in this thread and sets its result on a future that another thread's event loop owns."""
    result, failure = None, None
    try:
        result = call(*args)
    except BaseException as error:  # noqa: BLE001 (the waiting caller gets every failure)
        failure = error
    with suppress(RuntimeError):  # the loop is closed, so no task waits
        answer.get_loop().call_soon_threadsafe(settle, answer, result, failure)


def settle(answer: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if answer.done():
        return  # the caller was cancelled
    if failure is None:
        answer.set_result(result)
    else:
        answer.set_exception(failure)
