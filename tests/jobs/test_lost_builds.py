"""Jobs whose builds are gone, as after a move of the data directory, are built again when a run is due."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.jobs.sites import DOCKER, MINUTE, Programs, cron, deployed, ready_job, runs
from tests.world import World, make_world
from windlass.control.records.deployments import KEPT_WORKLOADS

OFTEN = 30
"""Seconds in which a deployment and a run come to their ends."""


async def deployments(world: World, job: str) -> list[Any]:
    """The oldest first."""
    return list(reversed((await world.get(f"/job/{job}/deployment"))["results"]))


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with make_world(database_url) as made:
        yield made


def lose_build(world: World) -> None:
    world.builder.kept.clear()
    world.builder.place = "elsewhere"
    world.engine.builds = world.builder.kept


async def become_due(world: World) -> None:
    world.clock.turn(60 * MINUTE)
    await world.run(OFTEN)


async def test_a_due_run_of_a_job_whose_build_was_lost_rebuilds_the_same_commit_and_starts_it(world: World):
    programs = Programs(world)
    job = await ready_job(world, source=DOCKER, schedule=cron("0 * * * *"))
    commit = (await deployments(world, job))[0]["git_commit_id"]
    world.git.push("something newer")
    lose_build(world)
    await become_due(world)
    (run,) = await runs(world, job)
    assert (run["status"], run["cause"]) == ("SUCCEEDED", "SCHEDULE"), run
    first, again = await deployments(world, job)
    assert (again["git_commit_id"], again["repeats"]) == (commit, first["id"])
    assert run["deployment_id"] == again["id"]
    assert len(programs.started) == 1
    await become_due(world)
    assert [run["status"] for run in await runs(world, job)] == ["SUCCEEDED"] * 2
    assert len(await deployments(world, job)) == 2


async def test_a_run_fails_with_the_reason_of_the_build_that_cannot_be_repeated(world: World):
    programs = Programs(world)
    job = await ready_job(world, source=DOCKER, schedule=cron("0 * * * *"))
    world.builder.broken = "the compiler is gone, too"
    lose_build(world)
    await become_due(world)
    (run,) = await runs(world, job)
    assert run["status"] == "FAILED"
    assert "the compiler is gone, too" in run["message"]
    assert programs.started == []
    await become_due(world)
    assert [one["status"] for one in await deployments(world, job)] == ["SUCCEEDED", "FAILED", "FAILED"]


async def test_a_run_with_an_existing_build_starts_it(world: World):
    """The control of the tests above."""
    job = await ready_job(world, source=DOCKER, schedule=cron("0 * * * *"))
    world.engine.builds = world.builder.kept
    await become_due(world)
    assert [run["status"] for run in await runs(world, job)] == ["SUCCEEDED"]
    assert len(await deployments(world, job)) == 1


async def test_a_due_run_finds_the_version_of_its_timetable_however_many_deployments_failed_after_it(
    world: World,
):
    programs = Programs(world)
    job = await ready_job(world, source=DOCKER, schedule=cron("0 * * * *"))
    world.git.push("a version that cannot be built")
    world.builder.broken = "it does not compile"
    for _ in range(KEPT_WORKLOADS + 4):
        assert (await deployed(world, job))["status"] == "FAILED"
    await become_due(world)
    (run,) = await runs(world, job)
    assert run["status"] == "SUCCEEDED", run
    assert len(programs.started) == 1
