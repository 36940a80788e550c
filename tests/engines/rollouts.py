"""Every engine brings a generation to the number of instances asked for, and says when it is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from tests.engines import programs
from tests.engines.stations import AtStation, Rig, Station, needs, until, wanted
from tests.free_ports import free_port
from tests.marks import nightly
from windlass.engines.engine import ListensElsewhere, NotReady
from windlass.engines.rollout import readiness
from windlass.engines.workload import (
    Artifact,
    HealthProbe,
    Instance,
    Observation,
    Phase,
    ProbeKind,
    Workload,
)

SOON = 0.05
"""Seconds between two probes of these tests."""


PATIENCE = 20.0
"""Seconds in which a generation becomes ready."""


class StillUsed(Exception):
    """Raised instead of letting instances end."""


async def workload(rig: Rig, program: str = programs.SLEEPS, **given: Any) -> Workload:
    return wanted(await rig.artifact(program), **({"settle": 0.0, "patience": PATIENCE} | given))


async def rolled_out(station: Station, it: Workload, count: int) -> Observation:
    await station.engine.apply(it, count)
    await station.engine.wait_until_ready(it, count)
    return await station.engine.observe(it.service)


class Rollouts(AtStation):
    # How many

    async def test_applying_a_number_of_instances_runs_exactly_that_many(self, rig, station):
        it = await workload(rig)
        made = await rolled_out(station, it, 3)
        assert len(made.instances) == len(await rig.copies(it.service)) == 3
        assert [copy.phase for copy in made.ready] == [Phase.RUNNING] * 3

    async def test_applying_the_same_number_again_does_not_change_running_instances(self, rig, station):
        it = await workload(rig)
        assert await rolled_out(station, it, 2) == await rolled_out(station, it, 2)

    async def test_scaling_up_starts_only_the_missing_instances(self, rig, station):
        it = await workload(rig)
        before = await rolled_out(station, it, 1)
        after = await rolled_out(station, it, 3)
        assert len(await rig.copies(it.service)) == 3
        assert _ids(before.instances) < _ids(after.instances)
        assert before.instances[0] in after.instances

    @pytest.mark.essential
    async def test_scaling_down_ends_only_the_surplus_instances(self, rig, station):
        it = await workload(rig)
        before = await rolled_out(station, it, 3)
        after = await rolled_out(station, it, 1)
        assert len(await rig.copies(it.service)) == 1
        assert after.instances[0] in before.instances
        assert len((await rolled_out(station, it, 2)).ready) == 2

    async def test_scaling_to_zero_ends_all_instances_and_the_generation_can_be_scaled_up_again(
        self, rig, station
    ):
        it = await workload(rig)
        await rolled_out(station, it, 2)
        assert (await rolled_out(station, it, 0)).instances == ()
        assert list(await rig.copies(it.service)) == []
        assert len((await rolled_out(station, it, 1)).ready) == 1

    async def test_applying_a_generation_does_not_change_other_generations(self, rig, station):
        old = await workload(rig)
        before = await rolled_out(station, old, 2)
        both = await rolled_out(station, structs.replace(old, generation=2), 1)
        assert both.of(1) == before
        assert len(both.of(2).ready) == 1

    async def test_removing_a_generation_does_not_change_the_other_one(self, rig, station):
        old = await workload(rig)
        await rolled_out(station, old, 2)
        both = await rolled_out(station, structs.replace(old, generation=2), 2)
        await station.engine.remove(old.service, generation=1, grace=0.1)
        assert await station.engine.observe(old.service) == both.of(2)

    async def test_an_interrupted_apply_is_completed_by_the_next_one(self, rig, station):
        it = await workload(rig)
        applying = asyncio.ensure_future(station.engine.apply(it, 3))
        await until(lambda: _any(rig, it.service))
        applying.cancel()
        await asyncio.wait([applying])
        assert len((await rolled_out(station, it, 3)).ready) == 3
        assert len(await rig.copies(it.service)) == 3

    # Those that leave

    async def test_a_surplus_instance_leaves_the_ready_instances_before_it_ends(self, rig, station):
        it = await workload(rig)
        await rolled_out(station, it, 2)
        seen: list[tuple[int, int, int]] = []

        async def leave(surplus: Sequence[Instance]) -> None:
            there = await station.engine.observe(it.service)
            seen.append((len(surplus), len(there.ready), len(await rig.copies(it.service))))

        await station.engine.apply(it, 1, leave)
        assert seen == [(1, 1, 2)]

    async def test_a_surplus_instance_that_is_still_used_is_not_ended(self, rig, station):
        it = await workload(rig)
        before = await rolled_out(station, it, 2)

        async def leave(surplus: Sequence[Instance]) -> None:
            raise StillUsed

        with pytest.raises(StillUsed):
            await station.engine.apply(it, 1, leave)
        assert await station.engine.observe(it.service) == before
        assert len(before.ready) == 2

    # Ready

    async def test_without_probes_a_generation_is_ready_after_it_has_run_for_the_settle_time(
        self, rig, station
    ):
        it = await workload(rig, settle=0.1)
        await station.engine.apply(it, 2)
        await station.engine.wait_until_ready(it, 2)
        assert len((await station.engine.observe(it.service)).ready) == 2

    async def test_a_generation_with_an_exited_instance_is_not_ready(self, rig, station):
        needs(rig, "programs")
        it = await workload(rig, programs.ENDS, settle=1000)
        await station.engine.apply(it, 1)
        with pytest.raises(NotReady, match=r"^Look at the log: web exited with code 3 while it was starting"):
            await station.engine.wait_until_ready(it, 1)

    async def test_a_program_that_exits_with_0_instead_of_serving_is_not_ready_and_gets_advice(
        self, rig, station
    ):
        needs(rig, "programs")
        it = await workload(rig, programs.ENDS_ONCE, settle=1000)
        await station.engine.apply(it, 1)
        with pytest.raises(
            NotReady,
            match=r"^Name a command that keeps running, such as .*: web ended by itself, and exited ",
        ):
            await station.engine.wait_until_ready(it, 1)

    async def test_a_generation_with_a_missing_instance_is_not_ready(self, rig, station):
        it = await workload(rig, patience=0.2)
        await station.engine.apply(it, 1)
        with pytest.raises(NotReady, match="1 of its instances never started"):
            await station.engine.wait_until_ready(it, 2)

    @pytest.mark.essential
    async def test_a_generation_is_ready_when_its_probe_passes(self, rig, station):
        needs(rig, "programs")
        it = await workload(rig, programs.SERVES, ports=[8080], ready=(tcp(8080),))
        await station.engine.apply(it, 1)
        await station.engine.wait_until_ready(it, 1)
        await station.hears("listening")

    @pytest.mark.parametrize("is_accepted", [True, *nightly(False)])
    async def test_a_program_that_listens_and_exits_before_accepting_connections_is_not_ready(
        self, rig, station, is_accepted
    ):
        """The control: for a probe without `accepted`, an open port is enough."""
        needs(rig, "programs")
        probe = structs.replace(tcp(8080), accepted=is_accepted)
        variables = {
            "LOADING": "1" if is_accepted else "5",
            "FAILS": "yes",
        }  # the control has to see it listen
        it = await workload(
            rig, programs.LISTENS_AND_LOADS, ports=[8080], ready=(probe,), variables=variables
        )
        await station.engine.apply(it, 1)
        told = ""
        try:
            await station.engine.wait_until_ready(it, 1)
        except NotReady as failure:
            told = str(failure)
        assert told.startswith("Look at the log: web exited with code 3" if is_accepted else ""), told
        assert bool(told) is is_accepted

    async def test_a_program_that_listens_early_is_ready_once_it_accepts_connections(self, rig, station):
        needs(rig, "programs")
        probe = structs.replace(tcp(8080), accepted=True)
        variables = {"LOADING": "0.3"}
        it = await workload(
            rig, programs.LISTENS_AND_LOADS, ports=[8080], ready=(probe,), variables=variables
        )
        await station.engine.apply(it, 1)
        await station.engine.wait_until_ready(it, 1)
        await station.hears("accepts")

    async def test_a_generation_whose_probe_never_passes_is_not_ready_and_the_failed_probe_is_reported(
        self, rig, station
    ):
        needs(rig, "programs")
        it = await workload(rig, ports=[8080], ready=(tcp(8080),), patience=0.5)
        await station.engine.apply(it, 1)
        with pytest.raises(
            NotReady, match=r"^Look at the log: web was not healthy after 0 seconds: .* port 8080"
        ):
            await station.engine.wait_until_ready(it, 1)

    @pytest.mark.slow
    async def test_a_program_that_answers_on_another_port_than_the_automatic_one_is_ready_on_that_port(
        self, rig, station, monkeypatch
    ):
        needs(rig, "programs")
        for name in ("CHECK_INTERVAL", "SURE_AFTER"):
            monkeypatch.setattr(readiness, name, 0.0)
        own = free_port()
        it = await workload(
            rig,
            programs.ANSWERS_HTTP_ELSEWHERE,
            ports=[8080],
            ready=(tcp(8080),),
            variables={"OWN_CHOICE": str(own)},
        )
        (port,) = it.ports
        it = structs.replace(it, ports=(structs.replace(port, automatic=True),))
        await station.engine.apply(it, 1)
        with pytest.raises(ListensElsewhere) as elsewhere:
            await station.engine.wait_until_ready(it, 1)
        assert elsewhere.value.port == own
        await station.engine.apply(it, 0)
        moved = await rolled_out(station, _moved(it, own), 1)
        assert len(moved.ready) == len(await rig.copies(it.service)) == 1

    # Alive and ready from then on

    @pytest.mark.essential
    async def test_an_instance_whose_liveness_probe_fails_is_restarted(self, rig, station):
        needs(rig, "programs")
        it = await workload(rig, alive=(absent(await rig.artifact(""), "dead"),))
        made = await station.apply(it)
        await write(station, it, made, "dead")

        async def another() -> bool:
            return "Instance 0 is not alive" in " ".join(station.said) and station.said.count("here") == 2

        await until(another)
        assert len(await rig.copies(it.service)) == 1
        await until(lambda: _noticed(station, it.service))

    async def test_an_instance_is_not_ready_while_its_readiness_probe_fails(self, rig, station):
        needs(rig, "programs")
        probe = absent(await rig.artifact(""), "busy")
        it = await workload(rig, ready=(probe,), watched=True)
        made = await station.apply(it)
        await station.engine.wait_until_ready(it, 1)
        await write(station, it, made, "busy")
        await until(lambda: _ready(station, it.service, 0))
        await until(lambda: _noticed(station, it.service))
        assert (await station.one(it.service)).unready
        await write(station, it, made, "busy", remove=True)
        await until(lambda: _ready(station, it.service, 1))

    async def test_a_derived_readiness_probe_is_not_repeated_after_the_instance_became_ready(
        self, rig, station
    ):
        needs(rig, "programs")
        it = await workload(rig, ready=(absent(await rig.artifact(""), "busy"),))
        made = await station.apply(it)
        await station.engine.wait_until_ready(it, 1)
        await write(station, it, made, "busy")
        await asyncio.sleep(SOON * 4)
        assert (await station.engine.observe(it.service)).ready == (made,)


def tcp(port: int) -> HealthProbe:
    return HealthProbe(kind=ProbeKind.TCP, port=port)


def absent(artifact: Artifact, name: str) -> HealthProbe:
    """A probe that passes until the program's folder has a file of this name."""
    python = artifact.command[0]
    code = f"import os, sys; sys.exit(os.path.exists({name!r}))"
    return HealthProbe(kind=ProbeKind.EXEC, command=(python, "-c", code), period=SOON, failures=1)


async def write(station: Station, it: Workload, made: Instance, name: str, *, remove: bool = False) -> None:
    code = f"import os; os.remove({name!r})" if remove else f"open({name!r}, 'w')"
    assert await station.engine.execute(made, [it.artifact.command[0], "-c", code], 20) == (0, "")


def _moved(it: Workload, number: int) -> Workload:
    """Gives the only port another number, also in its probe."""
    (port,), (probe,) = it.ports, it.ready
    ports = (structs.replace(port, internal=number),)
    return structs.replace(it, ports=ports, ready=(structs.replace(probe, port=number),))


def _ids(instances: Sequence[Instance]) -> set[str]:
    return {instance.id for instance in instances}


async def _any(rig: Rig, service: str) -> bool:
    return bool(await rig.copies(service))


async def _noticed(station: Station, service: str) -> bool:
    return service in station.notices


async def _ready(station: Station, service: str, count: int) -> bool:
    return len((await station.engine.observe(service)).ready) == count
