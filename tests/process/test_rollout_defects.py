"""Negative controls: the promises of a rollout are broken by an engine, and the suite finds each of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.engines import rollouts, stations
from tests.engines.processes import ProcessRig
from tests.engines.rollouts import Rollouts
from tests.engines.stations import Station
from tests.fakes.engine import FakeEngine
from tests.sdk.test_fake import FakeRig
from windlass.engines.engine import Leave, Note, NotReady, ignore_note, leave_immediately
from windlass.engines.rollout.engine import RolloutEngine
from windlass.engines.rollout.health import HealthMonitor
from windlass.engines.workload import Instance, Observation, Workload


class StartsOne(FakeEngine):
    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        return await super().apply(workload, min(count, 1), leave)


class StartsAgain(FakeEngine):
    async def run(self, wanted: Workload, index: int) -> Instance:
        self.instances.pop((wanted.service, wanted.generation, index), None)
        made = await super().run(wanted, index)
        self.instances[wanted.service, wanted.generation, index] = replace(made, started_at=self.begun)
        return made


class EndsNone(FakeEngine):
    async def end(self, service: str, **given: Any) -> None:
        if given.get("indexes") is None:
            await super().end(service, **given)


class EndsAllInstead(FakeEngine):
    async def end(self, service: str, **given: Any) -> None:
        await super().end(service, **(given | {"indexes": None}))


class EndsOtherGenerations(FakeEngine):
    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        for generation in range(1, workload.generation):
            await self.remove(workload.service, generation=generation)
        return await super().apply(workload, count, leave)


class RemovesEveryGeneration(FakeEngine):
    async def remove(self, service: str, *, generation: int | None = None, grace: float = 10.0) -> None:
        await super().remove(service, grace=grace)


class EndsWithoutLeave(FakeEngine):
    async def apply(self, workload: Workload, count: int, leave: Leave = leave_immediately) -> Observation:
        return await super().apply(workload, count)


class LeavesReady(FakeEngine):
    async def observe(self, service: str) -> Observation:
        return Observation(tuple(await self.copies(service)))


class WaitsForNothing(FakeEngine):
    async def wait_until_ready(self, workload: Workload, count: int, note: Note = ignore_note) -> None:
        return None


class Defect(Struct, frozen=True):
    engine: type[FakeEngine]
    found_by: str


DEFECTS = [
    Defect(StartsOne, "applying_a_number_of_instances_runs_exactly_that_many"),
    Defect(StartsAgain, "applying_the_same_number_again_does_not_change_running_instances"),
    Defect(StartsAgain, "scaling_up_starts_only_the_missing_instances"),
    Defect(EndsNone, "scaling_down_ends_only_the_surplus_instances"),
    Defect(EndsAllInstead, "scaling_down_ends_only_the_surplus_instances"),
    Defect(EndsNone, "scaling_to_zero_ends_all_instances_and_the_generation_can_be_scaled_up_again"),
    Defect(EndsOtherGenerations, "applying_a_generation_does_not_change_other_generations"),
    Defect(RemovesEveryGeneration, "removing_a_generation_does_not_change_the_other_one"),
    Defect(StartsOne, "an_interrupted_apply_is_completed_by_the_next_one"),
    Defect(EndsWithoutLeave, "a_surplus_instance_leaves_the_ready_instances_before_it_ends"),
    Defect(LeavesReady, "a_surplus_instance_leaves_the_ready_instances_before_it_ends"),
    Defect(EndsWithoutLeave, "a_surplus_instance_that_is_still_used_is_not_ended"),
    Defect(WaitsForNothing, "a_generation_with_a_missing_instance_is_not_ready"),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"{defect.engine.__name__}-{defect.found_by}")
async def test_the_suite_finds_an_engine_that_breaks_a_promise_of_rollouts(defect: Defect, monkeypatch):
    monkeypatch.setattr(rollouts, "PATIENCE", 0.2)
    rig = FakeRig(defect.engine())
    promise = getattr(Rollouts(), f"test_{defect.found_by}")
    async with Station(rig) as station:
        with pytest.raises((AssertionError, NotReady, pytest.fail.Exception)):
            await promise(rig, station)


async def not_waiting(self: RolloutEngine, workload: Workload, count: int, note: Note = ignore_note) -> None:
    return None


UNPROBED = (HealthMonitor, "watch", lambda self, workload: None)
UNWAITED = (RolloutEngine, "wait_until_ready", not_waiting)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("removed", "found_by"),
    [
        (UNWAITED, "a_generation_with_an_exited_instance_is_not_ready"),
        (UNWAITED, "a_generation_whose_probe_never_passes_is_not_ready_and_the_failed_probe_is_reported"),
        (UNPROBED, "an_instance_whose_liveness_probe_fails_is_restarted"),
        (UNPROBED, "an_instance_is_not_ready_while_its_readiness_probe_fails"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1],
)
async def test_the_conformance_suite_fails_for_an_engine_without_probes(
    tmp_path, monkeypatch, removed, found_by
):
    monkeypatch.setattr(stations, "LONG", 1.5)
    monkeypatch.setattr(*removed)
    rig = ProcessRig(tmp_path)
    async with Station(rig) as station:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await getattr(Rollouts(), f"test_{found_by}")(rig, station)
        await station.engine.sweep(await station.engine.services())
