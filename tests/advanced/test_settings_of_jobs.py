"""Advanced settings of jobs: what is due while a run is under way, and how many runs the list keeps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.jobs.sites import MINUTE, Programs, images_world, ready_job, runs, states
from tests.world import World

POLICY = "cronjob.concurrency_policy"
FAILED, SUCCEEDED = "cronjob.failed_jobs_history_limit", "cronjob.success_jobs_history_limit"
LIFETIME = "job.delete_ttl_seconds_after_finished"


@pytest.fixture
async def world(database_url):
    async with images_world(database_url) as made:
        yield made


async def job_with(world: World, settings: dict[str, Any]) -> str:
    job = await ready_job(world)
    answer = await world.put(f"/job/{job}/advancedSettings", settings)
    assert answer.status == 201, answer
    return job


@pytest.mark.parametrize(
    ("policy", "ended"),
    [
        ("Forbid", ["SUCCEEDED", "SKIPPED"]),
        ("Allow", ["SUCCEEDED", "SUCCEEDED"]),
        ("Replace", ["CANCELED", "SUCCEEDED"]),
    ],
)
async def test_a_due_time_while_a_run_is_under_way_follows_the_policy(
    world: World, policy: str, ended: list[str]
) -> None:
    programs = Programs(world)
    programs.gate = asyncio.Event()
    job = await job_with(world, {POLICY: policy})
    world.clock.turn(MINUTE)
    await world.settle()
    world.clock.turn(MINUTE)
    await world.settle()
    programs.gate.set()
    for _ in range(3):
        world.clock.turn(10)
        await world.settle()
    assert [state for _, state in await states(world, job)] == ended


async def test_the_list_keeps_as_many_runs_as_the_settings_say(world: World) -> None:
    programs = Programs(world)
    job = await job_with(world, {FAILED: 1, SUCCEEDED: 2})
    programs.codes = [1, 0, 1, 0, 0]
    for _ in range(5):
        world.clock.turn(MINUTE)
        await world.settle()
    kept = [(run["number"], run["status"]) for run in await runs(world, job)]
    assert kept == [(3, "FAILED"), (4, "SUCCEEDED"), (5, "SUCCEEDED")]


async def test_a_run_leaves_the_list_some_time_after_its_end(world: World) -> None:
    job = await job_with(world, {LIFETIME: 30})
    world.clock.turn(MINUTE)
    await world.settle()
    assert len(await runs(world, job)) == 1
    world.clock.turn(29)
    await world.settle()
    assert len(await runs(world, job)) == 1
    world.clock.turn(2)
    await world.settle()
    assert await runs(world, job) == []


async def test_jobs_without_settings_keep_their_runs(world: World) -> None:
    job = await ready_job(world)
    for _ in range(3):
        world.clock.turn(MINUTE)
        await world.settle()
    assert len(await runs(world, job)) == 3
