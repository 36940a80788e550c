"""A static site is deployed like any application, and served by the router without an instance."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from shutil import rmtree

import pytest

from tests.running import clusters
from tests.running.deployments import PORT, deploy, deployed, deployment, generations
from tests.world import World, make_world
from windlass.control.deploying.routes import hold_names, refresh
from windlass.control.deploying.sites import lost_sites
from windlass.control.deploying.steps import maintain
from windlass.core.words.events import Event
from windlass.engines.workload import SiteHeader, StaticSite
from windlass.routers.router import Absence
from windlass.routers.sites.index import read_index

HEADER = {"path": "/*", "name": "X-Frame-Options", "value": "DENY"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        made.builder.names = {"static": StaticSite(folder="dist")}
        yield made


def served(world: World, app: str) -> str:
    """Returns the folder from which the router serves an application; empty if it does not."""
    (folder,) = {route.site for route in world.router.routes[app]}
    return str(folder)


def files(world: World) -> set[str]:
    """Returns the services of which files are in place."""
    folder = world.folder / "sites"
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


async def looked_at(world: World, app: str) -> None:
    """Lets the next check at an application happen, as after a start of the server."""
    world.installation.note_change(app)
    await world.installation.note_changes()
    await world.settle()


async def test_a_site_runs_without_an_instance(world):
    app = await deployed(world)
    assert generations(world, app) == []
    status = (await world.get(f"/application/{app}/status")).json
    assert (status["state"], status["message"]) == ("RUNNING", "")
    assert [status[name] for name in ("instances", "running_instances", "ready_instances")] == [0, 0, 0]
    assert {(route.kind, route.endpoints) for route in world.router.routes[app]} == {("http", ())}
    assert read_index(Path(served(world, app))).find("index.html")


async def test_a_site_does_not_break_while_a_check_of_it_takes_long(world: World, monkeypatch):
    app, looks, was_shown = await deployed(world), 0, asyncio.Event()

    async def note_look(*_: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:  # the first look is complete
            was_shown.set()

    monkeypatch.setattr(maintain, "SLOW_START", 0.01)
    monkeypatch.setattr(maintain, "_note_instances", note_look)
    monkeypatch.setattr(maintain, "apply", lambda *_: was_shown.wait())
    await looked_at(world, app)
    assert looks >= 2
    assert await world.events(Event.BROKE) == []


async def test_the_build_log_of_a_static_site_says_how_many_files_are_served(world):
    app = await deployed(world)
    id = (await world.get(f"/application/{app}/status"))["execution_id"]
    log = (await world.get(f"/application/{app}/deployment/{id}/log")).body
    assert re.search(rb"Put in place for the gateway: 1 file with [1-9]\d* bytes, 0 also compressed\.", log)


async def test_a_running_static_site_is_not_republished(world):
    app = await deployed(world)
    before = served(world, app)
    await world.run(120)
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert served(world, app) == before


async def test_a_deployment_serves_the_new_files_of_a_site_and_a_rollback_the_former_ones(world):
    app = await deployed(world)
    first = served(world, app)
    former = (await world.get(f"/application/{app}/deployment"))["results"][0]["id"]
    world.git.push("second")
    world.engine.files = {"index.html": b"second"}
    await deploy(world, app)
    await world.settle()
    second = served(world, app)
    assert second != first
    assert Path(first).exists()
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": former})
    assert answer.status == 202, answer
    await world.settle()
    assert served(world, app) == first
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_only_the_files_of_the_current_and_the_former_release_of_a_site_are_kept(world):
    app = await deployed(world)
    for number in range(4):
        world.git.push(f"commit {number}")
        await deploy(world, app)
        await world.settle()
    assert len([*(world.folder / "sites" / app).iterdir()]) == 2


async def test_a_stopped_site_is_not_served_and_a_deleted_site_has_no_files(world):
    app = await deployed(world)
    await world.post(f"/application/{app}/stop")
    await world.settle()
    assert served(world, app) == ""
    assert await world.state(f"/application/{app}") == "STOPPED"
    await deploy(world, app)
    await world.settle()
    assert served(world, app)
    await world.delete(f"/application/{app}")
    await world.settle()
    assert files(world) == set()


async def test_an_uninstalled_site_has_no_files(world):
    app = await deployed(world)
    await world.post(f"/application/{app}/uninstall")
    await world.settle()
    assert files(world) == set()


async def test_a_folder_that_cannot_be_served_fails_the_deployment_and_the_former_site_stays(world):
    app = await deployed(world)
    before = served(world, app)
    world.engine.files = {".env": b"SECRET"}
    world.git.push("empty")
    id = await deploy(world, app)
    await world.settle()
    failed = await deployment(world, app, id)
    assert failed["status"] == "FAILED"
    assert failed["message"].startswith("Build a page into the folder dist")
    assert "still serves" in failed["message"]
    assert served(world, app) == before


async def test_lost_files_of_a_site_are_published_again_when_the_site_is_reconciled(world):
    app = await deployed(world)
    await world.installation.ctx.sites.discard(app)
    await looked_at(world, app)
    assert read_index(Path(served(world, app))).find("index.html")


@pytest.mark.parametrize("is_lost", [True, False])
async def test_files_that_are_lost_while_the_server_runs_are_put_in_place_again(world, caplog, is_lost):
    """The control: files that are there are left alone."""
    app = await deployed(world)
    if is_lost:
        rmtree(world.folder / "sites")
    await world.installation.routes.restore_sites()
    assert ("lost files of a site" in caplog.text) == is_lost
    await world.settle()
    assert read_index(Path(served(world, app))).find("index.html")


async def test_a_stopped_site_has_no_files_to_watch(world):
    app = await deployed(world)
    assert (await world.post(f"/application/{app}/stop")).status == 202
    await world.settle()
    rmtree(world.folder / "sites", ignore_errors=True)
    assert await lost_sites(world.installation.ctx) == []


async def test_a_site_whose_build_is_gone_is_built_again(world):
    app = await deployed(world)
    built = len(world.builder.built)
    await world.installation.ctx.sites.discard(app)
    world.builder.kept.clear()
    world.engine.builds = world.builder.kept
    await looked_at(world, app)
    assert len(world.builder.built) == built + 1
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert read_index(Path(served(world, app))).find("index.html")


async def test_a_site_whose_files_are_missing_says_so_until_they_are_built_again(world):
    app = await deployed(world)
    await world.installation.ctx.sites.discard(app)
    world.builder.kept.clear()
    world.engine.builds = world.builder.kept
    await refresh(world.installation.ctx, app)
    assert {(route.absence, route.site) for route in world.router.routes[app]} == {
        (Absence.FILES_MISSING, "")
    }
    await looked_at(world, app)
    assert served(world, app)


async def test_settings_of_a_site_need_no_build(world):
    app = await deployed(world)
    before = served(world, app)
    await world.patch(f"/application/{app}", {"static_headers": [HEADER], "static_fallback": "index.html"})
    await deploy(world, app)
    await world.settle()
    rules = read_index(Path(served(world, app))).rules
    assert len(world.builder.built) == 1
    assert served(world, app) != before
    assert (rules.fallback, rules.headers[0].fields) == ("index.html", (("X-Frame-Options", "DENY"),))


async def test_a_single_page_application_gets_its_fallback_page_without_a_setting(world):
    world.builder.names = {"static": StaticSite(folder="dist", derived_fallback="index.html")}
    app = await deployed(world)
    assert read_index(Path(served(world, app))).rules.fallback == "index.html"


async def test_the_first_static_header_setting_for_a_path_takes_precedence(world):
    world.builder.names = {"static": StaticSite(folder=".", headers=(SiteHeader("/*", "X", "of the build"),))}
    headers = [{"path": "/a", "name": "X", "value": "first"}, {"path": "/*", "name": "X", "value": "second"}]
    app = await deployed(world, static_headers=headers)
    rules = read_index(Path(served(world, app))).rules
    assert [fields[0][1] for _, fields in map(tuple_of, rules.headers)] == ["of the build", "second", "first"]


def tuple_of(rule):
    return rule.path, rule.fields


async def test_a_process_becomes_a_site_and_a_site_a_process(world):
    world.builder.names = {"command": ("run",)}
    app = await deployed(world, min_running_instances=2, max_running_instances=3)
    world.builder.names = {"static": StaticSite(folder="dist")}
    world.git.push("static")
    await deploy(world, app)
    await world.settle()
    assert (generations(world, app), bool(served(world, app))) == ([], True)
    world.builder.names = {"command": ("run",)}
    world.git.push("process")
    await deploy(world, app)
    await world.settle()
    assert (generations(world, app), served(world, app)) == ([3, 3], "")
    status = (await world.get(f"/application/{app}/status")).json
    assert status["instances"] == 2


async def test_sites_of_deleted_services_are_swept(world):
    app = await deployed(world)
    folder = world.folder / "sites" / app
    await world.delete(f"/application/{app}")
    await world.settle()
    folder.mkdir(parents=True)
    await world.run(120)
    assert files(world) == set()


async def test_another_organization_cannot_name_the_files_of_a_site(world):
    app = await deployed(world)
    _, token = await world.organization()
    project = await world.post("/project", {"name": "x"}, token=token)
    for folder in (f"../{app}", f"../../sites/{app}", "/etc"):
        body = {"name": "thief", "static_folder": folder}
        answer = await world.patch(f"/application/{app}", body)
        assert answer.status == 400
        assert answer.message.startswith("static_folder: ")
    assert project.status != 500


async def test_every_port_of_a_static_site_serves_http_even_if_declared_as_tcp(world):
    tcp = {"internal_port": 9000, "protocol": "TCP", "publicly_accessible": True, "external_port": 30123}
    app = await deployed(world, ports=[PORT, tcp])
    assert {route.kind for route in world.router.routes[app]} == {"http"}
    assert all(route.site for route in world.router.routes[app])


async def test_a_site_is_served_although_its_host_is_away(world):
    """Its files are on the machine of the gateway."""
    east = await clusters.cluster(world)
    app = await clusters.application_on(world, east)
    ctx = world.installation.ctx
    (await ctx.places.at(east)).builder.names = {"static": StaticSite(folder="dist")}
    await clusters.deploy(world, app)
    folder = served(world, app)
    clusters.engine_of(world, east).away = True
    await world.run(600)
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert served(world, app) == folder
    # A server that has just started knows nothing of the host, and its router has no routes.
    world.router.routes.clear()
    ctx.routing.looked.clear()
    await hold_names(ctx, app)
    assert served(world, app) == folder


async def test_a_static_site_without_declared_ports_gets_an_address(world):
    app = await world.application()
    await deploy(world, app)
    await world.settle()
    (link,) = (await world.get(f"/application/{app}/link"))["results"]
    assert link["url"].startswith("http://app-")
    assert served(world, app)
