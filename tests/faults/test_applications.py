"""Applications that do what they should not: each is told of, leaves the others alone, and leaves nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.engines.dockers import docker_host
from tests.faults.inside import HTTP, Inside, Service, inside, until
from tests.faults.test_no_gap import crowd_of
from tests.marks import nightly
from windlass.docker.client import Docker

pytestmark = pytest.mark.slow


def messages(there: Inside, service: Service) -> list[str]:
    return [json.loads(line)["message"] for line in there.ctx.logs.tail(service.id, 100)]


async def speaks(there: Inside, service: Service) -> None:
    async def heard() -> bool:
        return "here" in messages(there, service)

    await until(heard)


@pytest.fixture(params=["process", *nightly("docker")])
async def there(request, tmp_path: Path):
    docker = Docker(docker_host()).host if request.param == "docker" else ""
    async with inside(tmp_path, docker=docker, ready_seconds=5, settle_seconds=0.5) as made:
        yield made


async def frail(there: Inside) -> Service:
    """It runs, and its next version need not."""
    shop = await there.application("frail", ports=[HTTP])
    assert (await shop.do("deploy", git_commit_id=there.code.good))["status"] == "SUCCEEDED"
    return shop


async def test_an_unhealthy_release_fails_and_the_earlier_one_keeps_running(there: Inside):
    shop = await frail(there)
    failed = await shop.do("deploy", git_commit_id=there.code.deaf)
    assert failed["status"] == "FAILED"
    assert "it does not answer on port 8080" in failed["message"]
    assert "Its last lines were:\nhere" in failed["message"]
    assert (await shop.status())["state"] == "ERROR"
    assert await shop.running() == [(1, 0)]
    assert await there.ground.kept(shop.id) == ["1-0"]


async def test_a_release_that_exits_at_once_fails_with_its_last_lines(there: Inside):
    shop = await frail(there)
    failed = await shop.do("deploy", git_commit_id=there.code.broken)
    assert failed["status"] == "FAILED"
    assert "exited with code 3 while it was starting" in failed["message"]
    assert "cannot read its settings" in failed["message"]
    assert await shop.running() == [(1, 0)]
    assert await there.ground.kept(shop.id) == ["1-0"]


async def test_a_release_that_exits_at_once_without_a_health_check_fails(there: Inside):
    broken = await there.application("exits")
    failed = await broken.do("deploy")
    assert failed["status"] == "FAILED"
    assert "exited with code 3" in failed["message"]
    assert await there.ground.kept(broken.id) == []


async def test_a_flood_of_output_is_bounded_and_delays_no_other_service(
    there: Inside,
):
    flood, quiet = await there.application("floods"), await there.application("sleeps")
    assert (await flood.do("deploy"))["status"] == "SUCCEEDED"
    assert (await quiet.do("deploy"))["status"] == "SUCCEEDED"
    await speaks(there, quiet)
    for service in (flood, quiet):
        assert (await service.do("stop"))["status"] == "SUCCEEDED"
    assert await there.ground.living() == []
    kept = sum(
        path.stat().st_size for path in (Path(there.ctx.settings.data_dir) / "logs" / flood.id).rglob("*")
    )
    assert 0 < kept < 2 * there.ctx.settings.log_retention_bytes


@pytest.mark.nightly
async def test_a_flood_of_output_delays_no_request(tmp_path: Path):
    async with inside(tmp_path) as there:
        flood, shop = await there.application("floods"), await there.application("answers", ports=[HTTP])
        assert (await flood.do("deploy"))["status"] == "SUCCEEDED"
        assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
        async with await crowd_of(shop) as crowd:
            await crowd.goes_on()
        assert crowd.failed == []


async def test_an_instance_that_ignores_sigterm_is_killed(there: Inside):
    stubborn = await there.application("stays")
    assert (await stubborn.do("deploy"))["status"] == "SUCCEEDED"
    assert (await stubborn.do("redeploy"))["status"] == "SUCCEEDED"
    assert await there.ground.living() == [(stubborn.id, 2, 0)]
    assert (await stubborn.do("stop"))["status"] == "SUCCEEDED"
    assert await there.ground.living() == []
    assert await there.ground.kept(stubborn.id) == []


async def test_a_build_that_never_ends_is_ended_and_leaves_nothing(tmp_path: Path):
    async with inside(tmp_path, build_seconds=3) as there:
        endless = await there.application("endless")
        failed = await endless.do("deploy")
        assert failed["status"] == "FAILED"
        assert "it took longer than 3 seconds" in failed["message"]
        assert (await endless.status())["deployment_state"] == "BUILD_ERROR"
        await leaves_nothing(there, endless)


@pytest.mark.nightly
async def test_a_build_that_never_ends_can_be_cancelled_and_leaves_nothing(tmp_path: Path):
    async with inside(tmp_path) as there:
        endless = await there.application("endless")
        id = await endless.ask("deploy")
        await until(lambda: builders_of(there))
        await there.call("POST", f"{endless.path}/cancelDeployment")
        assert (await endless.ended(id))["status"] == "CANCELED"
        await leaves_nothing(there, endless)


async def leaves_nothing(there: Inside, service: Service) -> None:
    data = Path(there.ctx.settings.data_dir)

    async def gone() -> bool:
        return not await builders_of(there)

    await until(gone)
    assert [path.name for path in (data / "work").glob("*")] == []
    kept = data / "builds" / service.id
    assert [path.name for path in kept.glob("*") if path.name != ".deps"] == []
    assert all((path / "complete").exists() for path in (kept / ".deps").glob("*") if path.is_dir())


async def builders_of(there: Inside) -> list[int]:
    """Processes with a home among the builds."""
    mark, found = f"HOME={there.ctx.settings.data_dir}/builds/".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
