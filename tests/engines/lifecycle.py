"""Every engine starts, restarts and removes instances, and leaves nothing of what is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engines import programs
from tests.engines.stations import AtStation, Rig, Station, ask, needs, until, wanted
from tests.free_ports import free_port
from windlass.engines.engine import EngineError
from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.workload import Phase, Volume, Workload

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


class Lifecycle(AtStation):
    # It begins.

    @pytest.mark.essential
    async def test_an_applied_instance_is_running_and_is_listed(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        made = await station.apply(it)
        assert (made.service, made.generation, made.index) == (it.service, 1, 0)
        assert made.phase is Phase.RUNNING
        assert (made.restarts, made.reason, made.exit_code) == (0, "", None)
        await station.hears("here")
        assert await station.one(it.service) == made
        assert await station.engine.all() == [made]
        assert await rig.copies(it.service) == [(1, 0)]
        assert await station.engine.problem() == ""

    @pytest.mark.essential
    async def test_the_short_list_of_instances_equals_the_detailed_one(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        await station.apply(it, 2)
        assert await station.engine.present() == [(it.service, 1, True)] * 2
        await station.engine.remove(it.service, grace=0)
        assert await station.engine.present() == []

    async def test_preparing_an_artifact_repeatedly_starts_no_instance(self, rig, station):
        artifact = await rig.artifact(programs.SLEEPS)
        for _ in range(2):
            await station.engine.prepare(artifact, lambda line: None)
        assert await station.engine.all() == []
        await station.apply(wanted(artifact))

    async def test_applying_the_same_instance_twice_runs_it_once(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        first = await station.apply(it)
        again = await station.apply(it)
        assert again == first
        assert await rig.copies(it.service) == [(1, 0)]

    @pytest.mark.essential
    async def test_applying_the_same_instance_concurrently_runs_it_once(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        made = await asyncio.gather(*(station.apply(it) for _ in range(8)))
        assert {(each.id, each.started_at) for each in made} == {(made[0].id, made[0].started_at)}
        await station.hears("here")
        assert await rig.copies(it.service) == [(1, 0)]

    async def test_two_replicas_applying_the_same_instance_concurrently_run_it_once(self, rig, station):
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

    async def test_the_engine_sends_notices_when_an_instance_ends_and_restarts(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS), variables={"AFTER": "0.5"})
        await station.apply(it)
        assert it.service not in station.notices
        await until(lambda: _true(it.service in station.notices))
        assert (await station.running(it.service, restarts=1)).reason
        await until(lambda: _true(len(station.notices) >= 2))

    @pytest.mark.essential
    async def test_an_instance_answers_requests_at_its_address_and_port(self, rig, station):
        it = wanted(await rig.artifact(programs.SERVES), ports=[PORT], variables={"WHO": "it"})
        await station.apply(it)
        await station.hears("listening")
        assert await ask(await station.one(it.service), PORT) == "hello from it"

    async def test_a_program_that_listens_on_a_fixed_port_is_reached_at_that_port(self, rig, station):
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

    async def test_the_engine_finds_the_ports_on_which_a_program_listens(self, rig, station):
        needs(rig, "programs")
        port = free_port()
        program = await rig.artifact(programs.SERVES_ELSEWHERE)
        made = await station.apply(wanted(program, ports=[PORT], variables={"OWN_CHOICE": str(port)}))

        async def found() -> bool:
            return list(await station.engine.listeners(made)) == [ListeningPort(port, "0.0.0.0")]

        await until(found)

    # It ends, and is started again.

    async def test_an_exited_program_is_restarted_and_its_exit_code_is_reported(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS))
        await station.apply(it)

        async def twice() -> Any:
            return (await station.one(it.service)).restarts >= 2

        await until(twice)
        await station.hears("ending", times=3)
        seen = await station.ended(it.service)
        assert seen.exit_code == 3
        assert "exited with code 3" in seen.reason

    async def test_a_failing_instance_waits_before_its_restart(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS))
        await station.apply(it)

        async def waits() -> Any:
            return (await station.one(it.service)).phase is Phase.WAITING

        await until(waits)
        assert (await station.apply(it)).phase in (Phase.WAITING, Phase.RUNNING)
        assert len(await rig.copies(it.service)) <= 1

    @pytest.mark.essential
    async def test_a_program_killed_by_a_signal_reports_the_signal(self, rig, station):
        it = wanted(await rig.artifact(programs.IS_KILLED))
        await station.apply(it)
        seen = await station.ended(it.service)
        assert "SIGSEGV" in seen.reason
        assert seen.exit_code == 128 + 11

    async def test_child_processes_of_an_ended_program_are_killed(self, rig, station):
        it = wanted(await rig.artifact(programs.LEAVES_CHILDREN), variables={"AFTER": "0.1"})
        await station.apply(it)
        await station.running(it.service, restarts=1)

        async def is_one() -> bool:  # for a moment, a program that begins looks like two
            return len(await rig.copies(it.service)) <= 1

        await until(is_one)
        await station.engine.remove(it.service, grace=0.1)
        assert list(await rig.traces(it.service)) == []

    async def test_a_program_that_exceeds_its_memory_limit_is_killed_and_the_reason_names_the_limit(
        self, rig, station
    ):
        needs(rig, "memory")
        it = wanted(await rig.artifact(programs.EATS), memory=64)
        await station.apply(it)
        seen = await station.ended(it.service)
        assert "memory" in seen.reason
        assert "64" in seen.reason

    # It is removed.

    @pytest.mark.essential
    async def test_removing_a_service_ends_all_its_instances_and_can_be_repeated(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        await station.apply(it)
        await station.engine.remove(it.service)
        assert await rig.copies(it.service) == []
        assert not await station.seen(it.service)
        await station.engine.remove(it.service)

    async def test_removing_or_discarding_an_absent_service_succeeds(self, station):
        await station.engine.remove("55555555-aaaa-4aaa-8aaa-000000000005")
        await station.engine.remove("55555555-aaaa-4aaa-8aaa-000000000005", generation=3)
        await station.engine.discard("55555555-aaaa-4aaa-8aaa-000000000005")
        assert not await station.seen("55555555-aaaa-4aaa-8aaa-000000000005")

    async def test_output_written_after_sigterm_is_recorded(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS_WELL))
        await station.apply(it)
        await station.hears("here")
        await station.engine.remove(it.service, grace=20)
        await station.hears("good bye")

    @pytest.mark.essential
    async def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(self, rig, station):
        it = wanted(await rig.artifact(programs.STAYS))
        await station.apply(it)
        await station.hears("here")
        await station.engine.remove(it.service, grace=0.2)
        assert await rig.copies(it.service) == []

    async def test_child_processes_that_ignore_sigterm_are_killed_after_the_grace_period(self, rig, station):
        it = wanted(await rig.artifact(programs.LEAVES_CHILDREN))
        await station.apply(it)
        await station.hears("here")
        await station.engine.remove(it.service, grace=0.1)
        assert list(await rig.traces(it.service)) == []

    async def test_an_instance_removed_while_it_waits_for_its_restart_is_not_restarted(self, rig, station):
        it = wanted(await rig.artifact(programs.ENDS))
        await station.apply(it)
        await station.ended(it.service)
        await station.engine.remove(it.service)
        begun = station.said.count("ending")
        await asyncio.sleep(0.6)
        assert station.said.count("ending") == begun
        assert await rig.copies(it.service) == []

    async def test_two_generations_of_a_service_run_and_serve_at_the_same_time(self, rig, station):
        art = await rig.artifact(programs.SERVES)
        for generation in (1, 2):
            it = wanted(art, generation=generation, ports=[PORT], variables={"WHO": str(generation)})
            await station.apply(it)
        await station.hears("listening", times=2)
        both = await station.seen(it.service)
        assert [await ask(each, PORT) for each in both] == ["hello from 1", "hello from 2"]
        await station.engine.remove(it.service, generation=1)
        assert await ask(await station.one(it.service), PORT) == "hello from 2"

    async def test_a_late_call_does_not_restart_a_removed_generation(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        await station.apply(it)
        await station.engine.remove(it.service, generation=1)
        with pytest.raises(EngineError):
            await station.apply(it)
        assert not await station.seen(it.service)
        assert list(await rig.traces(it.service)) == []

    async def test_after_removing_a_failed_release_the_older_generation_can_still_be_scaled_up(
        self, rig, station
    ):
        art = await rig.artifact(programs.SLEEPS)
        old, new = wanted(art, generation=4), wanted(art, generation=5)
        await station.apply(old)
        await station.apply(new)
        await station.engine.remove(old.service, generation=5)
        await station.apply(old)
        await station.engine.apply(old, 2)
        assert sorted(await rig.copies(old.service)) == [(4, 0), (4, 1)]

    async def test_a_generation_removed_for_a_failed_release_can_be_applied_again(self, rig, station):
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

    @pytest.mark.essential
    async def test_a_deployment_replaces_the_workload_of_another_deployment_with_the_same_generation(
        self, rig, station
    ):
        """As after a restore of an older database, which gives out numbers again."""
        art = await rig.artifact(programs.SERVES)
        earlier = wanted(art, ports=[PORT], variables={"WHO": "the earlier one"}, deployment="earlier")
        it = wanted(art, ports=[PORT], variables={"WHO": "its own"})
        await station.apply(earlier)
        await station.hears("listening")
        await station.apply(it)
        await station.hears("listening", times=2)
        assert await ask(await station.one(it.service), PORT) == "hello from its own"
        assert await rig.copies(it.service) == [(1, 0)]

    async def test_applying_one_and_zero_instances_concurrently_leaves_at_most_one(self, rig, station):
        it = wanted(await rig.artifact(programs.SLEEPS))
        deeds: list[Any] = []
        for _ in range(6):
            deeds += [station.engine.apply(it, 1), station.engine.apply(it, 0)]
        await asyncio.gather(*deeds)
        assert len(await rig.copies(it.service)) == len(await station.seen(it.service)) <= 1

    @pytest.mark.essential
    async def test_discarding_a_service_leaves_no_instances_volumes_or_files(self, rig, station):
        volume = Volume(name="data", mount="/app/data")
        it = wanted(await rig.artifact(programs.SLEEPS), volumes=(volume,), ports=[PORT])
        await station.apply(it)
        await station.engine.discard(it.service)
        assert not await station.seen(it.service)
        assert list(await rig.traces(it.service)) == []
        await station.apply(wanted(it.artifact, generation=2))

    @pytest.mark.essential
    async def test_a_sweep_erases_only_the_given_services(self, rig, station):
        kept, deleted = await two_with_volumes(rig, station)
        before = await station.one(kept.service)
        await station.engine.sweep([deleted.service, "88888888-aaaa-4aaa-8aaa-000000000008"])
        assert list(await rig.traces(deleted.service)) == []
        assert await station.engine.all() == [before]
        assert await rig.copies(kept.service) == [(1, 0)]

    async def test_a_sweep_without_services_erases_nothing(self, rig, station):
        both = await two_with_volumes(rig, station)
        before = await station.engine.all(), [sorted(await rig.traces(each.service)) for each in both]
        await station.engine.sweep(())
        assert before == (
            await station.engine.all(),
            [sorted(await rig.traces(each.service)) for each in both],
        )

    async def test_services_with_instances_or_volumes_are_listed_with_their_counts(self, rig, station):
        both = await two_with_volumes(rig, station)
        await station.engine.remove(both[1].service, grace=0)
        found = await station.engine.services()
        assert {service: (each.instances, each.volumes) for service, each in found.items()} == {
            both[0].service: (1, 1),
            both[1].service: (0, 1),
        }
        assert found[both[0].service].name == "web"

    @pytest.mark.essential
    async def test_a_service_that_is_set_aside_is_stopped_and_its_data_can_be_put_back(
        self, rig, station, tmp_path
    ):
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


async def _true(value: Any) -> Any:
    return value
