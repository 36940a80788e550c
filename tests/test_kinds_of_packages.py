"""A package brings a kind of service: no file of the product changes, and nothing there names it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import World, make_world
from windlass.base.entry_points import entry_points
from windlass.console.files import ConsoleFiles
from windlass.control.deploying.routes import try_refresh
from windlass.control.kinds import find_kinds, kinds_of
from windlass.control.records.deployments import particulars
from windlass.families import find_declarations, registry_of
from windlass.routers.router import Endpoint

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "adding-a-service-kind.md"
ENTRY_POINTS = """
[windlass.families]
cache = windlass_cache.family

parcel = windlass_cache.parcel

[windlass.kinds]
cache = windlass_cache.kind
parcel = windlass_cache.parcel_kind

[windlass.console]
cache = windlass_cache.console
"""
# A kind that uses what the kinds of this repository use which change a cluster by their runs.
PARCEL = """
from typing import Annotated, Literal
from msgspec import Meta, field
from windlass.core.declare.fields import Maybe, Mebibytes, Millicores, Name, absent, in_section
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.core.declare.traits import deployable, has_deployments, has_links, has_logs
from windlass.core.settings.operations import has_advanced_settings
from windlass.core.settings.service_settings import ROUTED, rows_of
from windlass.core.settings.setting import settings_of_kind
from windlass.families.environment import environment

class Parcel(Spec):
    name: Name
    address: Annotated[str, in_section("parcel")] = ""
    cpu: Millicores = 100
    memory: Mebibytes = 64

class ParcelShown(Shown):
    environment: Owner
    service_type: str = "PARCEL"

class Sent(Spec):
    route: Maybe[str] = absent

class Rehearsal(Spec):
    rehearse: Annotated[Maybe[Literal["YES"]], Meta(description="Sends nothing")] = field(default=absent)

parcel = Family("parcel", Parcel, parent=environment, shown=ParcelShown, traits=(
    deployable(Sent, Sent, runs_once=True, query=Rehearsal), has_deployments, has_links, has_logs,
    has_advanced_settings(settings_of_kind("Parcel", rows_of(ROUTED)))))
"""
PARCEL_KIND = """
from msgspec.structs import replace
from windlass.base.errors import Forbidden
from windlass.control.kinds.service_kind import ServiceKind
from windlass.control.request.permissions import allows
from windlass.core.access import Scope
from windlass.core.deploy.progress import BuildResult, BuiltArtifact, ChosenVersion
from windlass.engines.releases import ReleasedEndpoint
from windlass.engines.workload import Artifact, WorkloadPort
from windlass_cache.parcel import Parcel, Sent, parcel

class ParcelKind(ServiceKind[Parcel]):
    family = parcel
    finds_endpoints = True
    runs_on_server = True
    chosen = []

    def loops(self, ctx):
        return (lambda: None,)

    def endpoints(self, ctx, workload):
        return {"door": [ReleasedEndpoint("10.1.0.5", 8080)]}

    def asked_version(self, body):
        route = body.route if isinstance(body, Sent) else None
        return ChosenVersion(choices={"route": route} if route else {})

    async def check_choice(self, tx, actor, service, version):
        self.chosen.append(version.choices)
        if version.choices and not await allows(tx, actor, Scope.ADMIN, service):
            raise Forbidden("route: use a token with the scope Admin")

    def stop_action(self, service):
        return "call back"

    async def make(self, ctx, making):
        return BuiltArtifact(BuildResult(Artifact(kind="image", ref="parcel:1", key="parcel:1")))

    async def workload(self, ctx, service, usual):
        return replace(usual, command=("send",), ports=(WorkloadPort(name="door", internal=80, public=True),))

    async def prepare_removal(self, ctx, build_input, sub_action):
        if sub_action != "call back":
            return None
        built, workload = await self.prepare(ctx, build_input)
        return built, replace(workload, command=("call", "back"))

