"""The needs of the conformance suite: a `Rig` for the tests of an engine, and a `Station`, an engine at
work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import pytest
from msgspec import structs

from windlass.base.isolation.instance_connections import open_connection
from windlass.engines.engine import Engine
from windlass.engines.workload import Artifact, Instance, OutputLine, Phase, Workload, WorkloadPort

LONG = 30.0
"""Seconds after which what must come has not come. Nothing depends on how fast it comes."""

Opener = Callable[[], Engine]


class Rig(Protocol):
    """The interface between the suite and one engine. Its answers about running and remaining things come
    from the machine, not from the engine."""

    cannot: Mapping[str, str]
    """Capabilities that the engine does not have here, with the reason: names of `CAPABILITIES`."""

    def opener(self) -> Opener:
        """Makes an engine over the state of this rig; each is a Windlass of its own, as after a restart or
        as a replica. It can be pickled, and called in another process."""
        ...

    async def artifact(self, program: str) -> Artifact:
        """Something that runs this Python program, which needs only the standard library."""
        ...

    async def copies(self, service: str) -> Sequence[tuple[int, int]]:
        """Generation and index of every copy that is alive, twice where there are two."""
        ...

    async def traces(self, service: str) -> Collection[str]:
        """All that is left of a service on this machine, as readable text."""
        ...

    async def remembered(self) -> bytes:
        """Returns all bytes that the engine has written, except the contents of `Wanted.files`."""
        ...


CAPABILITIES = {
    "adopt": "finds what an earlier Windlass has started",
    "replicas": "stands beside another Windlass over the same state",
    "fixed ports": "finds out when a program listens on the port of its own choice",
    "memory": "ends a program that uses more memory than was asked for",
    "exit codes": "says how a program ended that an earlier Windlass has started",
    "programs": "runs real programs",
    "absolute": "shows volumes and files to the program at any path",
}


def needs(rig: Rig, *capabilities: str) -> None:
    for capability in capabilities:
        assert capability in CAPABILITIES
        if capability in rig.cannot:
            pytest.xfail(f"it cannot do this here ({CAPABILITIES[capability]}): {rig.cannot[capability]}")


class Station:
    """One engine at work, and what came of it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.engine = rig.opener()()
        self.lines: list[OutputLine] = []
        self.notices: list[str] = []

    async def __aenter__(self) -> Station:
        await self.engine.start(self.notices.append, lambda service, lines: self.lines.extend(lines))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.engine.stop()

    @property
    def said(self) -> list[str]:
        return [line.message for line in self.lines]

    async def apply(self, workload: Workload, count: int = 1) -> Instance:
        """Applies a workload; returns the last instance of its generation, once there are so many."""
        seen = (await self.engine.apply(workload, count)).of(workload.generation)

        async def declared() -> Sequence[Instance]:
            there = (await self.engine.observe(workload.service)).of(workload.generation).instances
            return there if len(there) >= count else ()

        return (seen.instances if len(seen.instances) >= count else await until(declared))[-1]

    async def seen(self, service: str) -> Sequence[Instance]:
        return (await self.engine.observe(service)).instances

    async def one(self, service: str) -> Instance:
        (found,) = await self.seen(service)
        return found

    async def running(self, service: str, restarts: int = 0) -> Instance:
        """The only instance of this service, once it runs after so many new starts."""

        async def runs() -> Instance | None:
            found = await self.one(service)
            return found if found.phase is Phase.RUNNING and found.restarts >= restarts else None

        found: Instance = await until(runs)
        return found

    async def ended(self, service: str) -> Instance:
        async def has_ended() -> Instance | None:
            found = await self.one(service)
            return found if found.reason else None

        found: Instance = await until(has_ended)
        return found

    async def hears(self, line: str, times: int = 1) -> None:
        async def heard() -> bool:
            return self.said.count(line) >= times

        await until(heard, lambda: f"{line!r} was not said: {self.said[-20:]}")


class AtStation:
    """Tests of an engine at work; they leave nothing on it."""

    @pytest.fixture
    async def station(self, rig: Rig) -> AsyncIterator[Station]:
        async with Station(rig) as made:
            yield made
            await made.engine.sweep(await made.engine.services())


async def until(check: Callable[[], Awaitable[Any]], why: Callable[[], str] = lambda: "it never came") -> Any:
    try:
        async with asyncio.timeout(LONG):
            while not (found := await check()):  # noqa: ASYNC110 (nothing notifies of a change)
                await asyncio.sleep(0.01)
            return found
    except TimeoutError:
        raise AssertionError(why()) from None


def wanted(artifact: Artifact, ports: Sequence[int] = (), **given: Any) -> Workload:
    it = Workload(
        service="11111111-aaaa-4aaa-8aaa-000000000001",
        family="application",
        name="web",
        environment="22222222-aaaa-4aaa-8aaa-000000000002",
        org="33333333-aaaa-4aaa-8aaa-000000000003",
        generation=1,
        deployment="44444444-aaaa-4aaa-8aaa-000000000004",
        artifact=artifact,
        ports=tuple(WorkloadPort(name=f"p{port}", internal=port) for port in ports),
        memory=128,
        grace=5.0,
    )
    return structs.replace(it, **given)


async def ask(instance: Instance, internal: int) -> str:
    """Returns the answer of a program of these tests at one of its ports; empty while there is none."""
    try:
        async with asyncio.timeout(LONG):
            reader, writer = await open_connection(
                instance.network, instance.address, instance.ports[internal]
            )
            said = await reader.read()
            writer.close()
            await writer.wait_closed()
    except OSError:
        return ""
    return said.decode()
