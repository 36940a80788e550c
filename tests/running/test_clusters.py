"""Clusters: connected to engines, each with services of its own, or not connected."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from tests.certificates import authority, write_pair
from tests.fakes.engine import FakeEngine
from tests.metrics.prometheus import scraped
from tests.running.clusters import (
    KEY,
    PEM,
    TLS,
    application_on,
    cluster,
    connector,
    deploy,
    engine_of,
    status,
)
from tests.tables import rows
from windlass.engines.workload import OutputLine

# Connected


async def test_a_service_runs_only_on_the_engine_of_its_cluster(world):
    east, west = await cluster(world, "east"), await cluster(world, "west")
    app = await application_on(world, east)
    await deploy(world, app)
    assert {key[0] for key in engine_of(world, east).instances} == {app}
    assert not connector(world).engines.get(west) or not engine_of(world, west).instances
    assert not world.engine.instances


async def test_the_first_cluster_runs_services_on_the_local_engine(world):
    (local,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    assert (local["name"], local["engine"]) == ("local", "LOCAL")
    app = await world.application()
    await deploy(world, app)
    assert {key[0] for key in world.engine.instances} == {app}
    assert (await status(world, local["id"]))["is_deployed"] is True


async def test_a_put_without_engine_fields_keeps_a_cluster_connected(world):
    east = await cluster(world)
    path = f"/organization/{world.org}/cluster/{east}"
    changed = await world.put(path, {"name": "east 2", "cloud_provider": "AWS", "region": "eu-west-3"})
    assert (changed.status, changed["engine_address"]) == (200, TLS["engine_address"])
    assert changed["has_engine_key"] is True


async def test_connecting_a_cluster_to_an_unusable_engine_is_refused_with_the_reason(world):
    connector(world).problem = "engine_address: check the port"
    answer = await world.post(f"/organization/{world.org}/cluster", {"name": "east"} | TLS)
    assert (answer.status, answer.message) == (400, "engine_address: check the port")


@rows(
    ("body", "field"),
    [
        (TLS | {"engine_address": "tcp://docker.example:2376"}, "engine_address"),
        (TLS | {"engine_address": "tcp://10.0.0.999:2376"}, "engine_address"),
        (TLS | {"engine_address": "tcp://10.0.0.5:99999"}, "engine_address"),
        (TLS | {"engine_address": "unix:///var/run/docker.sock"}, "engine_address"),
        (TLS | {"engine_key": "secret"}, "engine_key"),
        *((({**TLS, field: None} if field != "engine_key" else {**TLS, field: ""}), field)
          for field in TLS if field != "engine"),
        (TLS | {"engine_address": "ssh://deploy@10.0.0.5"}, "engine_address"),
        ({"engine": "LOCAL", "engine_key": KEY}, "engine_key"),
        ({"engine_address": "tcp://10.0.0.5:2376"}, "engine_address"),
        ({"router_port": 8000}, "router_port"),
        ({"engine": "ELSEWHERE"}, "engine"),
    ],
)  # fmt: skip
async def test_inconsistent_engine_fields_are_refused_by_name(world, body, field):
    answer = await world.post(f"/organization/{world.org}/cluster", {"name": "east"} | body)
    assert answer.status == 400
    assert answer.message.startswith(f"{field}: ")
    assert not connector(world).checked


async def test_changing_a_clusters_engine_address_requires_its_key_again(world):
    """Windlass connects nowhere before the key is sent again."""
    east = await cluster(world)
    path, known = f"/organization/{world.org}/cluster/{east}", len(connector(world).checked)
    for field, value in {"engine_address": "tcp://10.0.0.6:2376", "engine_ca_certificate": PEM + PEM}.items():
        answer = await world.patch(path, {field: value})
        assert answer.status == 400
        assert answer.message.startswith("engine_key: send it again")
    assert len(connector(world).checked) == known
    assert (
        await world.patch(path, {"engine_address": "tcp://10.0.0.6:2376", "engine_key": KEY})
    ).status == 200


async def test_new_credentials_are_used_at_once_and_checked_before(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    path = f"/organization/{world.org}/cluster/{east}"
    assert (await world.patch(path, {"engine_certificate": PEM + PEM, "engine_key": KEY})).status == 200
    await world.settle()
    assert connector(world).reconnected[-1].certificate == PEM + PEM
    connector(world).problem = "engine_key: must be the key of engine_certificate"
    assert (await world.patch(path, {"engine_certificate": PEM, "engine_key": KEY})).status == 400


async def test_the_engine_of_a_cluster_with_services_cannot_be_changed(world):
    east = await cluster(world)
    app = await application_on(world, east)
    path = f"/organization/{world.org}/cluster/{east}"
    elsewhere = {"engine_address": "tcp://10.0.0.6:2376", "engine_key": KEY}
    await deploy(world, app)
    answer = await world.patch(path, elsewhere)
    assert answer.status == 409
    assert answer.message.startswith("Uninstall or delete the services of this cluster")
    await world.post(f"/application/{app}/uninstall")
    await world.settle()
    assert (await world.patch(path, elsewhere)).status == 200


async def test_the_engine_id_of_a_cluster_is_pinned_until_its_key_is_sent_again(world):
    east = await cluster(world)
    path = f"/organization/{world.org}/cluster/{east}"
    assert (await world.get(path))["engine_id"] == "ABCD:EFGH"
    connector(world).engine_id = "IJKL:MNOP"
    for change in ({"engine_certificate": PEM + PEM}, {"engine_id": "QRST:UVWX", "engine_key": KEY}):
        answer = await world.patch(path, change)
        assert answer.status == 400
        assert answer.message.startswith("engine_id: leave it out and send engine_key again")
    assert (await world.get(path))["engine_id"] == "ABCD:EFGH"
    assert (await world.patch(path, {"engine_key": KEY}))["engine_id"] == "IJKL:MNOP"
    await world.settle()
    assert (await world.patch(path, {"name": "east 2"}))["engine_id"] == "IJKL:MNOP"


async def test_a_cluster_is_renamed_while_its_engine_is_away(world):
    east = await cluster(world)
    connector(world).problem = "engine_address: check the port"
    path = f"/organization/{world.org}/cluster/{east}"
    assert (await world.patch(path, {"name": "east 2"})).status == 200
    assert (await world.patch(path, {"engine_key": KEY})).status == 400


async def test_only_admins_connect_clusters(world):
    for scopes in (("Write",), ("Deploy",), ("Read",)):
        token = await world.new_token(*scopes)
        answer = await world.post(f"/organization/{world.org}/cluster", {"name": "east"} | TLS, token=token)
        assert answer.status == 403
    assert not connector(world).checked


async def test_the_key_of_an_engine_is_never_answered(world):
    east = await cluster(world)
    body = (await world.get(f"/organization/{world.org}/cluster/{east}")).body
    assert KEY.strip().encode() not in body.replace(b"\\n", b"\n")
    events = [row.body for row in await world.events()]
    assert not any(b"MIIE" in event for event in events)


async def test_an_organization_with_services_on_another_host_is_not_deleted_before_them(world):
    org, token = await world.organization()
    east = await world.post(f"/organization/{org}/cluster", {"name": "east"} | TLS, token=token)
    project = await world.post(f"/organization/{org}/project", {"name": "theirs"}, token=token)
    body = {"name": "blue", "cluster_id": east["id"]}
    environment = await world.post(f"/project/{project['id']}/environment", body, token=token)
    answer = await world.delete(f"/organization/{org}", token=token)
    assert answer.status == 409
    assert answer.message.startswith("Delete the environments on the cluster east first")
    await world.delete(f"/environment/{environment['id']}", token=token)
    await world.settle()
    assert (await world.delete(f"/organization/{org}", token=token)).status == 204


# Not connected


async def test_a_deploy_on_an_unconnected_cluster_is_refused_with_advice(world):
    cloud = await cluster(world, name="cloud", cloud_provider="AWS", region="eu-west-3", kubernetes="MANAGED")
    app = await application_on(world, cloud)
    for action in ("deploy", "redeploy"):
        answer = await world.post(f"/application/{app}/{action}")
        assert answer.status == 409
        assert answer.message.startswith("Connect the cluster to an engine first")
    assert await world.state(f"/application/{app}") == "STOPPED"
    said = await status(world, cloud)
    assert (said["status"], said["is_connected"], said["is_deployed"]) == ("READY", False, False)
    assert said["message"].startswith("Connect the cluster")


async def test_a_service_on_a_cluster_that_names_no_engine_can_be_deleted(world):
    cloud = await cluster(world, name="cloud", cloud_provider="AWS")
    app = await application_on(world, cloud)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.settle()
    assert (await world.get(f"/application/{app}")).status == 404


async def test_after_connecting_a_cluster_its_services_can_be_deployed(world):
    cloud = await cluster(world, name="cloud", cloud_provider="AWS")
    app = await application_on(world, cloud)
    assert (await world.post(f"/application/{app}/deploy")).status == 409
    assert (await world.patch(f"/organization/{world.org}/cluster/{cloud}", TLS)).status == 200
    await world.settle()
    await deploy(world, app)
    assert engine_of(world, cloud).instances


# Apart


async def test_log_lines_from_an_engine_are_accepted_only_for_services_of_its_cluster(world):
    """It belongs to an organization, which may have it say whatever it likes."""
    east = await cluster(world)
    app = await world.application()
    await deploy(world, app)
    other = await application_on(world, east)
    await deploy(world, other)
    place = await world.installation.ctx.places.at(east)
    engine, line = engine_of(world, east), OutputLine(world.clock.now(), "forged", "pod", "1")
    assert place.engine is engine
    for service in (app, other):
        engine.says(service, line)
    assert "forged" not in str((await world.get(f"/application/{app}/log"))["results"])
    assert "forged" in str((await world.get(f"/application/{other}/log"))["results"])


async def test_another_organization_cannot_put_an_environment_on_a_cluster(world):
    east = await cluster(world)
    org, token = await world.organization()
    project = await world.post(f"/organization/{org}/project", {"name": "theirs"}, token=token)
    answer = await world.post(
        f"/project/{project['id']}/environment", {"name": "blue", "cluster_id": east}, token=token
    )
    assert answer.status == 400
    assert answer.message.startswith("cluster_id: no cluster of this organization")
    assert (await world.get(f"/organization/{org}/cluster/{east}/status", token=token)).status == 404
    assert (await world.get(f"/organization/{world.org}/cluster/{east}/status", token=token)).status == 404


async def test_an_engine_with_invalid_answers_does_not_delay_work_on_other_engines(world):
    """It belongs to an organization, and housekeeping is for all of them."""
    east = await cluster(world)
    await deploy(world, await application_on(world, east))
    app, ctx = await world.application(), world.installation.ctx
    await deploy(world, app)
    assert app in await ctx.logs.services()

    async def nonsense(*_: Any) -> Any:
        raise KeyError("Labels")

    engine: Any = engine_of(world, east)
    engine.usage = engine.all = engine.services = engine.sweep = engine.discard = nonsense
    tidied = world.engine.services
    looked = []

    async def counted() -> Any:
        looked.append(world.clock.now())
        return await tidied()

    local: Any = world.engine
    local.services = counted
    assert (await world.delete(f"/application/{app}?skipReconcile=true")).status == 204
    await world.settle()
    assert app not in await ctx.logs.services()
    await world.run(1800)
    assert 3 <= len(set(looked)) <= 5, "every ten minutes, and not again and again"


async def test_the_engine_of_a_cluster_cannot_be_changed_while_an_instance_of_a_cancelled_deployment_is_there(
    world,
):
    east = await cluster(world)
    app = await application_on(world, east, name="shop")
    engine_of_east = (await world.installation.ctx.places.at(east)).engine
    assert isinstance(engine_of_east, FakeEngine)
    engine_of_east.gate = asyncio.Event()
    begun = await world.post(f"/application/{app}/deploy")
    settling = asyncio.create_task(world.settle())
    async with asyncio.timeout(10):
        while not engine_of_east.begun:  # noqa: ASYNC110 (the fake does not notify)
            await asyncio.sleep(0.01)
    await world.post(f"/application/{app}/deployment/{begun['id']}/cancel")
    await settling
    await world.settle()
    path = f"/organization/{world.org}/cluster/{east}"
    answer = await world.patch(path, {"engine_address": "tcp://10.0.0.6:2376", "engine_key": KEY})
    assert answer.status == 409
    assert "(shop)" in answer.message
    deleting = await world.delete(path)
    assert (deleting.status, "(env-" in deleting.message) == (409, True)


async def test_the_expiry_of_a_clusters_certificates_is_a_metric(world, tmp_path):
    ca = authority(tmp_path / "ca")
    certificate, key = (file.read_text() for file in write_pair(ca, "windlass"))
    given = {
        "engine_ca_certificate": ca.file.read_text(),
        "engine_certificate": certificate,
        "engine_key": key,
    }
    east = await cluster(world, **TLS | given)
    await deploy(world, await application_on(world, east))
    text = await scraped(world)
    (line,) = [line for line in text.splitlines() if line.startswith("windlass_cluster_certificate_end")]
    assert f'place="{east}"' in line
    assert abs(float(line.split()[1]) - time.time() - 86_400) < 3600


# The machine


async def machine(world: Any, id: str) -> Any:
    return await world.get(f"/organization/{world.org}/cluster/{id}/machine")


async def test_the_machine_of_the_server_tells_its_size_and_what_is_free(world):
    (local,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    told = await machine(world, local["id"])
    assert told.status == 200, told
    assert told["message"] == ""
    assert told["cores"] >= 1
    assert 0 < told["memory_available_bytes"] < told["memory_bytes"]
    disk = os.statvfs(world.installation.ctx.settings.data_dir)
    assert told["disk_bytes"] == disk.f_blocks * disk.f_frsize
    assert 0 < told["disk_free_bytes"] < told["disk_bytes"]


async def test_a_machine_that_is_not_measured_says_why_in_place_of_figures(world):
    east = await machine(world, await cluster(world, "east"))
    assert east["message"].startswith("Look at the machine itself")
    answer = await world.post(f"/organization/{world.org}/cluster", {"name": "a record"})
    record = await machine(world, answer["id"])
    assert record["message"].startswith("Connect the cluster")
    assert [each["memory_bytes"] for each in (east, record)] == [None, None]


async def test_only_an_admin_reads_what_the_machine_has(world):
    (local,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    token = await world.new_token("READ", "WRITE", "DEPLOY")
    path = f"/organization/{world.org}/cluster/{local['id']}/machine"
    assert (await world.get(path, token=token)).status == 403
