"""Every engine runs a workload that runs once exactly once, whatever happens to Windlass."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from typing import Any

import pytest
from msgspec import structs

from tests.engines import programs
from tests.engines.crashes import run_once_until_killed
from tests.engines.stations import AtStation, Rig, Station, needs, until, wanted
from tests.marks import either
from windlass.engines.engine import EngineError
from windlass.engines.workload import Phase, Volume, Workload


async def job(rig: Rig, **given: Any) -> Workload:
    return wanted(await rig.artifact(programs.ENDS_ONCE), **given)


class RunsOnce(AtStation):
    @pytest.mark.essential
    @pytest.mark.parametrize("code", [0, 3])
    async def test_a_completed_run_returns_exit_code_reason_and_times(self, rig, station, code):
        it = await job(rig, variables={"CODE": str(code)})
        ended = await station.engine.once(it)
        assert ended.exit_code == code
        assert ended.reason == f"exited with code {code}"
        assert 0 < ended.started_at <= ended.ended_at
        assert station.said[-1] == "the last line"
        assert await rig.copies(it.service) == []

    async def test_a_completed_run_is_not_repeated_and_returns_its_stored_result(self, rig, station):
        it = await job(rig, variables={"CODE": "4"})
        first = await station.engine.once(it)
        assert await station.engine.once(it) == first
        assert station.said.count("begun") == 1
        (seen,) = await station.seen(it.service)
        assert (seen.phase, seen.exit_code, seen.restarts) == (Phase.EXITED, 4, 0)

    async def test_each_generation_and_index_is_a_separate_run(self, rig, station):
        it = await job(rig)
        await station.engine.once(it)
        await station.engine.once(it, 1)
        await station.engine.once(structs.replace(it, generation=2))
        assert station.said.count("begun") == 3

    async def test_a_run_of_another_deployment_with_the_same_generation_is_a_separate_run(self, rig, station):
        it = await job(rig)
        await station.engine.once(structs.replace(it, deployment="earlier"))
        assert (await station.engine.once(it)).exit_code == 0
        assert station.said.count("begun") == 2

    async def test_concurrent_calls_for_the_same_run_execute_it_once(self, rig, station):
        it = await job(rig, variables={"AFTER": "0.3"})
        results = await asyncio.gather(*(station.engine.once(it) for _ in range(8)))
        assert results == [results[0]] * 8
        assert station.said.count("begun") == 1

    async def test_calls_of_two_replicas_for_the_same_run_execute_it_once(self, rig, station):
        needs(rig, "replicas")
        it = await job(rig, variables={"AFTER": "0.3"})
        async with Station(rig) as other:
            results = await asyncio.gather(*(each.engine.once(it) for each in (station, other) * 3))
            assert results == [results[0]] * 6
            assert (station.said + other.said).count("begun") == 1

    async def test_cancelling_a_waiting_caller_does_not_end_the_run(self, rig, station):
        it = await job(rig, variables={"AFTER": "0.5"})
        waiting = asyncio.create_task(station.engine.once(it))
        await station.hears("begun")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await station.engine.once(it)).exit_code == 0
        assert station.said.count("begun") == 1

    @pytest.mark.essential
    async def test_removing_a_run_ends_it_and_raises_an_error_at_its_caller(self, rig, station):
        it = await job(rig, variables={"AFTER": "1000"}, grace=1.0)
        waiting = asyncio.create_task(station.engine.once(it))
        await station.hears("begun")
        await station.engine.remove(it.service, generation=1, grace=1.0)
        with pytest.raises(EngineError, match="removed"):
            await waiting
        assert await rig.copies(it.service) == []
        assert list(await rig.traces(it.service)) == []

    async def test_a_late_call_does_not_repeat_a_removed_run(self, rig, station):
        it = await job(rig)
        await station.engine.once(it)
        await station.engine.remove(it.service, generation=1)
        with pytest.raises(EngineError):
            await station.engine.once(it)
        assert station.said.count("begun") == 1

    async def test_a_late_call_does_not_repeat_a_removed_run_even_after_later_runs(self, rig, station):
        it = await job(rig)
        for generation in (1, 2):
            await station.engine.once(structs.replace(it, generation=generation))
            await station.engine.remove(it.service, generation=generation)
        with pytest.raises(EngineError):
            await station.engine.once(it)
        assert station.said.count("begun") == 2

    async def test_the_output_file_of_a_run_can_be_read_after_its_end(self, rig, station):
        needs(rig, "programs")
        it = await job(rig, variables={"OUTPUT": '{"A": 1}'}, writes_output=True)
        await station.engine.once(it)
        assert await station.engine.read_output(it) == b'{"A": 1}'

    async def test_a_run_that_writes_no_output_file_has_none(self, rig, station):
        it = await job(rig, writes_output=True)
        await station.engine.once(it)
        assert await station.engine.read_output(it) is None

    @pytest.mark.parametrize("trick", ["link", "folder", "long"])
    async def test_an_output_file_that_is_not_regular_or_is_too_large_is_refused(self, rig, station, trick):
        needs(rig, "programs")
        it = await job(rig, variables={"OUTPUT": trick}, writes_output=True)
        await station.engine.once(it)
        with pytest.raises(EngineError, match="Write"):
            await station.engine.read_output(it)

    async def test_a_run_that_exceeds_its_memory_limit_ends_with_137_and_the_reason(self, rig, station):
        needs(rig, "memory")
        it = wanted(await rig.artifact(programs.EATS), memory=64)
        ended = await station.engine.once(it)
        assert ended.exit_code == 137
        assert "memory" in ended.reason

    async def test_a_run_ends_when_its_main_process_exits_and_child_processes_are_killed(self, rig, station):
        needs(rig, "programs")
        it = wanted(await rig.artifact(programs.LEAVES_CHILDREN), variables={"AFTER": "0.1"})
        assert (await station.engine.once(it)).exit_code == 0
        assert await rig.copies(it.service) == []

    @pytest.mark.essential
    async def test_a_run_continues_while_windlass_is_down_and_its_result_is_returned_afterwards(self, rig):
        needs(rig, "adopt")
        it = await job(rig, variables={"AFTER": "1", "CODE": "5"})
        async with Station(rig) as before:
            waiting = asyncio.create_task(before.engine.once(it))
            await before.hears("begun")
            waiting.cancel()
        async with Station(rig) as after:
            ended = await after.engine.once(it)
            assert (ended.exit_code, ended.reason) == (5, "exited with code 5")
            assert (before.said + after.said).count("begun") == 1
            await after.engine.sweep([it.service])

    async def test_a_run_that_ended_while_windlass_was_down_is_not_repeated(self, rig):
        needs(rig, "adopt")
        it = await job(rig, variables={"AFTER": "0.3", "CODE": "5"})
        async with Station(rig) as before:
            waiting = asyncio.create_task(before.engine.once(it))
            await before.hears("begun")
            waiting.cancel()
        await until(lambda: _over(rig, it.service))
        async with Station(rig) as after:
            assert (await after.engine.once(it)).exit_code == 5
            assert (before.said + after.said).count("begun") == 1
            await after.engine.sweep([it.service])

    @pytest.mark.slow
    async def test_each_run_is_executed_exactly_once_although_windlass_is_killed_at_any_moment(self, rig):
        needs(rig, "adopt")
        it = await job(rig, volumes=(Volume(name="data", mount="/app/data"),))
        await killed_while_it_runs(rig, it)
        async with Station(rig) as after:
            for generation in range(1, RUNS + 1):
                assert (await after.engine.once(_run(it, generation))).exit_code == 0
            await after.engine.once(_run(it, RUNS + 1, "last"))
            runs = next(line for line in after.said if line.startswith("runs")).split()[1:]
            assert runs == [*map(str, range(1, RUNS + 1)), "last"]
            await after.engine.sweep([it.service])


RUNS = either(5, 20)


def _run(it: Workload, generation: int, name: str = "") -> Workload:
    variables = {"VOLUME": "data", "RUN": name or str(generation)}
    return structs.replace(it, generation=generation, variables=variables)


async def killed_while_it_runs(rig: Rig, it: Workload) -> None:
    """Each run is asked for by a Windlass that is killed, and asked for again by the next."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.engines.crashes", type(rig).__module__])
    dice = random.Random(1)
    for generation in range(1, RUNS + 1):
        ready = processes.Semaphore(0)
        process = processes.Process(
            target=run_once_until_killed, args=(rig.opener(), _run(it, generation), ready)
        )
        process.start()
        assert await asyncio.to_thread(ready.acquire, timeout=30)
        await asyncio.sleep(dice.random() * 0.15)
        process.kill()
        await asyncio.to_thread(process.join)
        process.close()
        async with Station(rig) as after:
            await after.engine.once(_run(it, generation))


async def _over(rig: Rig, service: str) -> bool:
    return not await rig.copies(service)
