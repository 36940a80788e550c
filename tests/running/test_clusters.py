"""Clusters: connected to engines, each with services of its own, or not connected."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.world import FakeConnector, World
from windlass.control.records.deployments import RECONCILE
from windlass.control.services.clusters import connect_older_clusters
from windlass.core.deploy.workload import OutputLine
from windlass.engines.fake import FakeEngine
from windlass.families.cluster import Cluster

STRANGER = "99999999-aaaa-4aaa-8aaa-000000000009"
HTTP = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
TCP = {"internal_port": 5432, "external_port": 9432, "protocol": "TCP", "publicly_accessible": True}
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
TLS: dict[str, Any] = {
    "engine": "DOCKER",
    "engine_address": "tcp://10.0.0.5:2376",
    "engine_ca_certificate": PEM,
    "engine_certificate": PEM,
    "engine_key": KEY,
}


def connector(world: World) -> FakeConnector:
    found = world.installation.ctx.places._connector
    assert isinstance(found, FakeConnector)
    return found


async def cluster(world: World, name: str = "east", **fields: Any) -> str:
    return await world.made(f"/organization/{world.org}/cluster", {"name": name} | (fields or TLS))


async def application_on(world: World, cluster: str, **fields: Any) -> str:
    project = await world.made(f"/organization/{world.org}/project", {"name": world.name("project")})
    environment = await world.made(
        f"/project/{project}/environment", {"name": world.name("env"), "cluster_id": cluster}
    )
    return await world.application(environment, **fields)


async def deploy(world: World, app: str) -> None:
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


def engine_of(world: World, cluster: str) -> FakeEngine:
    return connector(world).engines[cluster]


async def status(world: World, cluster: str) -> Any:
    return await world.get(f"/organization/{world.org}/cluster/{cluster}/status")


# Connected


async def test_a_service_runs_on_the_engine_of_its_cluster_alone(world):
    east, west = await cluster(world, "east"), await cluster(world, "west")
    app = await application_on(world, east)
    await deploy(world, app)
    assert {key[0] for key in engine_of(world, east).instances} == {app}
    assert not connector(world).engines.get(west) or not engine_of(world, west).instances
    assert not world.engine.instances


async def test_the_first_cluster_is_the_engine_of_this_machine(world):
    (local,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    assert (local["name"], local["engine"]) == ("local", "LOCAL")
    app = await world.application()
    await deploy(world, app)
    assert {key[0] for key in world.engine.instances} == {app}
    assert (await status(world, local["id"]))["is_deployed"] is True


async def test_a_put_without_the_fields_of_the_engine_leaves_a_cluster_connected(world):
    east = await cluster(world)
    path = f"/organization/{world.org}/cluster/{east}"
    changed = await world.put(path, {"name": "east 2", "cloud_provider": "AWS", "region": "eu-west-3"})
    assert (changed.status, changed["engine_address"]) == (200, TLS["engine_address"])
    assert changed["has_engine_key"] is True


async def test_an_engine_that_cannot_be_used_is_not_connected_and_the_answer_says_why(world):
    connector(world).trouble = "engine_address: check the port"
    answer = await world.post(f"/organization/{world.org}/cluster", {"name": "east"} | TLS)
    assert (answer.status, answer.message) == (400, "engine_address: check the port")


@pytest.mark.parametrize(
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
        ({"engine": "KUBERNETES"}, "engine"),
    ],
)  # fmt: skip
async def test_fields_of_an_engine_that_do_not_go_together_are_refused_by_name(world, body, field):
    answer = await world.post(f"/organization/{world.org}/cluster", {"name": "east"} | body)
    assert answer.status == 400
    assert answer.message.startswith(f"{field}: ")
    assert not connector(world).checked


async def test_a_key_stays_with_the_address_that_it_was_given_for(world):
    """Nothing connects anywhere before the key is sent again."""
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
    connector(world).trouble = "engine_key: must be the key of engine_certificate"
    assert (await world.patch(path, {"engine_certificate": PEM, "engine_key": KEY})).status == 400


async def test_a_cluster_with_services_stays_at_its_engine(world):
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


async def test_the_engine_of_a_cluster_is_remembered_until_the_key_is_sent_again(world):
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
    connector(world).trouble = "engine_address: check the port"
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


async def test_a_deploy_on_a_cluster_that_names_no_engine_is_refused(world):
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


async def test_a_cluster_that_is_connected_later_takes_the_services_that_wait_for_it(world):
    cloud = await cluster(world, name="cloud", cloud_provider="AWS")
    app = await application_on(world, cloud)
    assert (await world.post(f"/application/{app}/deploy")).status == 409
    assert (await world.patch(f"/organization/{world.org}/cluster/{cloud}", TLS)).status == 200
    await world.settle()
    await deploy(world, app)
    assert engine_of(world, cloud).instances


async def test_clusters_of_an_older_windlass_keep_the_engine_of_this_machine(world):
    """They were stored without the field, and all their services ran here."""
    east = await cluster(world, name="east", cloud_provider="AWS")
    store = world.installation.ctx.store
    row = await store.reads.resources.get(east)
    old = {key: value for key, value in msgspec.json.decode(row.body).items() if key != "engine"}

    async def as_before(tx: Any) -> None:
        await tx.resources.rewrite(east, msgspec.json.encode(old))
        await tx.facts.set("clusters", b"")

    await store.write(as_before)
    await store.write(lambda tx: connect_older_clusters(world.installation.ctx, tx))
    assert (await store.reads.resources.get(east)).read(Cluster).engine == "LOCAL"


# Away


async def test_services_are_left_alone_while_their_engine_is_away_and_go_on_when_it_is_back(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine = engine_of(world, east)
    engine.away = True
    said = await status(world, east)
    assert (said["status"], said["is_deployed"], said["is_connected"]) == ("DEPLOYMENT_ERROR", False, True)
    assert said["message"]
    await world.run(1200)
    assert len(engine.instances) == 1
    assert await world.state(f"/application/{app}") == "RUNNING"
    engine.away = False
    assert (await status(world, east))["status"] == "DEPLOYED"
    await deploy(world, app)
    assert len(engine.instances) == 1


async def test_an_engine_that_is_away_keeps_no_other_waiting(world):
    east = await cluster(world)
    await deploy(world, await application_on(world, east))
    engine_of(world, east).away = True
    app = await world.application()
    await deploy(world, app)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.run(1200)
    assert not world.engine.instances


# Apart


async def test_the_engine_of_a_cluster_says_nothing_about_services_of_another(world):
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


async def test_an_engine_that_talks_nonsense_keeps_no_other_waiting(world):
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


# Older databases


async def newer_on(world: World, cluster: str, app: str) -> FakeEngine:
    """Has the host run a deployment that the database does not know, as after a restored backup."""
    engine, ctx = engine_of(world, cluster), world.installation.ctx
    (instance,) = engine.instances.values()
    engine.instances = {(app, 7, 0): replace(instance, id=f"{app}-7-0", generation=7)}
    ctx.places.examined.clear()
    return engine


async def test_a_database_that_is_older_than_a_host_starts_and_ends_nothing_there(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine = await newer_on(world, east, app)
    begun = engine.begun
    await world.installation.ctx.store.write(lambda tx: tx.work.ask(RECONCILE, app))
    await world.settle()
    assert (await world.post(f"/application/{app}/stop")).status == 202
    await world.settle()
    assert [*engine.instances] == [(app, 7, 0)]
    assert engine.begun == begun
    seen = await status(world, east)
    assert (seen["status"], seen["is_deployed"]) == ("DEPLOYMENT_ERROR", False)
    assert seen["message"].startswith("Ask the operator of this server to start it with its newest database")


async def test_with_adopt_deployments_of_a_newer_database_end_before_this_one_starts_its_own(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine = await newer_on(world, east, app)
    world.installation.ctx.places.adopts = True
    await world.installation.ctx.store.write(lambda tx: tx.work.ask(RECONCILE, app))
    await world.settle()
    assert [*engine.instances] == [(app, 1, 0)]
    await deploy(world, app)
    assert [*engine.instances] == [(app, 8, 0)], "no number stands for two deployments"
    assert (await status(world, east))["is_deployed"] is True


@pytest.mark.parametrize("adopts", [False, True])
async def test_unknown_services_of_another_host_are_set_aside_only_with_adopt(world, adopts):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine, ctx = engine_of(world, east), world.installation.ctx
    ctx.places.adopts = adopts
    instance = engine.instances[app, 1, 0]
    engine.instances[STRANGER, 1, 0] = replace(instance, id="x", service=STRANGER)
    await world.run(700)
    assert ((STRANGER, 1, 0) in engine.instances) is not adopts
    assert (app, 1, 0) in engine.instances
    assert not engine.discarded
    seen = await status(world, east)
    assert seen["is_deployed"] is True
    assert (STRANGER in seen["message"]) is not adopts


# Routers


async def routed(world: World) -> None:
    """Lets routes follow what has changed."""
    await world.settle()
    await world.installation.note_changes()
    await world.settle()
    await world.installation.routes.catch_up(5)


async def test_a_change_of_the_router_port_moves_routes_to_a_router_there(world):
    east = await cluster(world, **TLS, router_port=9001)
    app = await application_on(world, east, ports=[HTTP, TCP])
    await deploy(world, app)
    path = f"/organization/{world.org}/cluster/{east}"
    (first,) = connector(world).routers
    assert (first.runs, app in first.routes, app in first.listening) == (True, True, True)
    assert app not in world.router.routes
    assert (await world.patch(path, {"router_port": 9002})).status == 200
    await routed(world)
    _, second = connector(world).routers
    assert (first.runs, first.routes, first.listening) == (False, {}, {})
    assert (second.runs, app in second.routes, app in second.listening) == (True, True, True)
    assert all(route.endpoints for route in second.routes[app])
    assert (await world.get(f"/application/{app}/link"))["results"][0]["url"].endswith(":9002")
    assert (await world.patch(path, {"router_port": None})).status == 200
    await routed(world)
    assert not second.runs
    assert app in world.router.routes
    assert not connector(world).reconnected, "its engine stays connected"


async def test_a_router_port_that_cannot_be_had_is_refused_and_not_stored(world):
    east = await cluster(world, **TLS, router_port=9001)
    path = f"/organization/{world.org}/cluster/{east}"
    connector(world).port_trouble = "router_port: choose another port than 9002: another program has it"
    assert (await world.patch(path, {"router_port": 9002})).message.startswith("router_port: ")
    fields = {"name": "west"} | TLS | {"router_port": 9002}
    assert (await world.post(f"/organization/{world.org}/cluster", fields)).status == 400
    assert (await world.get(path))["router_port"] == 9001
    assert (await world.patch(path, {"name": "east 2"})).status == 200, "its own port is not asked for again"


async def test_of_two_clusters_that_ask_for_one_port_at_once_one_gets_it(world):
    path = f"/organization/{world.org}/cluster"
    answers = await asyncio.gather(
        *(world.post(path, {"name": name} | TLS | {"router_port": 9001}) for name in ("east", "west"))
    )
    refused, made = sorted(answers, key=lambda answer: -answer.status)
    assert (refused.status, made.status) == (400, 201)
    assert refused.message.startswith("router_port: choose another port than 9001")
    assert (await world.delete(f"{path}/{made['id']}")).status == 204
    await cluster(world, "north", **TLS, router_port=9001)


async def test_a_cluster_and_a_service_never_share_a_port(world):
    app = await world.application(ports=[TCP])
    await deploy(world, app)
    fields = {"name": "east"} | TLS | {"router_port": TCP["external_port"]}
    answer = await world.post(f"/organization/{world.org}/cluster", fields)
    assert (answer.status, answer.message[:13]) == (400, "router_port: ")
    await cluster(world, **TLS, router_port=9002)
    other = await world.application(ports=[TCP | {"external_port": 9002}])
    await world.post(f"/application/{other}/deploy")
    await world.settle()
    assert "port 9002 is in use" in (await world.get(f"/application/{other}/status"))["message"]


async def forgotten(world: World, app: str) -> None:
    """Has the server know of no routes, as after a restart."""
    world.router.routes.clear()
    world.installation.ctx.routing.looked.clear()
    world.installation.ctx.routing.routers.clear()


async def test_after_a_restart_names_of_services_are_known_while_their_host_is_away(world):
    east = await cluster(world)
    app = await application_on(world, east, ports=[HTTP])
    await deploy(world, app)
    (before,) = world.router.routes[app]
    assert before.endpoints
    await forgotten(world, app)
    engine_of(world, east).away = True
    world.installation.routes.note([app])
    await world.installation.routes.catch_up(0.2)
    (route,) = world.router.routes[app]
    assert (route.hosts, route.endpoints) == (before.hosts, ())
    engine_of(world, east).away = False
    await world.installation.routes.stop()
    world.installation.routes.note([app])
    await world.installation.routes.catch_up(5)
    assert world.router.routes[app] == (before,)


async def test_routes_stay_as_they_are_when_a_host_goes_away(world):
    east = await cluster(world)
    app = await application_on(world, east, ports=[HTTP])
    await deploy(world, app)
    (before,) = world.router.routes[app]
    engine_of(world, east).away = True
    world.installation.routes.note([app])
    await world.installation.routes.catch_up(0.2)
    await world.installation.routes.stop()
    assert world.router.routes[app] == (before,)


async def test_an_engine_that_never_answers_delays_the_routes_of_no_other(world):
    east = await cluster(world)
    slow, app = await application_on(world, east, ports=[HTTP]), await world.application(ports=[HTTP])
    await deploy(world, slow)
    await deploy(world, app)
    await forgotten(world, app)
    engine: Any = engine_of(world, east)
    engine.copies = lambda _: asyncio.Event().wait()
    for service in (slow, app):
        world.installation.routes.note([service])
        await world.installation.routes.catch_up(0.2)
    assert all(route.endpoints for route in world.router.routes[app])
    assert not any(route.endpoints for route in world.router.routes[slow])
    await world.installation.routes.stop()


# Deleted while away


async def test_what_a_deleted_service_left_on_a_host_that_was_away_is_erased_when_it_is_back(world):
    """Also after a restart, when nothing else is on the cluster."""
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    engine, ctx = engine_of(world, east), world.installation.ctx
    parent = (await world.get(f"/application/{app}"))["environment"]["id"]
    engine.away = True
    assert (await world.delete(f"/application/{app}?skipReconcile=true")).status == 204
    assert (await world.delete(f"/environment/{parent}")).status == 204
    await world.run(700)
    path = f"/organization/{world.org}/cluster/{east}"
    answer = await world.delete(path)
    assert answer.status == 409
    assert answer.message.startswith("Start the Docker engine of this cluster")
    elsewhere = {"engine_address": "tcp://10.0.0.6:2376", "engine_key": KEY}
    assert (await world.patch(path, elsewhere)).status == 409
    ctx.places._open.clear()
    await ctx.places.start(world.installation.noticed, ctx.logs.take)
    engine.away = False
    await world.run(700)
    assert set(engine.discarded) == {app}
    assert (await world.delete(path)).status == 204


async def test_what_is_left_on_a_host_that_is_lost_is_given_up_by_disconnecting_it(world):
    east = await cluster(world)
    app = await application_on(world, east)
    await deploy(world, app)
    parent = (await world.get(f"/application/{app}"))["environment"]["id"]
    engine_of(world, east).away = True
    await world.delete(f"/application/{app}?skipReconcile=true")
    await world.delete(f"/environment/{parent}")
    await world.settle()
    path = f"/organization/{world.org}/cluster/{east}"
    nothing = dict.fromkeys(TLS) | {"engine_key": ""}
    assert (await world.patch(path, nothing)).status == 200
    assert (await world.delete(path)).status == 204


async def test_a_deleted_service_is_told_to_no_engine_but_its_own(world):
    east, west = await cluster(world, "east"), await cluster(world, "west")
    app, other = await application_on(world, east), await application_on(world, west)
    await deploy(world, app)
    await deploy(world, other)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.settle()
    assert set(engine_of(world, east).discarded) == {app}
    assert engine_of(world, west).discarded == world.engine.discarded == []


async def test_an_engine_is_not_changed_under_a_service_whose_first_deployment_was_cancelled(world):
    east = await cluster(world)
    app = await application_on(world, east, name="shop")
    engine_of_east = (await world.installation.ctx.places.at(east)).engine
    assert isinstance(engine_of_east, FakeEngine)
    engine_of_east.gate = asyncio.Event()
    begun = await world.post(f"/application/{app}/deploy")
    settling = asyncio.create_task(world.settle())
    async with asyncio.timeout(10):
        while not engine_of_east.begun:  # noqa: ASYNC110 (the fake tells nobody)
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


async def test_a_cluster_that_an_older_server_stores_during_an_upgrade_is_this_machine(world):
    """It knows no engines, and runs all services on its machine."""
    east = await cluster(world, name="east", cloud_provider="AWS")
    store, path = world.installation.ctx.store, f"/organization/{world.org}/cluster/{east}"
    row = await store.reads.resources.get(east)
    document = {key: value for key, value in msgspec.json.decode(row.body).items() if "engine" not in key}
    document |= {"has_access": True, "status": "DEPLOYED"}
    await store.write(lambda tx: tx.resources.rewrite(east, msgspec.json.encode(document)))
    world.installation.ctx.places.changed(east)
    await world.settle()
    app = await application_on(world, east)
    await deploy(world, app)
    assert {key[0] for key in world.engine.instances} == {app}
    assert (await status(world, east))["is_deployed"] is True
    assert (await world.patch(path, {"name": "east 2"})).status == 200
    assert (await world.get(path))["engine"] == "LOCAL"
