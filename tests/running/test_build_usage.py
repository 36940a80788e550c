"""What a build used is shown with its deployment, and behind a link that ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.builder import FakeBuilder
from tests.world import World
from windlass.builders.usage import BuildUsage
from windlass.control.services import build_usage_reports

MIB = 1 << 20


@pytest.fixture
def builder(world: World) -> FakeBuilder:
    """A builder that says what its builds use."""
    made = world.builder
    assert isinstance(made, FakeBuilder)
    made.used = BuildUsage(cpu_ms=2500, peak_memory=300 * MIB)
    return made


async def deploy(world: World, app: str) -> Any:
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return (await world.get(f"/application/{app}/deployment"))["results"][0]


async def test_a_deployment_shows_what_its_build_used(world: World, builder: FakeBuilder):
    app = await world.application()
    shown = await deploy(world, app)
    assert shown["build_usage"] == {"cpu_seconds": 2.5, "peak_memory_bytes": 300 * MIB}
    again = await deploy(world, app)
    assert "build_usage" not in again, "the second one uses the build of the first one"


async def test_a_failed_build_shows_what_it_used(world: World, builder: FakeBuilder):
    builder.broken = "Fix it: it does not compile"
    shown = await deploy(world, await world.application())
    assert (shown["status"], shown["build_usage"]["cpu_seconds"]) == ("FAILED", 2.5)


async def test_what_an_engine_does_not_measure_is_left_out(world: World, builder: FakeBuilder):
    builder.used = BuildUsage()
    assert "build_usage" not in await deploy(world, await world.application())


class Report:
    """The report of a deployment of an environment with two applications."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def make(self, seconds: int = 3600, **options: Any) -> Any:
        self.environment = await self.world.environment()
        for name in ("web", "<b>api</b>"):
            await self.world.application(self.environment, name=name)
        await self.world.post(f"/environment/{self.environment}/deploy")
        await self.world.settle()
        self.execution = (await self.world.get(f"/environment/{self.environment}/status"))["execution_id"]
        return await self.ask(seconds, **options)

    async def ask(self, seconds: int = 3600, **options: Any) -> Any:
        body = {"execution_id": self.execution, "report_expiration_in_seconds": seconds}
        path = f"/environment/{self.environment}/deploymentBuildUsageReport"
        return await self.world.post(path, body, **options)


def path_of(url: str) -> str:
    return "/" + url.split("/", 3)[3]


@pytest.fixture
def report(world: World, builder: FakeBuilder) -> Report:
    return Report(world)


async def test_the_report_is_read_by_its_address_alone(world: World, report: Report):
    made = await report.make()
    assert made.status == 201, made
    read = await world.get(path_of(made["report_url"]), token=None)
    assert (read.status, read["environment_id"], read["execution_id"]) == (
        200,
        report.environment,
        report.execution,
    )
    assert {(one["name"], one["cpu_seconds"], one["peak_memory_bytes"]) for one in read["services"]} == {
        ("web", 2.5, 300 * MIB),
        ("<b>api</b>", 2.5, 300 * MIB),
    }
    page = await world.get(path_of(made["report_url"]), token=None, headers={"accept": "text/html"})
    assert b"2.5 s" in page.body
    assert b"&lt;b&gt;api" in page.body
    assert b"<b>api" not in page.body


async def test_the_link_to_a_report_ends_at_its_time(world: World, report: Report):
    path = path_of((await report.make(60))["report_url"])
    world.clock.turn(59)
    assert (await world.get(path, token=None)).status == 200
    world.clock.turn(1)
    assert (await world.get(path, token=None)).status == 404


@pytest.mark.parametrize("method", ["DELETE", "POST"])
async def test_a_report_is_deleted_by_its_other_address(world: World, report: Report, method: str):
    made = await report.make()
    delete, read = path_of(made["delete_report_url"]), path_of(made["report_url"])
    asked = await world.get(delete, token=None, headers={"accept": "text/html"})
    assert b"<form" in asked.body
    assert (await world.get(read, token=None)).status == 200, "programs that look at links delete nothing"
    assert (await world.call(method, delete, token=None)).status == 204
    assert (await world.get(read, token=None)).status == 404
    assert (await world.call(method, delete, token=None)).status == 404


async def test_a_guessed_address_is_refused_and_a_report_takes_no_other_method(world: World, report: Report):
    path = path_of((await report.make())["report_url"])
    for wrong in (
        path[:-1],
        f"{path}x",
        path.replace(report.environment, report.execution),
        "/build-usage-report/",
    ):
        assert (await world.get(wrong, token=None)).status == 404, wrong
    assert (await world.post(path, token=None)).status == 405


async def test_the_id_of_a_deployment_of_a_service_is_that_of_its_environment(world: World, report: Report):
    await report.make()
    whole = report.execution
    services = (await world.get(f"/environment/{report.environment}/services"))["results"]
    for one in services:
        deployments = (await world.get(f"/application/{one['id']}/deployment"))["results"]
        report.execution = deployments[0]["id"]
        read = await world.get(path_of((await report.ask())["report_url"]), token=None)
        assert (read["execution_id"], len(read["services"])) == (whole, 2)


async def test_a_report_is_refused_for_deployments_of_others_and_for_wrong_times(
    world: World, report: Report
):
    await report.make()
    own = report.execution
    elsewhere = Report(world)
    await elsewhere.make()
    report.execution = elsewhere.execution
    refused = await report.ask()
    assert (refused.status, refused.message.partition(":")[0]) == (400, "execution_id")
    report.execution = own
    for seconds in (0, 31 * 86_400):
        refused = await report.ask(seconds)
        assert (refused.status, refused.message.partition(":")[0]) == (400, "report_expiration_in_seconds")
    reader = await world.new_token("Read")
    assert (await report.ask(token=reader)).status == 403


async def test_links_that_ended_make_room_for_others(world: World, report: Report, monkeypatch):
    monkeypatch.setattr(build_usage_reports, "MAX_REPORTS", 2)
    assert (await report.make(60)).status == 201
    assert (await report.ask(60)).status == 201
    assert (await report.ask(60)).status == 409
    world.clock.turn(60)
    assert (await report.ask(60)).status == 201


async def test_the_code_of_a_report_is_not_in_the_database(world: World, report: Report):
    code = (await report.make())["report_url"].rpartition("/")[2]
    stored = [row.body for row in await world.events()]
    assert not any(code.encode() in body for body in stored)
    fields = await world.installation.ctx.store.reads.links.fields(report.environment)
    assert fields
    assert not any(code in field for field in fields)
