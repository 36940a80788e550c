"""What an engine is: the promises that each of them keeps, whatever it runs things with.

An engine is tried by a class in its own file that inherits from `Conformance` and gives a fixture `rig`.
Where an engine is not able to do something, its rig says so, and the tests of it are reported as expected to
fail, with the reason (`pytest -rx`).
"""

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
from tests.engines.once import RunsOnce
from tests.engines.rollouts import Rollouts
from tests.engines.stations import Rig, Station, ask, free_port, needs, until, wanted
from tests.forms import either
from windlass.core.deploy.workload import Phase, Volume, Workload
from windlass.engines.engine import EngineError, VolumeLost

SECRET = "a-secret-that-nobody-writes-down"
PORT = 8080


async def two_with_volumes(rig: Rig, station: Station) -> tuple[Workload, Workload]:
    """Two services that store something, and run."""
    artifact = await rig.artifact(programs.STORES)
    first, second = (
        wanted(artifact, service=service, volumes=(Volume(name="data", mount="/app/data"),))
        for service in ("66666666-aaaa-4aaa-8aaa-000000000006", "77777777-aaaa-4aaa-8aaa-000000000007")
    )
    for each in (first, second):
        await station.apply(each)
    return first, second


class Conformance(Rollouts, RunsOnce):
    # It begins.

    async def test_what_is_run_runs(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        made = await station.apply(it)
        assert (made.service, made.generation, made.index) == (it.service, 1, 0)
        assert made.phase is Phase.RUNNING
        assert (made.restarts, made.reason, made.exit_code) == (0, "", None)
        await station.hears("here")
        assert await station.one(it.service) == made
        assert await station.engine.all() == [made]
        assert await rig.copies(it.service) == [(1, 0)]
        assert await station.engine.trouble() == ""

    async def test_an_artifact_is_made_ready_as_often_as_asked_and_runs_nothing(self, rig, station):
        artifact = await rig.artifact(programs.SLEEPS)
        for _ in range(2):
            await station.engine.prepare(artifact, lambda line: None)
        assert await station.engine.all() == []
        await station.apply(wanted(artifact))

    async def test_what_is_run_twice_is_there_once(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        first = await station.apply(it)
        again = await station.apply(it)
        assert again == first
        assert await rig.copies(it.service) == [(1, 0)]

    async def test_what_is_run_many_times_at_once_is_there_once(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        made = await asyncio.gather(*(station.apply(it) for _ in range(8)))
        assert {(each.id, each.started_at) for each in made} == {(made[0].id, made[0].started_at)}
        await station.hears("here")
        assert await rig.copies(it.service) == [(1, 0)]

    async def test_what_two_windlasses_run_at_once_is_there_once(self, rig, station):
        needs(rig, "replicas")
        it = wanted(await rig.artifact(programs.SLEEPS))
        async with Station(rig) as other:
            made = await asyncio.gather(*(each.apply(it) for each in (station, other) * 4))
            assert len({(each.id, each.started_at) for each in made}) == 1
            assert await rig.copies(it.service) == [(1, 0)]
            assert await other.one(it.service) == await station.one(it.service)
            await until(lambda: _true("here" in station.said + other.said))
            await other.engine.remove(it.service)
            assert not await station.seen(it.service)
            assert await rig.copies(it.service) == []

    async def test_somebody_is_told_when_an_instance_ends_and_begins_anew(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS), variables={"AFTER": "0.5"})
        await station.apply(it)
        assert it.service not in station.notices
        await until(lambda: _true(it.service in station.notices))
        assert (await station.running(it.service, restarts=1)).reason
        await until(lambda: _true(len(station.notices) >= 2))

    async def test_it_is_reached_where_it_says(self, rig, station):
        it = wanted(await rig.artifact(programs.SERVES), ports=[PORT], variables={"WHO": "it"})
        await station.apply(it)
        await station.hears("listening")
        assert await ask(await station.one(it.service), PORT) == "hello from it"

    async def test_a_program_that_chooses_its_port_itself_is_reached_there(self, rig, station):
        needs(rig, "fixed ports")
        port = free_port()
        it = wanted(
            await rig.artifact(programs.SERVES_ELSEWHERE),
            ports=[port],
            variables={"WHO": "it", "OWN_CHOICE": str(port)},
        )
        await station.apply(it)
        await station.hears("listening")
        assert await ask(await station.one(it.service), port) == "hello from it"

    # It ends, and is begun anew.

    async def test_what_ends_is_begun_anew_and_says_how_it_ended(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS))
        await station.apply(it)

        async def twice() -> Any:
            return (await station.one(it.service)).restarts >= 2

        await until(twice)
        await station.hears("ending", times=3)
        seen = await station.ended(it.service)
        assert seen.exit_code == 3
        assert "exited with code 3" in seen.reason

    async def test_between_an_end_and_the_next_start_it_waits(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS))
        await station.apply(it)

        async def waits() -> Any:
            return (await station.one(it.service)).phase is Phase.WAITING

        await until(waits)
        assert (await station.apply(it)).phase in (Phase.WAITING, Phase.RUNNING)
        assert len(await rig.copies(it.service)) <= 1

    async def test_what_is_killed_says_by_what(self, rig, station):
        it = wanted(await rig.artifact(programs.IS_KILLED))
        await station.apply(it)
        seen = await station.ended(it.service)
        assert "SIGSEGV" in seen.reason
        assert seen.exit_code == 128 + 11

    async def test_children_do_not_outlive_their_program(self, rig, station):
        it = wanted(await rig.artifact(programs.LEAVES_CHILDREN), variables={"AFTER": "0.1"})
        await station.apply(it)
        await station.running(it.service, restarts=1)
        assert len(await rig.copies(it.service)) <= 1
        await station.engine.remove(it.service, grace=0.1)
        assert list(await rig.traces(it.service)) == []

    async def test_who_uses_more_memory_than_it_has_is_ended_and_says_so(self, rig, station):
        needs(rig, "memory")
        it = wanted(await rig.artifact(programs.EATS), memory=64)
        await station.apply(it)
        seen = await station.ended(it.service)
        assert "memory" in seen.reason
        assert "64" in seen.reason

    # It is removed.

    async def test_what_is_removed_is_gone(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        await station.apply(it)
        await station.engine.remove(it.service)
        assert await rig.copies(it.service) == []
        assert not await station.seen(it.service)
        await station.engine.remove(it.service)

    async def test_to_remove_what_was_never_there_is_fine(self, station):
        await station.engine.remove("55555555-aaaa-4aaa-8aaa-000000000005")
        await station.engine.remove("55555555-aaaa-4aaa-8aaa-000000000005", generation=3)
        await station.engine.discard("55555555-aaaa-4aaa-8aaa-000000000005")
        assert await station.engine.services() == {}

    async def test_who_is_asked_to_end_may_say_good_bye(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS_WELL))
        await station.apply(it)
        await station.hears("here")
        await station.engine.remove(it.service, grace=20)
        await station.hears("good bye")

    async def test_who_does_not_want_to_end_is_ended(self, rig, station):
        it = wanted(await rig.artifact(programs.STAYS))
        await station.apply(it)
        await station.hears("here")
        await station.engine.remove(it.service, grace=0.2)
        assert await rig.copies(it.service) == []

    async def test_children_that_do_not_want_to_end_are_ended(self, rig, station):
        it = wanted(await rig.artifact(programs.LEAVES_CHILDREN))
        await station.apply(it)
        await station.hears("here")
        await station.engine.remove(it.service, grace=0.1)
        assert list(await rig.traces(it.service)) == []

    async def test_what_waits_for_its_next_start_is_removed_and_never_starts(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS))
        await station.apply(it)
        await station.ended(it.service)
        await station.engine.remove(it.service)
        begun = station.said.count("ending")
        await asyncio.sleep(0.6)
        assert station.said.count("ending") == begun
        assert await rig.copies(it.service) == []

    async def test_generations_stand_side_by_side(self, rig, station):
        art = await rig.artifact(programs.SERVES)
        for generation in (1, 2):
            it = wanted(art, generation=generation, ports=[PORT], variables={"WHO": str(generation)})
            await station.apply(it)
        await station.hears("listening", times=2)
        both = await station.seen(it.service)
        assert [await ask(each, PORT) for each in both] == ["hello from 1", "hello from 2"]
        await station.engine.remove(it.service, generation=1)
        assert await ask(await station.one(it.service), PORT) == "hello from 2"

    async def test_a_removed_generation_does_not_come_back_by_a_late_call(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        await station.apply(it)
        await station.engine.remove(it.service, generation=1)
        with pytest.raises(EngineError):
            await station.apply(it)
        assert not await station.seen(it.service)
        assert list(await rig.traces(it.service)) == []

    async def test_a_release_that_failed_does_not_stand_in_the_way_of_the_one_before(self, rig, station):
        art = await rig.artifact(programs.SLEEPS)
        old, new = wanted(art, generation=4), wanted(art, generation=5)
        await station.apply(old)
        await station.apply(new)
        await station.engine.remove(old.service, generation=5)
        await station.apply(old)
        await station.engine.apply(old, 2)
        assert sorted(await rig.copies(old.service)) == [(4, 0), (4, 1)]

    async def test_what_made_room_for_a_release_that_failed_comes_back_and_stays(self, rig, station):
        """As when both write to the same storage, and cannot stand side by side."""
        art = await rig.artifact(programs.SLEEPS)
        old, new = wanted(art, generation=4), wanted(art, generation=5)
        await station.apply(old)
        await station.engine.remove(old.service, generation=4)
        await station.apply(new)
        with pytest.raises(EngineError):
            await station.apply(old)
        await station.engine.remove(old.service, generation=5)
        await station.apply(old)
        with pytest.raises(EngineError):
            await station.apply(new)
        assert await rig.copies(old.service) == [(4, 0)]
        if "adopt" not in rig.cannot:
            async with Station(rig) as after:
                await after.apply(old)
                assert await rig.copies(old.service) == [(4, 0)]

    async def test_one_and_none_applied_at_once_end_in_one_or_none(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        deeds: list[Any] = []
        for _ in range(6):
            deeds += [station.engine.apply(it, 1), station.engine.apply(it, 0)]
        await asyncio.gather(*deeds)
        assert len(await rig.copies(it.service)) == len(await station.seen(it.service)) <= 1

    async def test_what_is_discarded_leaves_nothing(self, rig, station):
        volume = Volume(name="data", mount="/app/data")
        it = wanted(await rig.artifact(programs.SLEEPS), volumes=(volume,), ports=[PORT])
        await station.apply(it)
        await station.engine.discard(it.service)
        assert not await station.seen(it.service)
        assert list(await rig.traces(it.service)) == []
        await station.apply(wanted(it.artifact, generation=2))

    async def test_a_sweep_erases_what_it_is_told_and_nothing_else(self, rig, station):
        kept, deleted = await two_with_volumes(rig, station)
        before = await station.one(kept.service)
        await station.engine.sweep([deleted.service, "88888888-aaaa-4aaa-8aaa-000000000008"])
        assert list(await rig.traces(deleted.service)) == []
        assert await station.engine.all() == [before]
        assert await rig.copies(kept.service) == [(1, 0)]

    async def test_a_sweep_that_is_told_nothing_erases_nothing(self, rig, station):
        both = await two_with_volumes(rig, station)
        before = await station.engine.all(), [sorted(await rig.traces(each.service)) for each in both]
        await station.engine.sweep(())
        assert before == (
            await station.engine.all(),
            [sorted(await rig.traces(each.service)) for each in both],
        )

    async def test_every_service_of_which_something_is_here_is_counted(self, rig, station):
        both = await two_with_volumes(rig, station)
        await station.engine.remove(both[1].service, grace=0)
        found = await station.engine.services()
        assert {service: (each.instances, each.volumes) for service, each in found.items()} == {
            both[0].service: (1, 1),
            both[1].service: (0, 1),
        }
        assert found[both[0].service].name == "web"

    async def test_a_service_that_is_set_aside_ends_and_keeps_its_data(self, rig, station, tmp_path):
        it, other = await two_with_volumes(rig, station)
        await station.hears("kept", times=2)
        for _ in range(2):  # as after an interruption
            await station.engine.set_aside(it.service, tmp_path / "aside")
        assert await rig.copies(it.service) == []
        assert await rig.copies(other.service) == [(1, 0)]
        await station.engine.sweep(())
        for _ in range(2):
            await station.engine.put_back(it.service, tmp_path / "aside")
        assert await rig.copies(it.service) == []
        assert (await station.apply(it)).phase is Phase.RUNNING
        await station.hears("again kept")

    # What it is given.

    async def test_variables_arrive_and_nothing_of_windlass_itself(self, rig, station, monkeypatch):
        monkeypatch.setenv("WINDLASS_KEY", "f" * 64)
        strange = {"spring.profile": "a=b", "with-dash": "'\"$HOME`", "LINES_OF": "one\ntwo", "EMPTY": ""}
        it = wanted(await rig.artifact(programs.TELLS), variables={"SECRET": SECRET} | strange)
        await station.apply(it)
        told = await told_by(station)
        assert told["variables"].items() >= ({"SECRET": SECRET} | strange).items()
        assert "WINDLASS_KEY" not in told["variables"]
        assert told["input"] == ""

    async def test_the_command_of_a_service_is_used_instead_of_the_artifacts(self, rig, station):
        art = await rig.artifact(programs.TELLS)
        it = wanted(art, command=(*art.command, "one", "two  three", "*", "$HOME"))
        await station.apply(it)
        assert (await told_by(station))["arguments"] == ["one", "two  three", "*", "$HOME"]

    async def test_files_arrive_where_they_are_wanted(self, rig, station):
        it = wanted(
            await rig.artifact(programs.TELLS),
            files={"/app/conf/settings.ini": SECRET.encode()},
            variables={"READ": "conf/settings.ini"},
        )
        await station.apply(it)
        assert (await told_by(station))["files"] == {"conf/settings.ini": SECRET}

    async def test_files_arrive_at_any_path(self, rig, station):
        needs(rig, "absolute")
        it = wanted(
            await rig.artifact(programs.TELLS),
            files={"/etc/shop/settings.ini": SECRET.encode()},
            variables={"READ": "/etc/shop/settings.ini"},
        )
        await station.apply(it)
        assert (await told_by(station))["files"] == {"/etc/shop/settings.ini": SECRET}

    async def test_secrets_are_not_written_down(self, rig, station):
        it = wanted(
            await rig.artifact(programs.ENDS), variables={"SECRET": SECRET}, files={"secret": SECRET.encode()}
        )
        await station.apply(it)
        await station.running(it.service, restarts=1)
        assert SECRET.encode() not in await rig.remembered()

    async def test_a_volume_outlives_the_instances(self, rig, station):
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

    async def test_a_volume_that_held_data_and_is_gone_is_not_begun_empty(self, rig, station):
        volume = Volume(name="data", mount="/app/data")
        it = wanted(await rig.artifact(programs.SLEEPS), volumes=(volume,))
        known = structs.replace(it, volumes=(structs.replace(volume, is_known=True),))
        with pytest.raises(VolumeLost, match="to begin empty"):
            await station.apply(known)
        assert list(await rig.traces(it.service)) == []
        await station.apply(it)  # without the mark it is made
        await station.engine.remove(it.service, grace=0)
        later = structs.replace(known, generation=2)
        assert (await station.apply(later)).phase is Phase.RUNNING

    async def test_where_a_port_is_found_is_lasting_and_no_others(self, rig, station):
        services = [f"{number}8888888-aaaa-4aaa-8aaa-000000000008" for number in range(3)]
        asked = [("environment", each, f"name-{each}", port) for each in services for port in (80, PORT)]
        found = [await station.engine.neighbour_address(*each) for each in asked]
        assert len(set(found)) == len(found)
        async with Station(rig) as later:
            assert [await later.engine.neighbour_address(*each) for each in reversed(asked)] == found[::-1]

    async def test_who_is_alone_is_found_at_its_whereabouts(self, rig, station):
        it = wanted(
            await rig.artifact(programs.SERVES), ports=[PORT], alone=True, variables={"WHO": "the only one"}
        )
        address = await station.engine.neighbour_address(it.environment, it.service, it.name, PORT)
        made = await station.apply(it)
        await station.hears("listening")
        found = await station.one(it.service)
        if address.host == made.address:
            assert found.ports[PORT] == address.port
        assert await ask(found, PORT) == "hello from the only one"
        await station.engine.remove(it.service)
        again = await station.engine.neighbour_address(it.environment, it.service, it.name, PORT)
        assert again == address

    # What it says.

    async def test_output_arrives_in_order_and_says_whose_it_is(self, rig, station):
        # It ends soon, because a line without an end may be handed over as late as that.
        it = wanted(await rig.artifact(programs.WRITES), variables={"LINES": "5000", "AFTER": "1"})
        await station.apply(it)
        await station.hears("done, without an end")
        assert station.said[:5001] == [*(f"line {number}" for number in range(5000)), "done, without an end"]
        assert {(line.pod, line.version) for line in station.lines} == {("web-1-0", it.deployment)}
        assert all(line.at > 0 for line in station.lines)

    @pytest.mark.sized
    async def test_a_flood_holds_nobody_up_and_its_last_line_arrives(self, rig, station):
        lines = either(50_000, 200_000)
        it = wanted(await rig.artifact(programs.WRITES), variables={"LINES": f"{lines}", "AFTER": "0"})
        await station.apply(it)
        await station.hears(f"line {lines - 1}")
        await station.hears("done, without an end")
        await station.ended(it.service)

    async def test_the_last_words_of_what_is_removed_arrive(self, rig, station):
        it = wanted(await rig.artifact(programs.WRITES), variables={"LINES": "1"})
        await station.apply(it)
        await station.hears("line 0")
        await station.engine.remove(it.service)
        assert "done, without an end" in station.said

    # Windlass ends, and comes back.

    async def test_what_runs_goes_on_without_windlass_and_is_found_again(self, rig):
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

    async def test_the_end_of_what_was_found_again_is_noticed_and_it_is_begun_anew(self, rig):
        needs(rig, "adopt")
        it = wanted(await rig.artifact(programs.ENDS), variables={"AFTER": "1"})
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

    async def test_what_ended_without_windlass_runs_again_when_it_is_run(self, rig):
        needs(rig, "adopt")
        it = wanted(await rig.artifact(programs.ENDS), variables={"AFTER": "0.2"})
        async with Station(rig) as before:
            await before.apply(it)
        await until(lambda: _none(rig, it.service))
        async with Station(rig) as after:
            await after.apply(it)
            await after.running(it.service, restarts=1)
            await after.engine.sweep([it.service])

    @pytest.mark.sized
    async def test_killed_at_any_moment_it_leaves_no_twins_and_no_orphans(self, rig):
        needs(rig, "adopt")
        await killed_again_and_again(rig, at_once=1)

    @pytest.mark.sized
    async def test_of_two_that_are_killed_at_any_moment_no_twins_and_no_orphans_are_left(self, rig):
        needs(rig, "adopt", "replicas")
        await killed_again_and_again(rig, at_once=2)

    # What else can be asked of it.

    async def test_a_command_runs_where_the_instance_runs(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS), variables={"WHO": "it"})
        made = await station.apply(it)
        python = it.artifact.command[0]
        code = "import os, sys; print(os.environ['WHO'], os.path.exists('main.py')); sys.exit(4)"
        assert await station.engine.execute(made, [python, "-c", code], 20) == (4, "it True\n")

    async def test_a_command_of_which_too_little_comes_is_ended(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        command = [*wanted(await rig.artifact(programs.SLEEPS)).artifact.command]
        code, said = await station.engine.execute(made, command, 0.5)
        assert code == 124
        assert "0.5 s" in said
        assert (await station.one(made.service)).phase is Phase.RUNNING

    async def test_a_command_that_is_not_there_says_so(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        code, said = await station.engine.execute(made, ["no-such-command"], 20)
        assert code in (126, 127)
        assert "no-such-command" in said

    async def test_nothing_is_executed_where_nothing_runs(self, rig, station):
        made = await station.apply(wanted(await rig.artifact(programs.SLEEPS)))
        await station.engine.remove(made.service)
        with pytest.raises(EngineError):
            await station.engine.execute(made, ["true"], 20)

    async def test_what_it_uses_is_known_and_grows(self, rig, station):
        it = wanted(await rig.artifact(programs.WORKS))
        made = await station.apply(it)
        first = await until(lambda: _used(station, made.id, 20))
        assert first.memory > 1_000_000
        assert (await until(lambda: _used(station, made.id, first.cpu_ms + 20))).cpu_ms > first.cpu_ms


async def told_by(station: Station) -> dict[str, Any]:
    """What `programs.TELLS` tells."""
    await until(lambda: _true(any(line.startswith("{") for line in station.said)))
    told: dict[str, Any] = json.loads(next(line for line in station.said if line.startswith("{")))
    return told


async def killed_again_and_again(rig: Rig, at_once: int) -> None:
    """Windlasses that begin and remove instances are killed; what they leave is looked at by another."""
    it = wanted(await rig.artifact(programs.SLEEPS), grace=0.1)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.engines.crashes", type(rig).__module__])
    dice = random.Random(at_once)
    for attempt in range(either(8, 20)):
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
        if attempt % 4 == 3:  # what the others left must be found by the next ones, too
            await after.engine.sweep([service])
            assert list(await rig.traces(service)) == []


async def _true(value: Any) -> Any:
    return value


async def _none(rig: Rig, service: str) -> bool:
    return not await rig.copies(service)


async def _used(station: Station, name: str, cpu_ms: int) -> Any:
    found = (await station.engine.usage()).get(name)
    return found if found is not None and found.cpu_ms >= cpu_ms else None
