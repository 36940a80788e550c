"""Servers on several machines share one database, and each runs the services of its own machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.running.deployments import PORT, deploy, deployed
from tests.running.test_place_owner import KEY, kinds, lease_passes, look
from tests.world import HandClock, World, fake_parts, make_world
from windlass.base.clock import SECOND
from windlass.config import BadSetting, Settings
from windlass.install.parts import real_parts
from windlass.operate import stopping
from windlass.routers.router import ServedElsewhere
from windlass.store import Surroundings
from windlass.terminal.command_errors import CommandFailed

Pair = tuple[World, World]


@pytest.fixture
async def pair(postgres_url: str, tmp_path: Path) -> AsyncIterator[Pair]:
    """The first server, and one on a machine named `second`."""
    clock = HandClock()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        make_world(postgres_url, folder=tmp_path / "one", clock=clock, owner="one", key=KEY) as first,
        make_world(
            postgres_url,
            folder=tmp_path / "two",
            clock=clock,
            owner="two",
            key=KEY,
            place="second",
            public_domain="second.example.com",
        ) as second,
    ):
        await look(first, second)
        yield first, second


async def clusters(world: World) -> dict[str, Any]:
    listed = await world.get(f"/organization/{world.org}/cluster")
    return {cluster["name"]: cluster for cluster in listed["results"]}


async def environment_on(world: World, cluster: str) -> str:
    return await world.environment(cluster_id=(await clusters(world))[cluster]["id"])


async def running_on(world: World, cluster: str, *servers: World) -> str:
    """A service that runs on a cluster, deployed through `world`."""
    app = await world.application(await environment_on(world, cluster), ports=[PORT])
    await deploy(world, app)
    for server in servers:
        await server.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    return app


def services_at(*servers: World) -> list[set[str]]:
    return [{service for service, *_ in server.engine.instances} for server in servers]


async def test_a_named_machine_becomes_a_cluster_of_the_first_organization(pair):
    first, _ = pair
    listed = (await clusters(first)).values()
    named = {cluster["name"]: (cluster["engine"], cluster.get("place")) for cluster in listed}
    assert named == {"local": ("LOCAL", None), "second": ("LOCAL", "second")}


async def test_the_deleted_cluster_of_a_machine_is_not_created_again_at_a_restart(
    pair, postgres_url, tmp_path
):
    first, second = pair
    cluster = (await clusters(first))["second"]["id"]
    assert (await first.delete(f"/organization/{first.org}/cluster/{cluster}")).status == 204
    await second.installation.stop()
    async with make_world(
        postgres_url, folder=tmp_path / "two", clock=first.clock, owner="two", key=KEY, place="second"
    ):
        assert [*await clusters(first)] == ["local"]


@pytest.mark.parametrize("cluster", ["local", "second"])
async def test_a_service_runs_on_its_clusters_machine_whichever_server_is_called(pair, cluster):
    first, second = pair
    asked, runs, idle = (second, first, second) if cluster == "local" else (first, second, first)
    app = await running_on(asked, cluster, idle, runs)
    assert services_at(runs, idle) == [{app}, set()]
    assert (await asked.post(f"/application/{app}/stop")).status == 202
    await idle.settle()
    assert await asked.state(f"/application/{app}") == "QUEUED"
    await runs.settle()
    assert await asked.state(f"/application/{app}") == "STOPPED"


async def test_a_lost_machine_does_not_affect_services_on_other_machines(pair):
    first, second = pair
    here, there = await running_on(first, "local", first), await running_on(first, "second", second)
    await lease_passes(first.clock, first)
    states = [await first.state(f"/application/{app}") for app in (here, there)]
    assert states == ["RUNNING", "UNAVAILABLE"]
    ids = [(await clusters(first))[name]["id"] for name in ("local", "second")]
    statuses = [await first.get(f"/organization/{first.org}/cluster/{id}/status") for id in ids]
    assert [status["status"] for status in statuses] == ["DEPLOYED", "DEPLOYMENT_ERROR"]
    assert await kinds(first) == ["CLUSTER_UNREACHABLE"]
    await look(second)
    await look(first)
    assert await first.state(f"/application/{there}") == "RUNNING"
    assert await kinds(first) == ["CLUSTER_UNREACHABLE", "CLUSTER_REACHABLE"]
    assert services_at(first, second) == [{here}, {there}]


async def test_the_loss_of_the_first_machine_is_noticed_by_other_servers(pair):
    first, second = pair
    here = await running_on(first, "local", first)
    await lease_passes(first.clock, second)
    assert await second.state(f"/application/{here}") == "UNAVAILABLE"
    assert second.engine.begun == 0


async def test_links_contain_the_gateway_host_of_the_services_machine(pair):
    first, second = pair
    app = await running_on(first, "second", second)
    for server in pair:
        (link,) = (await server.get(f"/application/{app}/link"))["results"]
        assert ".second.example.com:" in link["url"]


async def test_a_router_has_endpoints_only_for_services_of_its_own_machine(pair):
    first, second = pair
    app = await running_on(first, "second", second)
    for server in pair:
        server.installation.routes.note([app])
        await server.installation.routes.catch_up(5)
    found = [[route.endpoints for route in server.router.routes.get(app, ())] for server in pair]
    assert (any(found[0]), all(found[1])) == (False, True)


async def test_routers_of_other_machines_answer_where_a_service_is_reached_and_open_no_port(pair):
    first, second = pair
    cluster = await environment_on(first, "second")
    app = await first.application(cluster, ports=[PORT | {"external_port": 8443}])
    await deploy(first, app)
    await second.settle()
    for server in pair:
        server.installation.routes.note([app])
        await server.installation.routes.catch_up(5)
    (told,), (served, *_) = (server.router.routes[app] for server in pair)
    links = (await first.get(f"/application/{app}/link"))["results"]
    (url,) = [link["url"] for link in links if ".second.example.com:" in link["url"]]
    assert told.elsewhere == ServedElsewhere("second", url)
    assert {served.hosts[0]} < {*told.hosts}
    assert (told.external, served.external) == (None, 8443)
    assert (served.elsewhere, app in first.router.listening) == (None, False)


async def test_logs_can_be_read_only_at_the_machine_that_has_them(pair):
    first, second = pair
    app = await running_on(first, "second", second)
    assert [(await server.get(f"/application/{app}/log")).status for server in pair] == [503, 200]


async def test_a_server_without_a_services_log_names_the_server_that_has_it(pair):
    first, second = pair
    app = await running_on(first, "second", second)
    path = f"/application/{app}/log"
    assert "that of the place second: its lines" in (await first.get(path)).message
    host = Surroundings(host="10.0.0.5")
    store = second.installation.ctx.store
    assert await store.write(lambda tx: tx.owners.renew("second", "two", SECOND, host))
    assert "that of the place second (10.0.0.5): its lines" in (await first.get(path)).message


async def test_data_of_a_deleted_service_is_erased_on_its_machine(pair):
    first, second = pair
    app = await running_on(first, "second", second)
    assert (await first.delete(f"/application/{app}?skipReconcile=true")).status in {202, 204}
    await first.settle()
    assert app not in first.engine.discarded + second.engine.discarded
    await second.settle()
    assert app in second.engine.discarded
    assert app not in first.engine.discarded


async def test_each_machine_claims_its_own_housekeeping_work(pair):
    first, _ = pair
    store = first.installation.ctx.store
    held = [await store.write(lambda tx, own=server: tx.work.claim(1, 9, *_own(own))) for server in pair]
    assert held == [[], []]
    first.clock.turn(11)
    held = [await store.write(lambda tx, own=server: tx.work.claim(1, 9, *_own(own))) for server in pair]
    assert [[claim.id for claim in claims] for claims in held] == [["tidy"], ["tidy:second"]]


def _own(server: World) -> tuple[int, Any]:
    ownership = server.installation.ctx.ownership
    return ownership.queues.housekeeping, ownership.holder


async def test_work_requested_before_its_cluster_had_a_queue_is_done_by_the_clusters_machine(pair):
    first, second = pair
    app = await first.application(await environment_on(first, "second"))
    cluster = (await clusters(first))["second"]["id"]
    store = first.installation.ctx.store
    await store.write(lambda tx: tx.work.remove_queue(cluster))
    await deploy(first, app)
    await store.write(lambda tx: _queue_again(tx, cluster, second))
    await first.settle()
    await second.settle()
    assert services_at(first, second) == [set(), {app}]


async def _queue_again(tx: Any, cluster: str, server: World) -> None:
    await tx.work.add_queue(cluster, server.installation.ctx.ownership.queues.deployments)


async def test_a_machine_that_no_server_has_is_refused(pair):
    first, _ = pair
    body = {"name": "third", "engine": "LOCAL", "place": "third"}
    answer = await first.post(f"/organization/{first.org}/cluster", body)
    assert (answer.status, answer.message.partition(":")[0]) == (400, "place")
    answer = await first.post(f"/organization/{first.org}/cluster", body | {"place": "second"})
    assert answer.status == 201


async def test_a_place_may_be_set_only_for_a_cluster_with_a_local_engine(pair):
    first, _ = pair
    answer = await first.post(f"/organization/{first.org}/cluster", {"name": "third", "place": "second"})
    assert (answer.status, answer.message.partition(":")[0]) == (400, "place")


async def test_a_cluster_with_services_stays_on_its_machine(pair):
    first, second = pair
    await running_on(first, "second", second)
    cluster = (await clusters(first))["second"]["id"]
    path = f"/organization/{first.org}/cluster/{cluster}"
    assert (await first.patch(path, {"place": "local"})).status == 409
    assert (await first.patch(path, {"description": "The other machine"})).status == 200


async def test_a_server_with_another_docker_engine_does_not_own_the_place_of_the_first(
    postgres_url, tmp_path
):
    """Each answers with an id of its own, once it is reached."""
    identity = {"one": "docker:A", "two": "", "three": "docker:A"}
    clock = HandClock()
    for name in identity:
        (tmp_path / name).mkdir()

    def server(name: str) -> Any:
        return make_world(
            postgres_url, folder=tmp_path / name, clock=clock, owner=lambda: identity[name], key=KEY
        )

    async with server("one") as first, server("two") as other, server("three") as twin:
        await look(first, other, twin)
        owns = [server.installation.ctx.ownership.is_owner for server in (first, other, twin)]
        assert owns == [True, False, True]
        identity["two"] = "docker:B"
        await look(other)
        app = await other.application(ports=[PORT])
        await deploy(other, app)
        await other.settle()
        assert await other.state(f"/application/{app}") == "QUEUED"
        await twin.settle()
        assert services_at(first, other, twin) == [set(), set(), {app}]
        identity["two"] = "docker:A"
        await look(other)
        await deployed(other)
        assert len(other.engine.instances) == 1


async def test_the_place_setting_requires_a_database_url(tmp_path):
    settings = Settings(data_dir=str(tmp_path), place="second", engine="process")
    with pytest.raises(BadSetting, match="place: leave it out, or set database_url"):
        await real_parts(settings, HandClock(), "installation")


async def test_stop_all_does_not_wait_for_services_of_another_machine(pair):
    first, second = pair
    here, there = await running_on(first, "local", first), await running_on(first, "second", second)
    await first.installation.stop()
    stopped = stopping.here(
        first.installation.ctx.settings, lambda count: None, parts=fake_parts(first.engine, owner="one")
    )
    with pytest.raises(CommandFailed, match="second: they stop when the server of the machine second runs"):
        await stopped
    assert services_at(first, second) == [set(), {there}]
    assert await second.state(f"/application/{here}") == "STOPPED"