kind = ParcelKind()
"""
PARCEL_PAGE = """
export async function begin(state) {
  return {};
}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package with the cache of the manual, as a folder of the module path."""
    family, kind, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    modules, metadata = tmp_path / "windlass_cache", tmp_path / "windlass_cache-1.0.dist-info"
    for folder in (modules, metadata):
        folder.mkdir()
    (modules / "__init__.py").touch()
    (modules / "family.py").write_text(family)
    (modules / "kind.py").write_text(kind.replace("windlass.families.cache", "windlass_cache.family"))
    (modules / "parcel.py").write_text(PARCEL)
    (modules / "parcel_kind.py").write_text(PARCEL_KIND)
    pages = modules / "console/js/pages/new"
    pages.mkdir(parents=True)
    (modules / "console/__init__.py").touch()
    (pages / "parcel.js").write_text(PARCEL_PAGE)
    (pages / "other.js").write_text("of the package")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: windlass-cache\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(package))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "windlass_cache"]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
async def test_a_service_of_the_kind_of_a_package_is_deployed():
    families, kinds = registry_of(*find_declarations()), kinds_of(*find_kinds())
    async with make_world(families=families, kinds=kinds, engine=FakeEngine("image")) as world:
        path = f"/environment/{await world.environment()}/cache"
        path = f"/cache/{await world.made(path, {'name': 'sessions'})}"
        assert (await world.post(f"{path}/deploy")).status == 202
        await world.settle()
        assert await world.state(path) == "RUNNING"


@pytest.fixture
async def parcels() -> AsyncIterator[World]:
    families, kinds = registry_of(*find_declarations()), kinds_of(*find_kinds())
    async with make_world(families=families, kinds=kinds, engine=FakeEngine("image")) as world:
        yield world


async def parcel_in(world: World) -> tuple[str, str]:
    """The environment and the path of a parcel that was sent."""
    environment = await world.environment()
    path = f"/parcel/{await world.made(f'/environment/{environment}/parcel', {'name': 'shoes'})}"
    assert (await world.post(f"{path}/deploy")).status == 202
    await world.settle()
    return environment, path


@pytest.mark.usefixtures("installed")
async def test_a_kind_of_a_package_stops_its_services_by_runs_also_at_the_hours_of_the_environment(parcels):
    environment, path = await parcel_in(parcels)
    assert parcels.engine.applied[-1].command == ("send",)
    await parcels.post(f"{path}/stop")
    await parcels.settle()
    assert parcels.engine.applied[-1].command == ("call", "back")
    await parcels.post(f"{path}/deploy")
    await parcels.settle()
    times = {"start_time": "1970-01-01T08:00:00.000Z", "stop_time": "1970-01-01T19:00:00.000Z"}
    rule = {"auto_stop": True, "timezone": "UTC", "weekdays": ["MONDAY"], **times}
    await parcels.put(f"/environment/{environment}/deploymentRule/current", rule)
    parcels.clock.turn(5 * 3600)
    await parcels.settle()
    assert await parcels.state(path) == "STOPPED"
    assert [one.command for one in parcels.engine.applied] == [("send",), ("call", "back")] * 2


@pytest.mark.usefixtures("installed")
async def test_a_kind_of_a_package_finds_the_endpoints_of_its_ports(parcels):
    _, path = await parcel_in(parcels)
    await try_refresh(parcels.installation.ctx, path.rpartition("/")[2])
    (route,) = parcels.router.routes[path.rpartition("/")[2]]
    assert route.endpoints == (Endpoint("10.1.0.5", 8080),)


@pytest.mark.usefixtures("installed")
async def test_choices_of_a_kind_of_a_package_are_checked_and_repeated(parcels):
    _, path = await parcel_in(parcels)
    deployer = await parcels.new_token("Deploy")
    refused = await parcels.post(f"{path}/deploy", {"route": "north"}, token=deployer)
    assert (refused.status, refused.message) == (403, "route: use a token with the scope Admin")
    assert (await parcels.post(f"{path}/deploy", {"route": "north"})).status == 202
    await parcels.settle()
    again = await parcels.post(f"{path}/redeploy")
    await parcels.settle()
    row = await parcels.installation.ctx.store.reads.deployments.get(again["id"])
    assert particulars(row).choices == {"route": "north"}


@pytest.mark.usefixtures("installed")
async def test_a_kind_of_a_package_has_settings_of_the_gateway_and_names_sections_of_its_own(parcels):
    _, path = await parcel_in(parcels)
    assert "network.ingress.proxy_buffering" in (await parcels.get(f"{path}/advancedSettings")).json
    schemas = (await parcels.get("/openapi.json"))["components"]["schemas"]
    assert schemas["ParcelRequest"]["properties"]["address"]["x-section"] == "parcel"


@pytest.mark.usefixtures("installed")
def test_a_package_brings_the_page_of_a_new_service_and_replaces_no_page():
    files = ConsoleFiles()
    page = files.find("/console")
    assert page is not None
    (named,) = re.findall(rb'data-new-services="([^"]+)"', page.body)
    assert {"application", "parcel"} <= {*named.decode().split()}
    served = files.find(f"/console/{files.version}/js/pages/new/parcel.js")
    other = files.find(f"/console/{files.version}/js/pages/new/other.js")
    assert served is not None
    assert other is not None
    assert b"begin(state)" in served.body
    assert other.body != b"of the package"


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_command_line_has_its_commands(package, is_installed):
    environment = os.environ | ({"PYTHONPATH": str(package)} if is_installed else {})
    command = [sys.executable, "-m", "windlass", "cache", "deploy", "--help"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (ended.returncode == 0) is is_installed, ended.stderr


def test_entry_points_of_a_package_installed_twice_count_once(package, installed, monkeypatch):
    other = package / "other" / "windlass_cache-0.9.dist-info"
    other.mkdir(parents=True)
    (other / "entry_points.txt").write_text("[windlass.kinds]\ncache = older.kind\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other.parent)])
    found = {point.value for point in entry_points("windlass.kinds") if point.name == "cache"}
    assert found == {"windlass_cache.kind"}


WITHOUT_TERRAFORM = """
import sys
from windlass.base import entry_points as room
if is_left_out := sys.argv[1] == "without":
    sys.modules["windlass.terraform"] = None  # an import of it fails
    found = room.entry_points
    room.entry_points = lambda group: [point for point in found(group) if "terraform" not in point.value]
import windlass.operate.doctor, windlass.operate.serving
from windlass.api.app import App
from windlass.api.openapi import document
from windlass.control.kinds import check_kinds, find_kinds, kinds_of
from windlass.control.request.behaviour import check_behaviours
from windlass.families import registry
kinds = kinds_of(*find_kinds())
check_kinds(registry(), kinds)
check_behaviours(registry())
paths = [path for path in document(registry())["paths"] if "/terraform" in path and "Export" not in path]
assert bool(paths) is ("terraform" in kinds) is not is_left_out, (paths, kinds.keys())
"""


@pytest.mark.parametrize("word", ["with", "without"])
def test_the_product_runs_without_the_terraform_package(word):
    command = [sys.executable, "-c", WITHOUT_TERRAFORM, word]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
