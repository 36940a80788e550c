"""Every run that ends is counted once, by the family of its service and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from tests.jobs.sites import MINUTE, Programs, cron, deployed, images_world, ready_job
from tests.metrics.prometheus import scraped
from tests.terraform_services.test_moved_states import Modules, service_of
from tests.world import World, make_world

LONG = 3 * 3600
LEASE = 16


async def counted(world: World) -> Mapping[tuple[str, str], float]:
    return {
        (sample.labels["family"], sample.labels["result"]): sample.value
        for family in text_string_to_metric_families(await scraped(world))
        for sample in family.samples
        if sample.name == "windlass_runs_total" and sample.value
    }


async def minutes(world: World, count: int) -> None:
    for _ in range(count):
        world.clock.turn(MINUTE)
        await world.settle()


async def test_runs_of_jobs_are_counted_by_result_and_each_retry_counts(database_url: str):
    async with images_world(database_url) as world:
        assert await counted(world) == {}
        programs = Programs(world)
        programs.codes = [0, 3, 3]
        await ready_job(world, schedule={"on_start": {"arguments": ["migrate"]}})
        assert await counted(world) == {("job", "succeeded"): 1}
        await ready_job(world, schedule=cron("0 0 * * *"), max_nb_restart=1)
        world.clock.turn(24 * 3600)
        await minutes(world, 2)
        assert await counted(world) == {("job", "succeeded"): 1, ("job", "failed"): 2}


async def test_cancelled_skipped_and_timed_out_runs_are_counted_separately(database_url: str):
    async with images_world(database_url) as world:
        programs = Programs(world)
        programs.gate = asyncio.Event()
        job = await ready_job(world)
        await minutes(world, 2)
        run = (await world.get(f"/job/{job}/run"))["results"][1]["id"]
        await world.post(f"/job/{job}/run/{run}/cancel")
        await world.settle()
        await deployed(world, job, "stop")
        assert await counted(world) == {("job", "canceled"): 1, ("job", "skipped"): 1}
        slow = await ready_job(world, schedule=cron("0 0 1 1 *"), max_duration_seconds=10)
        await world.post(f"/job/{slow}/run")
        for _ in range(3):
            await world.settle()
            world.clock.turn(LEASE)
        assert (await counted(world))["job", "timed_out"] == 1


async def test_terraform_runs_including_the_destroy_run_of_a_deletion_are_counted():
    async with make_world() as world:
        programs = Modules(world)
        service = await service_of(world)
        path = f"/terraform/{service}"
        for code in (0, 1):
            programs.codes = [code]
            await world.post(f"{path}/deploy")
            await world.settle()
        assert await counted(world) == {("terraform", "succeeded"): 1, ("terraform", "failed"): 1}
        programs.gate = asyncio.Event()
        await world.post(f"{path}/deploy")
        await world.settle()
        deployment = (await world.get(f"{path}/deployment"))["results"][0]["id"]
        await world.post(f"{path}/deployment/{deployment}/cancel")
        await world.settle()
        assert (await counted(world))["terraform", "canceled"] == 1
        await world.post(f"{path}/deploy")
        await world.settle()
        world.clock.turn(LONG)
        await world.settle()
        assert (await counted(world))["terraform", "timed_out"] == 1
        programs.gate = None
        await world.delete(path)
        await world.settle()
        assert (await world.get(path)).status == 404
        assert await counted(world) == {
            ("terraform", "succeeded"): 2,
            ("terraform", "failed"): 1,
            ("terraform", "canceled"): 1,
            ("terraform", "timed_out"): 1,
        }


async def test_a_one_off_command_is_counted_with_its_application():
    async with make_world() as world:
        programs = Programs(world)
        app = await world.application()
        await world.post(f"/application/{app}/deploy")
        await world.settle()
        for code in (0, 2):
            programs.codes = [code]
            answer = await world.post(f"/application/{app}/run", {"command": ["python", "report.py"]})
            assert answer.status == 202, answer
            await world.settle()
        assert await counted(world) == {("application", "succeeded"): 1, ("application", "failed"): 1}


async def missed(world: World) -> float:
    name = "windlass_due_times_missed_total "
    (line,) = [line for line in (await scraped(world)).splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))


async def test_missed_due_times_are_counted(database_url: str):
    async with images_world(database_url) as world:
        programs = Programs(world)
        programs.codes = [0, 0]
        await ready_job(world, schedule=cron("0 * * * *"))
        world.clock.turn(3600 - world.clock.now() // 1000 % 3600)
        await world.settle()
        assert await missed(world) == 0
        world.clock.turn(3 * 3600 + 120)
        await world.settle()
        assert await missed(world) == 3
