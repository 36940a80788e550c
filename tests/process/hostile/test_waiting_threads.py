"""A service whose threads queue up at a lock of the kernel, such as that of all networks, is ended: nobody
else could start an instance meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec import structs

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from windlass.process import resource_monitor, waiting_threads

WAITS = """
import ctypes, os, platform, signal
clone = {"x86_64": 56}.get(platform.machine(), 220)
for _ in range(int(os.environ["COUNT"])):
    if not os.fork():
        # As at a lock, the kernel lets the caller wait, here until the new process ends.
        ctypes.CDLL(None).syscall(clone, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0)
        signal.pause()
print("has started", flush=True)
signal.pause()
"""
MANY, OTHER = (f"{number}1111111-aaaa-4aaa-8aaa-000000000001" for number in (1, 2))
COUNTS = {MANY: 140, OTHER: 100}


@pytest.fixture
async def station(tmp_path):
    async with Station(ProcessRig(tmp_path)) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


@pytest.fixture
def few(monkeypatch):
    """Lets an organization have a quarter of 512 waiting threads."""
    monkeypatch.setattr(waiting_threads, "MAX_THREADS", 512)


async def start_both(station: Station) -> Any:
    made = await station.rig.artifact(WAITS)
    for service, count in COUNTS.items():
        await station.apply(wanted(made, service=service, org=service, variables={"COUNT": str(count)}))
    await station.hears("has started", 2)
    engine: Any = station.engine

    async def waiting(service: str) -> int:
        [key] = [key for key in engine._records.find() if key.service == service]
        record = engine._records.known(key)
        processes = engine._resource_monitor._processes(await engine._counting.now(), key, record)
        return sum(map(waiting_threads.waiting_threads, processes.find()))

    async def all_wait() -> bool:
        return [await waiting(service) for service in COUNTS] == [*COUNTS.values()]

    await until(all_wait)
    return engine


def let_a_start_take(station: Station, seconds: float) -> Any:
    engine: Any = station.engine
    engine._resource_monitor._start_takes = lambda: seconds
    return engine._resource_monitor


@pytest.mark.slow
async def test_a_service_with_140_threads_waiting_in_the_kernel_is_ended_while_a_start_waits(station, few):
    await start_both(station)
    let_a_start_take(station, waiting_threads.DELAYED_START_SECONDS + 1)
    assert "had 140 threads that waited for the kernel" in (await station.ended(MANY)).reason
    let_a_start_take(station, 0)
    assert not (await station.one(OTHER)).reason, "one with fewer is not the cause"


@pytest.mark.slow
async def test_threads_of_a_service_that_is_already_being_ended_are_not_counted(station, few):
    """Its threads go on waiting at the lock until those of the other, which run, let them have it."""
    engine = await start_both(station)
    [key] = [key for key in engine._records.find() if key.service == MANY]
    engine._records.write(key, structs.replace(engine._records.read(key), verdict="it is being ended"))
    monitor = let_a_start_take(station, 0)
    record = engine._records.known(key)
    table = await engine._counting.now()
    processes = monitor._processes(table, key, record).find().values()
    assert resource_monitor._waiting_threads(table, record, processes) == 0
    assert resource_monitor._waiting_threads(table, structs.replace(record, verdict=""), processes) == 140


@pytest.mark.nightly
async def test_services_with_many_waiting_threads_are_not_ended_while_starting_instances_is_fast(
    station, few
):
    await start_both(station)
    await let_a_start_take(station, waiting_threads.DELAYED_START_SECONDS)._share_locks()
    assert not (await station.one(MANY)).reason


async def test_the_duration_of_a_start_in_progress_is_reported(station, tmp_path):
    engine: Any = station.engine
    spawner = engine._starter.spawner
    began, go_on = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        began.set()
        go_on.wait(10)
        raise OSError("no")

    spawner._launcher.start_program = wait
    starting = asyncio.create_task(station.apply(wanted(await station.rig.artifact(WAITS), service=OTHER)))
    await asyncio.to_thread(began.wait, 10)
    before = spawner.start_takes()
    assert 0 < before < spawner.start_takes()
    go_on.set()
    await asyncio.gather(starting, return_exceptions=True)
    assert spawner.start_takes() == 0
