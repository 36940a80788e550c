"""A thousand jobs that are due in the same minute: how late each starts, and the computing time of it all.

In one process, with an engine whose runs end at once, so that the control plane is all that is measured. The
clock is that of the machine, and is set to the next full minute when a round begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import uvloop
from msgspec import Struct

from bench.backlog import ADMIN, Deployer, IdleEngine
from bench.machine import SERVER_CORE, run_module
from tests.engines.servers import server
from tests.fakes.builder import FakeBuilder, FakeRepositories, FakeServers
from tests.fakes.router import FakeRouter
from windlass.base.clock import MINUTE, Clock, SystemClock
from windlass.base.http_out import HttpSender
from windlass.config import Settings
from windlass.control.background.worker import Worker
from windlass.engines.workload import Outcome, Workload
from windlass.gateway.link import GatewayLink
from windlass.install.connecting import ClusterConnector
from windlass.install.installation import install
from windlass.install.parts import Parts
from windlass.serve.server import tune_interpreter
from windlass.store import Tx

_EACH = 100
"""Jobs of an environment."""
_JOB = {
    "source": {"image": {"image_name": "acme/report", "tag": "1"}},
    "schedule": {"cronjob": {"scheduled_at": "* * * * *"}},
}


class Minutes(Struct, frozen=True):
    folder: str
    jobs: int
    rounds: int


class Started(Struct, frozen=True):
    """Round by round."""

    late: Sequence[float]
    """Seconds from the due time to the start of the 99th of a hundred runs."""
    computed: Sequence[float]
    """Seconds of computing time, until all runs had ended."""


def started(given: Minutes) -> Started:
    return msgspec.json.decode(
        run_module("bench.cron", msgspec.json.encode(given), SERVER_CORE), type=Started
    )


class MinuteClock(Clock):
    """The clock of the machine, which can be set to the next full minute."""

    def __init__(self) -> None:
        self._machine, self._ahead = SystemClock(), 0

    def now(self) -> int:
        return self._machine.now() + self._ahead

    def set_to_minute(self) -> None:
        self._ahead += MINUTE - self.now() % MINUTE


class RunEngine(IdleEngine):
    """Notes when each run starts; it ends at once."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[float] = []

    async def once(self, wanted: Workload, index: int = 0) -> Outcome:
        self.started.append(time.perf_counter())
        return Outcome(exit_code=0, reason="exited with code 0", started_at=1, ended_at=2)

    async def remove(self, service: str, *, generation: int | None = None, grace: float = 10.0) -> None:
        """Has nothing to remove."""


@contextlib.asynccontextmanager
async def _installed(folder: Path, clock: Clock, engine: RunEngine) -> AsyncIterator[Deployer]:
    settings = Settings(data_dir=str(folder), admin_token=ADMIN, rate_limit=1_000_000_000, settle_seconds=0)
    parts = Parts(
        engine=engine,
        builder=FakeBuilder("image"),
        router=FakeRouter(),
        git=FakeRepositories(),
        servers=FakeServers(),
        connector=ClusterConnector(settings, server(folder, "bench"), GatewayLink(folder)),
    )
    installation = await install(settings, parts=parts, transport=HttpSender(()), clock=clock)
    try:
        yield Deployer(installation, engine, 0)
    finally:
        await installation.stop()


async def _deploy(made: Deployer, jobs: int) -> None:
    await made.begin()
    for first in range(0, jobs, _EACH):
        body = {"name": f"environment-{first}"}
        environment = (await made.ask("POST", f"/project/{made.project}/environment", body))["id"]
        for number in range(first, min(jobs, first + _EACH)):
            await made.ask("POST", f"/environment/{environment}/job", {"name": f"job-{number}", **_JOB})
        await made.ask("POST", f"/environment/{environment}/deploy")


async def _count_ready(made: Deployer) -> int:
    rows = await made.installation.ctx.store.reads.session.all("SELECT count(*) FROM timetable")
    return int(rows[0][0])


async def _measure(given: Minutes) -> Started:
    tune_interpreter()
    clock, engine = MinuteClock(), RunEngine()
    late, computed = list[float](), list[float]()
    async with _installed(Path(given.folder), clock, engine) as made:
        await _deploy(made, given.jobs)
        worker = Worker(made.installation.ctx)
        working = asyncio.create_task(worker.run())
        while await _count_ready(made) < given.jobs or worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for _ in range(given.rounds):
            engine.started.clear()
            spent, began = time.process_time(), time.perf_counter()
            clock.set_to_minute()
            await made.installation.ctx.store.write(_wake)
            while len(engine.started) < given.jobs or worker.running:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            computed.append(time.process_time() - spent)
            assert len(engine.started) == given.jobs, "a due time has one run"
            late.append(statistics.quantiles([at - began for at in engine.started], n=100)[-1])
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await worker.stop()
    return Started(late, computed)


async def _wake(tx: Tx) -> None:
    tx.nudge("work")


def main() -> None:
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Minutes)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(_measure(given))))


if __name__ == "__main__":
    main()
