"""`windlass stop --all`: everything that runs ends, nothing is erased, and states say so."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.commands.line import Line
from tests.commands.test_stories import shop
from tests.engines.dockers import docker_host
from tests.fakes.engine import FakeEngine
from tests.marks import nightly
from tests.operate.installations import again, apart, settings_of
from tests.operate.test_losing_a_database import DOCKERFILE, PROGRAM, Site
from tests.running.clusters import application_on, cluster, connector, deploy
from tests.schemathesis.serving import served
from tests.whole import Windlass, place
from tests.world import ADMIN, FakeConnector, HandClock, World, fake_parts, make_world
from windlass.base.clock import SECOND, SystemClock
from windlass.config import DATABASE, Settings
from windlass.install import mark
from windlass.install.ownership import DatabaseMismatch
from windlass.install.parts import Parts
from windlass.operate import commands, stopping
from windlass.operate.explain import explain
from windlass.operate.serving import closing_line
from windlass.terminal.command_errors import CommandFailed, CommandRefused

pytestmark = pytest.mark.slow


def sure(count: int) -> None:
    """Yes."""


async def deployed(world: World) -> list[str]:
    """Two applications that run, one of another organization and one that never ran."""
    first, second = await world.application(), await world.application()
    await world.application()
    other, token = await world.organization()
    project = await world.made(f"/organization/{other}/project", {"name": "theirs"}, token=token)
    place = await world.made(f"/project/{project}/environment", {"name": "e"}, token=token)
    body = {"name": "theirs", "git_repository": {"url": "https://git.example/acme/shop.git"}}
    foreign = await world.made(f"/environment/{place}/application", body, token=token)
    for app, who in ((first, ADMIN), (second, ADMIN), (foreign, token)):
        assert (await world.post(f"/application/{app}/deploy", token=who)).status == 202
    await world.settle()
    assert {one.service for one in await world.engine.all()} == {first, second, foreign}
    return [first, second, foreign]


# With the server running


@pytest.fixture
async def windlass():
    async with make_world() as world, served(world) as url:
        yield Line(world, url)


async def meanwhile(windlass: Line, *words: str, **options: Any) -> Any:
    saying = asyncio.create_task(windlass(*words, **options))
    while not saying.done():
        await windlass.world.run(1)
        await asyncio.sleep(0.01)
    return saying.result()


async def test_stop_all_through_the_api_stops_only_services_that_the_token_may_see(windlass):
    first, second, foreign = await deployed(windlass.world)
    said = await meanwhile(windlass, "stop", "--all")
    assert said.code == 0, said
    assert said.out == "2 services are stopped; data, settings and history stay\n"
    assert {one.service for one in await windlass.world.engine.all()} == {foreign}
    for app in (first, second):
        assert await windlass.world.state(f"/application/{app}") == "STOPPED"


async def test_without_running_services_nothing_is_stopped(windlass):
    await shop(windlass)
    said = await windlass("stop", "--all")
    assert (said.code, said.out, said.err) == (0, "", "Nothing was running\n")
    assert (await windlass("stop", "--all", "--text")).err == "Nothing was running\n"
    assert (await windlass("stop", "--all", "--json")).json == {"stopped": 0}


async def test_a_token_that_may_only_read_stops_nothing(windlass):
    apps = await deployed(windlass.world)
    token = await windlass.world.new_token("Read")
    said = await windlass("stop", "--all", token=token)
    assert said.code == 1
    assert "Deploy" in said.err
    assert {one.service for one in await windlass.world.engine.all()} == set(apps)


async def test_stop_without_all_says_how_to_stop_one_service(windlass):
    said = await windlass("stop")
    assert said.code == 2
    assert "windlass application stop NAME" in said.err


async def test_stop_all_does_not_fall_back_to_the_local_folder_if_nothing_listens(windlass):
    said = await windlass("stop", "--all", url="http://127.0.0.1:1")
    assert said.code == 1
    assert said.err.startswith("windlass: start the server, or name its data directory")
    assert said.err.endswith("nothing listens at http://127.0.0.1:1\n")
    folder = Path(Settings().data_dir).absolute()
    assert f"`windlass stop --all --data-dir {folder}`" in said.err


@pytest.mark.parametrize("is_named", [True, False])
async def test_stop_all_with_a_data_dir_says_that_the_configured_url_is_not_called(
    windlass, tmp_path, monkeypatch, is_named
):
    monkeypatch.setattr(commands, "start_logging", lambda *_: None)
    url = {"url": "http://127.0.0.1:1"} if is_named else {"url": "http://127.0.0.1:8080"}
    said = await windlass("stop", "--all", "--data-dir", str(tmp_path / "none"), **url)
    assert ("http://127.0.0.1:1 is not called" in said.err) is is_named


# Without a server


@pytest.fixture
async def left(database_url, tmp_path) -> tuple[Settings, FakeEngine, list[str]]:
    """An installation whose server has stopped, and what goes on running."""
    engine = FakeEngine()
    async with make_world(database_url, folder=tmp_path / "data", engine=engine) as world:
        apps = await deployed(world)
        settings = settings_of(world)
    return settings, engine, apps


async def test_stop_all_without_a_server_stops_the_services_of_all_organizations_permanently(left, capsys):
    settings, engine, apps = left
    assert await apart(stopping.here(settings, sure, parts=fake_parts(engine))) == 3
    assert await engine.all() == []
    assert capsys.readouterr().err.count(": STOPPED\n") == 3
    async with make_world(settings.database_url, folder=Path(settings.data_dir), engine=engine) as world:
        await world.run(5)
        assert await engine.all() == []
        for app in apps[:2]:
            assert await world.state(f"/application/{app}") == "STOPPED"
        assert (await world.post(f"/application/{apps[0]}/redeploy")).status == 202
        await world.settle()
        assert {one.service for one in await engine.all()} == {apps[0]}


async def test_a_repeated_stop_all_stops_nothing(left):
    settings, engine, _ = left
    for count in (3, 0):
        assert await apart(stopping.here(settings, sure, parts=fake_parts(engine))) == count


async def test_stop_all_stops_nothing_if_the_confirmation_is_refused(left):
    settings, engine, apps = left

    def unsure(count: int) -> None:
        raise CommandFailed(f"not these {count}")

    with pytest.raises(CommandFailed, match="not these 3"):
        await apart(stopping.here(settings, unsure, parts=fake_parts(engine)))
    async with again(settings) as world:
        assert await world.state(f"/application/{apps[0]}") == "RUNNING"


async def test_a_stop_that_is_killed_halfway_is_finished_by_the_next_start(left, monkeypatch):
    settings, engine, apps = left

    async def killed(*_: Any) -> None:
        raise SystemExit(137)

    monkeypatch.setattr(stopping, "_wait_until_stopped", killed)
    with pytest.raises(SystemExit):
        await apart(stopping.here(settings, sure, parts=fake_parts(engine)))
    clock = HandClock(SystemClock().now() + SECOND)
    folder = Path(settings.data_dir)
    async with make_world(settings.database_url, folder=folder, engine=engine, clock=clock) as world:
        await world.settle()
        assert await engine.all() == []
        assert await world.state(f"/application/{apps[0]}") == "STOPPED"


async def test_stop_all_refuses_a_data_directory_whose_server_is_running(tmp_path):
    async with make_world(folder=tmp_path / "data") as world:
        apps = await deployed(world)
        with pytest.raises(CommandRefused, match="--url"):
            await apart(stopping.here(settings_of(world), sure, parts=fake_parts(FakeEngine())))
        assert {one.service for one in await world.engine.all()} == set(apps)


@pytest.fixture
async def on_two_places(tmp_path) -> tuple[Settings, Parts, FakeConnector, list[str]]:
    """An installation without its server: one application runs on this machine, one on a cluster."""
    engine = FakeEngine()
    async with make_world(folder=tmp_path / "data", engine=engine) as world:
        here, east = await world.application(name="here"), await cluster(world, "east")
        there = await application_on(world, east, name="there")
        for app in (here, there):
            await deploy(world, app)
        found, settings = connector(world), settings_of(world)
    return settings, replace(fake_parts(engine), connector=found), found, [here, there]


async def test_stop_all_without_a_server_also_stops_services_on_clusters(on_two_places):
    settings, parts, found, _ = on_two_places
    (east,) = found.engines.values()
    assert len(east.instances) == 1
    assert await apart(stopping.here(settings, sure, parts=parts)) == 2
    assert not east.instances
    assert await parts.engine.all() == []


async def test_stop_all_names_an_unreachable_cluster_and_stops_all_others(on_two_places, capsys):
    settings, parts, found, _ = on_two_places
    (east,) = found.engines.values()
    east.away = True
    with pytest.raises(
        CommandFailed, match=r"^start the engine of each cluster .*\(east\), and repeat.*\(there\)"
    ):
        await apart(stopping.here(settings, sure, parts=parts))
    assert capsys.readouterr().err == "here: STOPPED\n"
    assert await parts.engine.all() == []
    assert len(east.instances) == 1
    east.away = False
    assert await apart(stopping.here(settings, sure, parts=parts)) == 1
    assert not east.instances


async def test_stop_all_ends_instances_on_a_cluster_that_the_records_do_not_know(on_two_places):
    settings, parts, found, _ = on_two_places
    (east,) = found.engines.values()
    left = dict(east.instances)
    assert await apart(stopping.here(settings, sure, parts=parts)) == 2
    east.instances |= left
    assert await apart(stopping.here(settings, sure, parts=parts)) == 1
    assert not east.instances


async def test_a_cluster_on_which_nothing_was_deployed_need_not_be_reached(tmp_path):
    async with make_world(folder=tmp_path / "data") as world:
        await application_on(world, await cluster(world, "east"))
        found, settings = connector(world), settings_of(world)
    found.engines |= {id: FakeEngine() for id in found.engines}
    for engine in found.engines.values():
        engine.away = True
    parts = replace(fake_parts(FakeEngine()), connector=found)
    assert await apart(stopping.here(settings, sure, parts=parts)) == 0


async def test_through_the_api_a_cluster_that_is_not_reached_is_named(windlass):
    world = windlass.world
    east = await cluster(world, "east")
    here, there = await world.application(name="here"), await application_on(world, east, name="there")
    for app in (here, there):
        await deploy(world, app)
    connector(world).engines[east].away = True
    said = await meanwhile(windlass, "stop", "--all")
    assert said.code == 1
    assert "start the engine of each cluster that was not reached (east), and repeat" in said.err
    assert "what runs there keeps running (there)" in said.err
    assert await world.state(f"/application/{here}") == "STOPPED"
    assert len(connector(world).engines[east].instances) == 1


async def test_stop_all_refuses_a_folder_without_a_database_and_creates_none(tmp_path):
    with pytest.raises(CommandRefused, match="no database"):
        await apart(stopping.here(Settings(data_dir=str(tmp_path)), sure))
    assert not [*tmp_path.iterdir()]


async def test_stop_all_with_the_database_of_another_installation_stops_nothing(tmp_path):
    engine = FakeEngine()
    for name in ("one", "other"):
        async with make_world(folder=tmp_path / name, engine=engine if name == "one" else None) as world:
            await deployed(world)
    for file in (DATABASE, "key"):
        shutil.copy(tmp_path / "other" / file, tmp_path / "one" / file)
    settings = Settings(data_dir=str(tmp_path / "one"))
    with pytest.raises(DatabaseMismatch) as caught:
        await apart(stopping.here(settings, sure, parts=fake_parts(engine)))
    assert explain(caught.value)
    assert len(await engine.all()) == 3


# With real engines


@pytest.fixture
async def site(request) -> AsyncIterator[Site]:
    """One application, with a volume, in production."""
    host = docker_host() if request.param == "docker" else ""
    async with place(request.param, host, git_allow_local=True) as there:
        made = Site(there, there.settings, lambda: "")
        made.repository.put({"Dockerfile": DOCKERFILE, "app.sh": PROGRAM}).commit()
        try:
            async with made.started() as windlass:
                await make(made, windlass)
            yield made
        finally:
            shutil.rmtree(made.aside, ignore_errors=True)


async def make(site: Site, windlass: Windlass) -> None:
    org = (await windlass.call("GET", "/organization"))["id"]
    project = (await windlass.call("POST", f"/organization/{org}/project", {"name": "acme"}))["id"]
    made = await windlass.call("POST", f"/project/{project}/environment", {"name": "production"})
    site.environment = str(made["id"])
    site.first = await site.application(windlass, "first")


@pytest.mark.parametrize(
    ("site", "engine"),
    [
        ("process", "another"),
        *nightly(("process", "the same"), ("docker", "the same"), ("docker", "another")),
    ],
    indirect=["site"],
)
async def test_nothing_runs_afterwards_on_any_engine_and_all_data_stays(site: Site, engine: str):
    assert await site.there.machine.running()
    kept = await volumes(site)
    assert kept
    settings = site.settings
    if engine == "another":
        [name] = {"process", "docker"} - {settings.engine}
        settings = replace(settings, engine=name, docker_host=docker_host())
    assert await apart(stopping.here(settings, sure)) == 1
    marked = mark.read(settings)
    assert marked
    assert marked.engine == site.settings.engine
    assert not await site.there.machine.running()
    assert await volumes(site) == kept
    async with site.started() as windlass:
        status = await windlass.call("GET", f"/application/{site.first}/status")
        assert status["state"] == "STOPPED"
        assert not await site.there.machine.running()


async def volumes(site: Site) -> list[str]:
    traces = await site.there.machine.traces()
    return sorted(one for one in traces if "volumes" in one)


# Messages of a server at its end


def test_a_stopping_server_prints_how_many_services_keep_running():
    assert closing_line(Settings(), 12) == "12 services keep running; `windlass stop --all` ends them"
    assert closing_line(Settings(), 1) == "1 service keeps running; `windlass stop --all` ends it"
    assert closing_line(Settings(), 0) == ""


async def test_a_stopping_server_counts_running_services_and_not_instances(tmp_path):
    async with make_world(folder=tmp_path / "data") as world:
        many = await world.application(min_running_instances=3, max_running_instances=3)
        apps = [many, await world.application(), await world.application()]
        for app in apps[:2]:
            await world.post(f"/application/{app}/deploy")
        await world.settle()
    assert world.installation.left_running == 2


SERVE = [
    sys.executable,
    "-m",
    "windlass",
    "serve",
    "--port",
    "0",
    "--gateway-port",
    "0",
    "--engine",
    "process",
]
IN_THE_BACKGROUND = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
"""As a shell without job control starts what is followed by `&`."""


@pytest.mark.slow
@pytest.mark.parametrize("before", [IN_THE_BACKGROUND, *nightly([])], ids=["background", "foreground"])
def test_a_server_ends_with_sigint_and_says_nothing_if_it_leaves_nothing_running(tmp_path, before):
    command = [*before, *SERVE, "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        while "stop: Ctrl-C" not in server.stderr.readline():
            pass
        server.send_signal(signal.SIGINT)
        assert "running" not in server.stderr.read()
    assert server.returncode == 0
