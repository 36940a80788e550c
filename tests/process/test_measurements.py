"""An instance whose file system never answers holds up the look at no other instance, and no repair."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import time
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from tests.engines import programs
from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.marks import nightly
from tests.process.helpers import KEY
from windlass.base import cgroups, process_memory
from windlass.process import measurements as module
from windlass.process import memory, resource_monitor
from windlass.process.measurements import Measurements, MeasurementTimeout
from windlass.process.networks import Networks
from windlass.process.records import InstanceKey, RecordStore
from windlass.process.supervisor import Supervisors

HANGS, HEAVY = "11111111-aaaa-4aaa-8aaa-000000000001", "21111111-aaaa-4aaa-8aaa-000000000001"


class Hanging:
    """A file system that answers once it is told to."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def look(self, answer: Any) -> Any:
        self.is_asked.set()
        self.may_answer.wait(100)
        return answer


@pytest.fixture
def hanging():
    made = Hanging()
    yield made
    made.may_answer.set()


async def test_a_hanging_measurement_is_not_repeated_and_its_late_result_is_used(hanging, monkeypatch):
    measurements: Measurements[str] = Measurements(timeout=0.05)
    with pytest.raises(MeasurementTimeout):
        await measurements.measure((KEY, None), partial(hanging.look, "late"))
    with pytest.raises(MeasurementTimeout) as hangs:
        await measurements.measure((KEY, None), lambda: "second")
    assert hangs.value.seconds >= 0.05
    assert await measurements.measure((structs.replace(KEY, index=1), None), lambda: "other") == "other"
    hanging.may_answer.set()
    measurements.forget_others([(KEY, None)])

    async def is_late() -> bool:
        return measurements._started[KEY, None][0].done()

    async def answers() -> str:
        try:
            return await measurements.measure((KEY, None), lambda: "second")
        except MeasurementTimeout:
            return ""

    assert await until(answers) == "late"
    assert await measurements.measure((KEY, None), lambda: "second") == "second"

    hanging.may_answer.clear()
    with pytest.raises(MeasurementTimeout):
        await measurements.measure((KEY, None), partial(hanging.look, "late"))
    hanging.may_answer.set()
    await until(is_late)
    monkeypatch.setattr(module, "_MAX_RESULT_AGE_SECONDS", 0)
    measurements.forget_others([(KEY, None)])
    assert await measurements.measure((KEY, None), lambda: "new") == "new", (
        "a result of long ago counts no more"
    )
    with pytest.raises(ZeroDivisionError):
        await measurements.measure((KEY, None), lambda: str(1 // 0))


@pytest.fixture
async def station(tmp_path, monkeypatch, hanging):
    def is_heavy(record: Any, processes: Any) -> bool:
        return True if record.service == HEAVY else hanging.look(False)

    monkeypatch.setattr(memory, "is_heavy", is_heavy)
    monkeypatch.setattr(resource_monitor, "hidden_memory", lambda: 1 << 40)
    monkeypatch.setattr(process_memory, "hidden_files", lambda: 1 << 40)
    async with Station(ProcessRig(tmp_path, has_groups=False)) as made:
        yield made
        await made.engine.sweep(await made.engine.services())


async def start_both(station: Station, hanging: Hanging, patience: float | None) -> Any:
    engine: Any = station.engine
    engine._resource_monitor._weights._patience = patience
    sleeps = await station.rig.artifact(programs.SLEEPS)
    await station.apply(wanted(sleeps, service=HANGS))
    await asyncio.to_thread(hanging.is_asked.wait)
    await station.apply(wanted(sleeps, service=HEAVY))
    return engine._resource_monitor


async def test_an_instance_whose_memory_measurement_hangs_does_not_delay_the_check_of_others(
    station, hanging
):
    await start_both(station, hanging, 0.1)
    assert "more than its memory" in (await station.ended(HEAVY)).reason
    assert not (await station.one(HANGS)).reason


@pytest.mark.parametrize("hangs", [True, *nightly(False)])
async def test_memory_that_cannot_be_measured_is_reported(station, hanging, monkeypatch, hangs):
    monkeypatch.setattr(resource_monitor, "_UNMEASURED_WARNING_SECONDS", 1)
    if not hangs:
        hanging.may_answer.set()
    watch = await start_both(station, hanging, 0.1)
    since = time.monotonic()

    async def is_reported() -> bool:
        return not station.engine.measures_memory or time.monotonic() > since + 8

    await until(is_reported)
    assert station.engine.measures_memory is not hangs
    hanging.may_answer.set()

    async def is_well() -> bool:
        return bool(watch.measures_memory)

    await until(is_well)


@pytest.mark.nightly
async def test_without_a_timeout_a_hanging_measurement_blocks_only_the_memory_check(
    station, hanging, monkeypatch
):
    watch = await start_both(station, hanging, None)
    rounds = 0
    shortage = watch._disk.shortage

    def count(*given: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return shortage(*given)

    monkeypatch.setattr(watch._disk, "shortage", count)

    async def has_gone_on() -> bool:
        return rounds >= 2

    await until(has_gone_on)
    assert not (await station.one(HEAVY)).reason


def test_ended_processes_do_not_disturb_the_memory_check():
    assert not process_memory.are_above(lambda: {1 << 22: 5}, 4)


async def test_a_failed_resource_check_is_repeated_at_the_next_interval(tmp_path, monkeypatch):
    monkeypatch.setattr(resource_monitor, "ROUND_INTERVAL", 0.02)
    looked = 0

    def has_ended(networks: Any) -> bool:
        nonlocal looked
        looked += 1
        if looked < 4:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
        return False

    monkeypatch.setattr(Networks, "trunk_has_ended", has_ended)
    async with Station(ProcessRig(tmp_path, has_groups=False)):

        async def goes_on() -> bool:
            return looked > 5

        await until(goes_on)


@pytest.mark.parametrize("is_limited", [True, False])
async def test_the_memory_limit_of_a_process_is_read_once(tmp_path, monkeypatch, is_limited: bool):
    """Without a limit, the process is looked at again and again."""
    reads: list[object] = []
    looks = 0

    def limits_memory(groups: object) -> bool:
        reads.append(groups)
        return is_limited

    perhaps_unlimited = Supervisors.perhaps_unlimited

    def count_looks(supervisors: Supervisors) -> list[InstanceKey]:
        nonlocal looks
        looks += bool(supervisors.watched())
        return perhaps_unlimited(supervisors)

    monkeypatch.setattr(resource_monitor, "ROUND_INTERVAL", 0.1)
    monkeypatch.setattr(cgroups, "limits_memory", limits_memory)
    monkeypatch.setattr(Supervisors, "perhaps_unlimited", count_looks)
    async with Station(ProcessRig(tmp_path, has_groups=False)) as station:

        async def times_looked(more: int) -> bool:
            return looks >= more

        it = wanted(await station.rig.artifact(programs.SLEEPS))
        await station.apply(it)
        await until(partial(times_looked, 4))
        assert (len(reads) == 1) is is_limited
        first = await station.running(it.service)
        record = RecordStore(tmp_path / "engine").read(KEY)
        assert record is not None
        assert record.process is not None
        os.kill(record.process.pid, signal.SIGKILL)
        await station.running(it.service, restarts=first.restarts + 1)
        await until(partial(times_looked, looks + 4))
        assert (len(reads) == 2) is is_limited, "a restarted program is a new process"
        await station.engine.sweep(await station.engine.services())
