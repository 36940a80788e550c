"""A thread for deeds that wait, such as a commit: one after the other, each answered to whoever asked.

An executor could do it too, but hands a deed over for several times the cost, which every small commit pays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any


class CommitThread:
    def __init__(self, name: str) -> None:
        self._deeds: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._go_on, name=name, daemon=True)
        self._thread.start()

    async def run(self, deed: Callable[..., Any], *given: Any) -> Any:
        """What it answers or raises. Once handed over it is done, also if whoever asked is cancelled."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def do() -> None:
            result, failure = None, None
            try:
                result = deed(*given)
            except BaseException as error:  # noqa: BLE001 (whatever it is, it is the answer)
                failure = error
            with suppress(RuntimeError):  # the loop is closed, and nobody is left to be told
                loop.call_soon_threadsafe(settle, answer, result, failure)

        self._deeds.put(do)
        return await answer

    def close(self) -> None:
        """Comes back when all is done that was handed over."""
        self._deeds.put(None)
        self._thread.join()

    def _go_on(self) -> None:
        while (deed := self._deeds.get()) is not None:
            deed()


def settle(answer: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if answer.done():
        return  # whoever asked went away
    if failure is None:
        answer.set_result(result)
    else:
        answer.set_exception(failure)
