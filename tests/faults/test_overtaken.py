"""At every failpoint of every action another worker takes over and does more; then the first one goes on, as
after a machine was paused for longer than a lease. The clock stands still and the engine is a fake, which
refuses no late calls, so that only the tested code protects later results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.fakes.engine import FakeEngine
from tests.faults.books import mistold, untrue
from tests.marks import nightly
from tests.world import World, make_world
from windlass.base.clock import MINUTE
from windlass.control.background.worker import Worker
from windlass.control.deploying.reconcile import reconcile
from windlass.control.records.deployments import RECONCILE
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS, State
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import Instance, Phase, Workload
from windlass.store import Claim, EventRow, Reads, Tx
from windlass.store.tables.queues import Queue, builds_beside

pytestmark = pytest.mark.slow

HTTP = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
STORAGE = {"size": 1, "type": "FAST_SSD", "mount_point": "/data"}
LEASE = 90
BUILDS = builds_beside(Queue.RECONCILE)
"""Milliseconds: a third of it later who was overtaken finds out, if nothing tells him before."""
DEEDS = ("deploy", "redeploy", "restart-service", "stop", "uninstall", "fail", "cancel", "keep", "shrink")
AFTERWARDS = ("nothing", "deploy", "stop", "uninstall", "delete")


class Choosy(FakeEngine):
    """An engine where instances of some generations end at once; it notes calls that end a serving
    generation."""

    reads: Reads

    def __init__(self) -> None:
        super().__init__()
        self.ending: set[tuple[str, int]] = set()
        self.deeds: list[str] = []
        self.wrong: list[str] = []

    async def run(self, wanted: Workload, index: int) -> Instance:
        self.deeds.append(f"run {wanted.generation}-{index}")
        made = await super().run(wanted, index)
        if (wanted.service, wanted.generation) in self.ending:
            made = replace(made, phase=Phase.EXITED, reason="it cannot read its settings")
            self.instances[wanted.service, wanted.generation, index] = made
        return made

    async def remove(self, service: str, *, generation: int | None = None, **given: Any) -> None:
        self.deeds.append(f"remove {generation} {given}")
        if given.get("indexes") is None and await self._serves(service, generation):
            self.wrong.append(self.deeds[-1])
        await super().remove(service, generation=generation, **given)

    async def _serves(self, service: str, generation: int | None) -> bool:
        """Returns True if the generation serves and no deployment is about to replace it."""
        status = await self.reads.statuses.get(service)
        serving = await self.reads.deployments.get(status.serving) if status and status.serving else None
        if serving is None or await self.reads.deployments.open(service):
            return False
        return generation in (None, serving.number)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    engine = Choosy()
    async with make_world(stop_seconds=0, engine=engine) as made:
        engine.reads = made.installation.ctx.store.reads
        yield made


class Tale:
    """One service, one action that is overtaken at one point, and the actions meanwhile."""

    def __init__(self, world: World, environment: str, deed: str, then: str) -> None:
        self.world, self.environment, self.deed, self.then = world, environment, deed, then
        self.ctx = world.installation.ctx
        self.engine = cast(Choosy, world.engine)
        self.passed: list[str] = []
        self.overtaken = False
        self.since = 0

    async def _events(self) -> list[EventRow]:
        """Since it began."""
        return await self.ctx.store.reads.events.after(self.world.org, self.since)

    async def end(self) -> None:
        await self.world.delete(self.path)
        await self.world.settle()

    async def begin(self, *, alone: bool) -> None:
        self.engine.deeds.clear()
        while more := await self._events():
            self.since = more[-1].seq
        fields = {"storage": [STORAGE]} if alone else {"min_running_instances": 2, "max_running_instances": 3}
        self.app = await self.world.application(self.environment, ports=[HTTP], **fields)
        self.path = f"/application/{self.app}"
        await self.world.post(f"{self.path}/deploy")
        await self.world.settle()
        assert await self.world.state(self.path) == "RUNNING"

    async def go(self, at: int) -> None:
        """As a replica of its own, that is overtaken at this point."""
        await self._ask()

        async def point(name: str) -> None:
            self.passed.append(name)
            if len(self.passed) == at:
                await self._overtake()

        first = Worker(replace(self.ctx, point=point), lease=LEASE)
        await first.settle()
        await first.stop()
        await self.world.settle()

    async def _ask(self) -> None:
        match self.deed:
            case "fail":
                self.engine.ending.add((self.app, 2))
                await self.world.post(f"{self.path}/deploy")
            case "cancel":
                await self._deployed_as_far_as_starting()
                await self.world.post(f"{self.path}/cancelDeployment")
            case "keep" | "shrink":
                await self._ask_to_keep()
            case "deploy":
                self.world.git.push(self.app)
                await self.world.post(f"{self.path}/deploy")
            case deed:
                await self.world.post(f"{self.path}/{deed}")

    async def _ask_to_keep(self) -> None:
        async def change(tx: Any) -> None:
            if self.deed == "shrink":
                await tx.statuses.change(replace(await tx.statuses.get(self.app), instances=3))
            await tx.work.schedule(RECONCILE, self.app)

        await self.ctx.store.write(change)
        if self.deed == "shrink":
            await self.world.settle()
            self.deed = "shrunk"
            await self.ctx.store.write(self._fewer)

    async def _fewer(self, tx: Any) -> None:
        await tx.statuses.change(replace(await tx.statuses.get(self.app), instances=2))
        await tx.work.schedule(RECONCILE, self.app)

    async def _deployed_as_far_as_starting(self) -> None:
        """Its worker died there."""
        await self.world.post(f"{self.path}/deploy")
        (claim,) = await self.ctx.store.write(lambda tx: tx.work.claim(LEASE, 1, BUILDS))

        async def point(name: str) -> None:
            if name == "started":
                raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await reconcile(replace(self.ctx, point=point), claim)
        await self.ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now))

    async def _overtake(self) -> None:
        self.overtaken = True
        self.world.clock.ms += LEASE + 1
        await self.world.settle()
        if self.then == "delete":
            await self.world.delete(self.path)
        elif self.then != "nothing":
            await self.world.post(f"{self.path}/{self.then}")
        await self.world.settle()

    async def check(self) -> None:
        reads = self.ctx.store.reads
        live = sorted(key[1:] for key in self.world.engine.instances if key[0] == self.app)
        where = f"{self.deed} was overtaken by {self.then} at the end of {self.passed}: {self.engine.deeds}"
        assert self.engine.wrong == [], where
        status = await reads.statuses.get(self.app)
        if status is None:
            assert live == [], where
            return
        deployments = await reads.deployments.latest(self.app, 100)
        events = [one for one in await self._events() if one.target == self.app]
        assert mistold(events, deployments) == [], where
        assert untrue(status, deployments) == "", where
        assert {one.status for one in deployments} & OPEN_STATES_OF_DEPLOYMENTS == set(), where
        number = next((one.number for one in deployments if one.id == status.serving), None)
        meant = [(number, index) for index in range(status.instances)] if number else []
        assert live == meant, where
        routes = self.world.router.routes[self.app]
        assert {len(route.endpoints) for route in routes} == {len(meant)}, where


@pytest.mark.parametrize(
    "alone", [False, *nightly(True)], ids=["several instances", "one instance with volume"]
)
@pytest.mark.parametrize("deed", [DEEDS[0], *nightly(*DEEDS[1:])])
async def test_a_worker_that_lost_its_lease_undoes_no_later_change(world: Any, deed: str, alone: bool):
    if alone and deed == "shrink":
        return  # there is never more than one of it
    environment = await world.environment()
    for then in AFTERWARDS:
        at, overtaken = 0, True
        while overtaken:
            at += 1
            tale = Tale(world, environment, deed, then)
            await tale.begin(alone=alone)
            await tale.go(at)
            await tale.check()
            await tale.end()
            overtaken = tale.overtaken
        assert at > 3


class Ending(Struct, frozen=True):
    """The end of a worker that was overtaken before it started something."""

    deed: str = "deploy"
    overtaken_at: str = "about to start"
    misfortune_at: str = "well"
    misfortune: Exception | None = None
    stopped: bool = False
    lease: int = 10 * MINUTE
    """Long enough for its keeper not to notice the loss, where the keeper is not what is tried."""


ENDINGS = {
    "it and its keeper notice the loss": Ending(misfortune_at="", lease=900),
    "it is stopped": Ending(stopped=True),
    "its engine goes away": Ending(misfortune=EngineUnavailable("The engine does not answer")),
    "it stumbles": Ending(misfortune=RuntimeError("a fault of our own")),
    "the rest cannot be started": Ending(
        "keep", "about to keep", "kept", EngineError("the port is taken by another program")
    ),
}


class SlowToAsk(Worker):
    """Its keeper looks at the lease before the request to look again is written."""

    async def _look_again(self, claim: Claim) -> None:
        await asyncio.sleep(0.6)
        await super()._look_again(claim)


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
async def test_instances_started_by_an_overtaken_worker_are_removed(world: Any, ending: Ending):
    tale = Tale(world, await world.environment(), ending.deed, "stop")
    await tale.begin(alone=True)
    await tale._ask()
    if ending.deed == "keep":
        await tale.ctx.store.write(partial(_say_already, tale.app, str(ending.misfortune)))
    started = asyncio.Event()

    async def point(name: str) -> None:
        if name == ending.overtaken_at and not tale.overtaken:
            world.clock.ms += ending.lease
            await tale._overtake()
            assert world.engine.instances == {}
        elif name == ending.misfortune_at:
            assert len(world.engine.instances) == 1
            started.set()
            if ending.misfortune:
                raise ending.misfortune
            await asyncio.Event().wait()

    worker = SlowToAsk(replace(tale.ctx, point=point), lease=ending.lease)
    await worker.start_due()
    if ending.stopped:
        await started.wait()
    else:
        await asyncio.wait(worker._all())
    await worker.stop()
    await world.settle()
    assert tale.overtaken
    assert world.engine.instances == {}


async def _say_already(app: str, message: str, tx: Tx) -> None:
    """With the trouble in the state there is nothing to write about it, so no write that finds the loss."""
    status = await tx.statuses.get(app)
    assert status is not None
    await tx.statuses.change(replace(status, state=State.DEPLOYMENT_ERROR, message=message))
