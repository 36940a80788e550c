"""Starts build steps through a launcher. A step runs for the duration of an `async with` block at most."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from weakref import finalize

from windlass.base.child_process import ChildProcess
from windlass.base.cleanup import on_failure
from windlass.base.isolation.launcher_client import Launcher
from windlass.base.isolation.network import CellNetwork
from windlass.base.isolation.step import StepRequest
from windlass.base.oom_score import STEPS_SCORE
from windlass.base.subprocesses import close_all

NetworkOfSteps = Callable[[str, str], Awaitable[CellNetwork | None]]
"""A function that returns the network for a build step, given its organization and environment."""


async def no_network(_: str, __: str) -> CellNetwork | None:
    """Returns no network, so that steps share the machine's network."""
    return None


class StepLauncher:
    """A launcher, and the thread that sends requests to it. Both end with this object.

    The kernel kills all steps when this thread ends.
    """

    def __init__(self, network: NetworkOfSteps = no_network) -> None:
        self._network = network
        self._thread = ThreadPoolExecutor(1, "windlass-steps")
        self._launcher = Launcher(STEPS_SCORE)
        self.close = finalize(self, _close, self._thread, self._launcher)
        """Ends the launcher and all running steps."""

    @asynccontextmanager
    async def running(
        self, request: StepRequest, org: str = "", environment: str = ""
    ) -> AsyncIterator[ChildProcess]:
        """Runs a step of an environment. Kills it when the block ends. May raise an OSError."""
        (read_output, output), (read_errors, errors) = os.pipe(), os.pipe()
        try:
            with on_failure(partial(close_all, read_output, read_errors)):
                network = await self._network(org, environment)
                process = ChildProcess(await self._start(request, network, output, errors))
        finally:
            close_all(output, errors)
        try:
            process.listen(read_output, read_errors)
            yield process
        finally:
            await process.end()

    async def _start(
        self, request: StepRequest, network: CellNetwork | None, output: int, errors: int
    ) -> int:
        """Starts a step. Kills the step if the caller is cancelled."""
        if network is not None:
            request["cell"]["network"] = network
        else:  # a port of the machine could belong to a service or to the gateway
            request["cell"]["refuses_ports"] = True
        loop = asyncio.get_running_loop()
        starting = loop.run_in_executor(self._thread, self._launcher.start_step, request, output, errors)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(OSError):
                await ChildProcess(await starting).end()
            raise


def _close(thread: ThreadPoolExecutor, launcher: Launcher) -> None:
    launcher.close()
    thread.shutdown(wait=False)
