"""The conformance suite of engines: the promises that each of them keeps. The tests of an engine are a class
in a file of its own that inherits from `Conformance` and has a fixture `rig`. The rig says what its engine
cannot do; the tests of that are expected failures, with the reason (`pytest -rx`)."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
from typing import Any

import pytest
from msgspec import structs

from tests.engines import programs
from tests.engines.crashes import live_until_killed
from tests.engines.executions import Executions
from tests.engines.lifecycle import PORT, Lifecycle
from tests.engines.once import RunsOnce
from tests.engines.rollouts import Rollouts
from tests.engines.stations import Rig, Station, needs, until, wanted
from tests.marks import either
from windlass.engines.engine import EngineError, VolumeLost
from windlass.engines.workload import Phase, Volume

SECRET = "a-secret-that-nobody-writes-down"


class Conformance(Lifecycle, Rollouts, RunsOnce, Executions):
    # What it is given.

    async def test_an_instance_receives_its_variables_but_none_of_the_servers_environment(
        self, rig, station, monkeypatch
    ):
        monkeypatch.setenv("WINDLASS_KEY", "f" * 64)
        strange = {"spring.profile": "a=b", "with-dash": "'\"$HOME`", "LINES_OF": "one\ntwo", "EMPTY": ""}
        it = wanted(await rig.artifact(programs.TELLS), variables={"SECRET": SECRET} | strange)
        await station.apply(it)
        told = await told_by(station)
        assert told["variables"].items() >= ({"SECRET": SECRET} | strange).items()
        assert "WINDLASS_KEY" not in told["variables"]
        assert told["input"] == ""

    async def test_the_command_of_a_service_overrides_that_of_the_artifact(self, rig, station):
        art = await rig.artifact(programs.TELLS)
        it = wanted(art, command=(*art.command, "one", "two  three", "*", "$HOME"))
        await station.apply(it)
        assert (await told_by(station))["arguments"] == ["one", "two  three", "*", "$HOME"]

    async def test_file_variables_are_written_to_their_path_in_the_instance(self, rig, station):
        it = wanted(
            await rig.artifact(programs.TELLS),
            files={"/app/conf/settings.ini": SECRET.encode()},
            variables={"READ": "conf/settings.ini"},
        )
        await station.apply(it)
        assert (await told_by(station))["files"] == {"conf/settings.ini": SECRET}

    @pytest.mark.essential
    async def test_file_variables_can_be_written_to_absolute_paths(self, rig, station):
        needs(rig, "absolute")
        it = wanted(
            await rig.artifact(programs.TELLS),
            files={"/etc/shop/settings.ini": SECRET.encode()},
            variables={"READ": "/etc/shop/settings.ini"},
        )
        await station.apply(it)
        assert (await told_by(station))["files"] == {"/etc/shop/settings.ini": SECRET}

    async def test_secrets_of_an_instance_are_not_in_the_records_of_the_engine(self, rig, station):
        it = wanted(
            await rig.artifact(programs.ENDS), variables={"SECRET": SECRET}, files={"secret": SECRET.encode()}
        )
        await station.apply(it)
        await station.running(it.service, restarts=1)
        assert SECRET.encode() not in await rig.remembered()

    async def test_data_in_a_volume_is_kept_when_its_instances_are_removed(self, rig, station):
        art = await rig.artifact(programs.COUNTS)
        given: dict[str, Any] = {
            "volumes": (Volume(name="data", mount="/app/data"),),
            "variables": {"VOLUME": "data"},
        }
        await station.apply(wanted(art, **given))
        await station.hears("count 1")
        await station.engine.remove(wanted(art).service)
        await station.apply(wanted(art, generation=2, **given))
        await station.hears("count 2")

    @pytest.mark.essential
    async def test_a_lost_volume_that_held_data_is_not_replaced_by_an_empty_one(self, rig, station):
        volume = Volume(name="data", mount="/app/data")
        it = wanted(await rig.artifact(programs.SLEEPS), volumes=(volume,))
        known = structs.replace(it, volumes=(structs.replace(volume, is_known=True),))
        with pytest.raises(VolumeLost, match="to begin empty"):
            await station.apply(known)
        gone = structs.replace(it.artifact, ref=f"{it.artifact.ref}-gone")
        with pytest.raises(VolumeLost):  # before a build is asked for, which would be in vain
            await station.apply(structs.replace(known, artifact=gone))
        assert list(await rig.traces(it.service)) == []
        await station.apply(it)  # without the mark it is made
        await station.engine.remove(it.service, grace=0)
        later = structs.replace(known, generation=2)
        assert (await station.apply(later)).phase is Phase.RUNNING

    @pytest.mark.essential
    async def test_addresses_of_ports_are_stable_and_distinct(self, rig, station):
        services = [f"{number}8888888-aaaa-4aaa-8aaa-000000000008" for number in range(3)]
        asked = [("environment", each, f"name-{each}", port) for each in services for port in (80, PORT)]
        found = [await station.engine.neighbour_address(*each) for each in asked]
        assert len(set(found)) == len(found)
        async with Station(rig) as later:
            assert [await later.engine.neighbour_address(*each) for each in reversed(asked)] == found[::-1]

    # What it says.

    async def test_output_lines_arrive_in_order_with_instance_and_version(self, rig, station):
        # It ends soon, because a line without an end may be handed over as late as that.
        it = wanted(await rig.artifact(programs.WRITES), variables={"LINES": "5000", "AFTER": "1"})
        await station.apply(it)
        await station.hears("done, without an end")
        assert station.said[:5001] == [*(f"line {number}" for number in range(5000)), "done, without an end"]
        assert {(line.pod, line.version) for line in station.lines} == {("web-1-0", it.deployment)}
        assert all(line.at > 0 for line in station.lines)

    async def test_a_flood_of_output_does_not_block_the_instance_and_its_last_line_arrives(
        self, rig, station
    ):
        lines = either(50_000, 200_000)
        it = wanted(await rig.artifact(programs.WRITES), variables={"LINES": f"{lines}", "AFTER": "0"})
        await station.apply(it)
        await station.hears(f"line {lines - 1}")
        await station.hears("done, without an end")
        await station.ended(it.service)

    async def test_the_last_output_line_of_a_removed_instance_arrives(self, rig, station):
        it = wanted(await rig.artifact(programs.WRITES), variables={"LINES": "1"})
        await station.apply(it)
        await station.hears("line 0")
        await station.engine.remove(it.service)
        assert "done, without an end" in station.said

    # Windlass ends, and comes back.

    @pytest.mark.essential
    async def test_instances_keep_running_while_windlass_is_down_and_are_adopted_at_its_start(self, rig):
        needs(rig, "adopt")
        it = wanted(await rig.artifact(programs.WRITES_ALWAYS))
        async with Station(rig) as before:
            made = await before.apply(it)
            await before.hears("line 5")
        async with Station(rig) as after:
            assert await after.one(it.service) == made
            assert await after.apply(it) == made
            assert await rig.copies(it.service) == [(1, 0)]
            seen = len(after.said)
            await until(lambda: _true(len(after.said) > seen + 20))
            numbers = [int(line.removeprefix("line ")) for line in [*before.said, *after.said]]
            assert set(numbers) == set(range(max(numbers) + 1))
            await after.engine.sweep([it.service])

    async def test_an_adopted_instance_that_ends_is_restarted(self, rig):
        needs(rig, "adopt")
        it = wanted(await rig.artifact(programs.ENDS), variables={"AFTER": "2"})
        async with Station(rig) as before:
            await before.apply(it)
        async with Station(rig) as after:
            assert (await after.one(it.service)).phase is Phase.RUNNING
            seen = await after.ended(it.service)
            assert it.service in after.notices
            if "exit codes" not in rig.cannot:
                assert seen.exit_code == 3
            await after.apply(it)
            assert (await after.running(it.service, restarts=1)).restarts >= 1
            await after.engine.sweep([it.service])

    async def test_an_instance_that_ended_while_windlass_was_down_is_restarted(self, rig):
        needs(rig, "adopt")
        it = wanted(await rig.artifact(programs.ENDS), variables={"AFTER": "0.2"})
        async with Station(rig) as before:
            await before.apply(it)
        await until(lambda: _none(rig, it.service))
        async with Station(rig) as after:
            await after.apply(it)
            await after.running(it.service, restarts=1)
            await after.engine.sweep([it.service])

    @pytest.mark.slow
    async def test_an_engine_killed_at_any_moment_leaves_no_duplicate_and_no_orphaned_instances(self, rig):
        needs(rig, "adopt")
        await killed_again_and_again(rig, at_once=1)

    @pytest.mark.slow
    @pytest.mark.essential
    async def test_two_engines_killed_at_any_moment_leave_no_duplicate_and_no_orphaned_instances(self, rig):
        needs(rig, "adopt", "replicas")
        await killed_again_and_again(rig, at_once=2)

    # What else can be asked of it.

    @pytest.mark.essential
    async def test_an_executed_command_runs_in_the_environment_of_the_instance(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS), variables={"WHO": "it"})
        made = await station.apply(it)
        python = it.artifact.command[0]
        code = "import os, sys; print(os.environ['WHO'], os.path.exists('main.py')); sys.exit(4)"
        assert await station.engine.execute(made, [python, "-c", code], 20) == (4, "it True\n")

    async def test_an_executed_command_that_exceeds_its_timeout_is_ended_with_code_124(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        command = [*wanted(await rig.artifact(programs.SLEEPS)).artifact.command]
        code, said = await station.engine.execute(made, command, 0.5)
        assert code == 124
        assert "0.5 s" in said
        assert (await station.one(made.service)).phase is Phase.RUNNING

    async def test_executing_a_missing_program_returns_126_or_127_and_its_name(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        code, said = await station.engine.execute(made, ["no-such-command"], 20)
        assert code in (126, 127)
        assert "no-such-command" in said

    async def test_executing_a_command_in_a_removed_instance_is_refused(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        await station.engine.remove(made.service)
        with pytest.raises(EngineError):
            await station.engine.execute(made, ["true"], 20)

    async def test_the_memory_and_growing_processor_time_of_an_instance_are_measured(self, rig, station):
        it = wanted(await rig.artifact(programs.WORKS))
        made = await station.apply(it)
        first = await until(lambda: _used(station, made.id, 20))
        assert first.memory > 1_000_000
        assert (await until(lambda: _used(station, made.id, first.cpu_ms + 20))).cpu_ms > first.cpu_ms


async def told_by(station: Station) -> dict[str, Any]:
    """Returns the facts that `programs.TELLS` reports."""
    await until(lambda: _true(any(line.startswith("{") for line in station.said)))
    told: dict[str, Any] = json.loads(next(line for line in station.said if line.startswith("{")))
    return told


async def killed_again_and_again(rig: Rig, at_once: int) -> None:
    """Windlasses that begin and remove instances are killed; what they leave is looked at by another."""
    it = wanted(await rig.artifact(programs.SLEEPS), grace=0.1)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.engines.crashes", type(rig).__module__])
    dice = random.Random(at_once)
    for attempt in range(either(4, 20)):
        ready = processes.Semaphore(0)
        arguments = [(rig.opener(), it, 1 + attempt * 1000, number, ready) for number in range(at_once)]
        living = [processes.Process(target=live_until_killed, args=each) for each in arguments]
        for each in living:
            each.start()
        for _ in living:
            assert await asyncio.to_thread(ready.acquire, timeout=30)
        for each in living:
            await asyncio.sleep(dice.random() * 0.08)
            each.kill()
            await asyncio.to_thread(each.join)
            each.close()
        await look(rig, it.service, attempt)


async def look(rig: Rig, service: str, attempt: int) -> None:
    async with Station(rig) as after:

        async def consistent() -> bool:
            copies = sorted(await rig.copies(service))
            assert len(copies) == len(set(copies)), f"twins: {copies}"
            seen = [each for each in await after.seen(service) if each.phase is Phase.RUNNING]
            return copies == sorted((each.generation, each.index) for each in seen)

        await until(consistent, lambda: "what runs is not what it says")
        if attempt % 4 == 3:  # the next engines must find the remains of the others, too
            await after.engine.sweep([service])
            assert list(await rig.traces(service)) == []


async def _true(value: Any) -> Any:
    return value


async def _none(rig: Rig, service: str) -> bool:
    return not await rig.copies(service)


async def _used(station: Station, name: str, cpu_ms: int) -> Any:
    found = (await station.engine.usage()).get(name)
    return found if found is not None and found.cpu_ms >= cpu_ms else None
