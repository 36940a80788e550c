"""A place of processes has one owner: two servers on one database, each with an engine of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.running.deployments import PORT, deploy, deployed, deployments
from tests.world import HandClock, World, make_world
from windlass.base.clock import SECOND
from windlass.config import Settings
from windlass.control.background.place_lease import CHECKS_PER_LEASE, OwnerAlive
from windlass.control.background.worker import LEASE_TIME
from windlass.control.records.reachability import LOST_SERVER_REASON
from windlass.install import server_id
from windlass.routers.router import Endpoint, ServedElsewhere
from windlass.store import PlaceHolder, Queue, queues_of

pytestmark = pytest.mark.slow

KEY = "ab" * 32
YEAR = 365 * 24 * 3600.0
AFTER_LEASE = LEASE_TIME / SECOND + 1
BETWEEN_LOOKS = LEASE_TIME / SECOND / CHECKS_PER_LEASE


@asynccontextmanager
async def server(
    url: str, folder: Path, clock: HandClock, owner: str, home: str = ""
) -> AsyncIterator[World]:
    """A server with a data directory and an engine of its own."""
    folder.mkdir(exist_ok=True)
    async with make_world(url, folder=folder, clock=clock, owner=owner, home=home, key=KEY) as world:
        await look(world)
        yield world


async def look(*worlds: World) -> None:
    for world in worlds:
        await world.installation.place_owner.renew()


@pytest.fixture
async def pair(postgres_url: str, tmp_path: Path) -> AsyncIterator[tuple[World, World]]:
    """The first of two servers owns the place."""
    clock = HandClock()
    async with (
        server(postgres_url, tmp_path / "one", clock, "one") as world,
        server(postgres_url, tmp_path / "two", clock, "two") as twin,
    ):
        yield world, twin


async def lose(pair: tuple[World, World]) -> None:
    """The first server does not renew its lease, and the second one notices."""
    world, twin = pair
    await lease_passes(world.clock, twin)


async def lease_passes(clock: HandClock, *watching: World) -> None:
    """A lease ends, while these servers look as usual."""
    for _ in range(CHECKS_PER_LEASE + 1):
        clock.turn(BETWEEN_LOOKS)
        await look(*watching)


async def kinds(world: World) -> list[str]:
    return [event.kind for event in await world.events() if event.kind.startswith("CLUSTER_")]


async def test_only_the_owner_of_the_place_starts_services(pair):
    world, twin = pair
    app = await twin.application(ports=[PORT])
    await deploy(twin, app)
    await twin.settle()
    assert await twin.state(f"/application/{app}") == "QUEUED"
    await world.settle()
    assert await twin.state(f"/application/{app}") == "RUNNING"
    assert (world.engine.begun, twin.engine.begun) == (1, 0)


async def test_servers_that_share_an_engine_all_start_services(postgres_url, tmp_path):
    """The control of the test above: as on a Docker engine, each of them does the work."""
    clock = HandClock()
    async with (
        server(postgres_url, tmp_path / "one", clock, ""),
        server(postgres_url, tmp_path / "two", clock, "") as twin,
    ):
        await deployed(twin)
        assert twin.engine.begun == 1


async def test_a_stop_requested_at_another_server_is_done_by_the_place_owner(pair):
    world, twin = pair
    app = await deployed(world)
    assert (await twin.post(f"/application/{app}/stop")).status == 202
    await twin.settle()
    assert await twin.state(f"/application/{app}") == "QUEUED"
    await world.settle()
    assert await twin.state(f"/application/{app}") == "STOPPED"
    assert world.engine.instances == {}


@pytest.mark.parametrize("queue", queues_of("local"))
async def test_a_server_whose_place_lease_ended_claims_no_work_of_the_place(pair, queue):
    world, _ = pair
    kind = {Queue.RECONCILE: "reconcile", Queue.LOCAL: "discard", Queue.RUNS: "run"}[Queue(queue)]
    store = world.installation.ctx.store
    await store.write(lambda tx: tx.work.schedule(kind, "a", 0))
    claim = partial(_claim, world, queue)
    world.clock.turn(AFTER_LEASE)
    assert await claim(PlaceHolder("local", "one")) == []
    await look(world)
    assert await claim(PlaceHolder("local", "two")) == []
    assert await claim(PlaceHolder("local", "one")) == ["a"]


async def test_a_claim_without_a_place_owner_takes_work_of_every_place(pair):
    """The control of the test above."""
    world, _ = pair
    await world.installation.ctx.store.write(lambda tx: tx.work.schedule("reconcile", "a", 0))
    world.clock.turn(AFTER_LEASE)
    assert await _claim(world, Queue.RECONCILE, None) == ["a"]


async def _claim(world: World, queue: int, holder: PlaceHolder | None) -> list[str]:
    store = world.installation.ctx.store
    claims = await store.write(lambda tx: tx.work.claim(LEASE_TIME, 100, queue, holder))
    return [claim.id for claim in claims if claim.id == "a"]


async def test_services_of_a_lost_place_owner_are_unavailable(pair):
    world, twin = pair
    app, stopped, waiting = await deployed(world), await deployed(world), await world.application()
    await world.post(f"/application/{stopped}/stop")
    await world.settle()
    await lose(pair)
    await deploy(twin, waiting)
    await twin.settle()
    status = (await twin.get(f"/application/{app}/status")).json
    assert (status["state"], "Its last known state is RUNNING" in status["message"]) == ("UNAVAILABLE", True)
    assert await twin.state(f"/application/{stopped}") == "STOPPED"
    assert await twin.state(f"/application/{waiting}") == "QUEUED"
    (queued,) = await deployments(twin, waiting)
    assert (queued["status"], queued["message"]) == ("QUEUED", LOST_SERVER_REASON)
    listed = (await twin.get(f"/organization/{twin.org}/services"))["results"]
    assert {one["id"]: one["state"] for one in listed}[app] == "UNAVAILABLE"
    assert twin.engine.begun == 0


async def test_a_deployment_that_waits_for_a_live_place_owner_has_no_message(pair):
    """The control of the test above."""
    _, twin = pair
    app = await twin.application()
    await deploy(twin, app)
    (queued,) = await deployments(twin, app)
    assert (queued["status"], queued["message"]) == ("QUEUED", "")


async def test_a_lost_place_owner_causes_one_event_and_sets_a_metric(pair):
    world, twin = pair
    await deployed(world)
    for _ in range(3):
        await lose(pair)
    assert await kinds(twin) == ["CLUSTER_UNREACHABLE"]
    assert "windlass_place_lost 1" in (await twin.get("/metrics")).body.decode()


async def test_a_place_whose_owner_renews_its_lease_is_not_lost(pair):
    """The control of the test above."""
    world, twin = pair
    await deployed(world)
    await lease_passes(world.clock, world, twin)
    await lease_passes(world.clock, world, twin)
    assert await kinds(twin) == []
    assert "windlass_place_lost 0" in (await twin.get("/metrics")).body.decode()


async def test_an_owner_that_returns_keeps_its_running_instances(pair):
    world, twin = pair
    app = await deployed(world)
    await lose(pair)
    await look(world)
    await world.settle()
    await look(twin)
    assert await twin.state(f"/application/{app}") == "RUNNING"
    assert await kinds(twin) == ["CLUSTER_UNREACHABLE", "CLUSTER_REACHABLE"]
    assert (world.engine.begun, twin.engine.begun) == (1, 0)


async def test_a_place_is_not_taken_from_an_owner_that_renews_its_lease(pair, monkeypatch):
    world, twin = pair

    async def renewed(_: float) -> None:
        await look(world)

    monkeypatch.setattr(asyncio, "sleep", renewed)
    with pytest.raises(OwnerAlive, match="stop the server"):
        await twin.installation.place_owner.take()


async def test_a_place_lease_renewed_while_the_clock_is_slowed_still_advances(pair):
    """A clock that was set back goes on slowly until the time is right again."""
    world, twin = pair
    owners = twin.installation.ctx.store.reads.owners
    before = await owners.get("local")
    await look(world)
    after = await owners.get("local")
    assert before
    assert after
    assert after.until > before.until


async def test_a_server_gets_its_place_back_after_a_reboot_if_the_clock_was_years_ahead_before(
    postgres_url, tmp_path
):
    clock = HandClock()
    clock.turn(YEAR)
    async with server(postgres_url, tmp_path / "one", clock, "one", home="boot 1") as world:
        assert world.installation.ctx.ownership.is_owner
    clock.turn(-YEAR)
    async with server(postgres_url, tmp_path / "one", clock, "one", home="boot 2") as world:
        is_owner = [world.installation.ctx.ownership.is_owner]  # not yet: it may be a copy
        for _ in range(2):
            await lease_passes(clock, world)
            is_owner.append(world.installation.ctx.ownership.is_owner)
    assert is_owner == [False, True, True]


async def test_an_operator_gives_a_place_to_another_server(pair):
    world, twin = pair
    app = await deployed(world)
    await lose(pair)
    await twin.installation.place_owner.take()
    await look(twin)
    await twin.installation.ctx.store.write(lambda tx: tx.work.schedule("reconcile", app))
    await twin.settle()
    assert await twin.state(f"/application/{app}") == "RUNNING"
    assert twin.engine.begun == 1
    assert await kinds(twin) == ["CLUSTER_UNREACHABLE", "CLUSTER_TAKEN_OVER"]


async def test_a_server_whose_place_was_taken_over_ends_its_instances(pair):
    world, twin = pair
    await deployed(world)
    await lose(pair)
    assert len(world.engine.instances) == 1
    await twin.installation.place_owner.take()
    await look(world)
    assert world.engine.instances == {}
    await world.settle()
    assert world.engine.begun == 1


async def endpoints(world: World, app: str) -> list[Endpoint]:
    """The endpoints of an application in the router, when it was brought up to date."""
    world.installation.routes.note([app])
    await world.installation.routes.catch_up(5)
    return [endpoint for route in world.router.routes[app] for endpoint in route.endpoints]


async def test_after_a_place_is_taken_over_the_former_owner_has_no_endpoints(pair):
    """A program of another organization may listen on its former port."""
    world, twin = pair
    app = await deployed(world)
    await lose(pair)
    assert await endpoints(world, app)
    await twin.installation.place_owner.take()
    await look(world)
    assert await endpoints(world, app) == []


async def test_a_server_that_does_not_own_the_place_answers_where_the_service_is_reached(pair):
    world, _ = pair
    app = await deployed(world)
    for server in pair:
        await endpoints(server, app)
    (link,) = (await world.get(f"/application/{app}/link"))["results"]
    told = [[route.elsewhere for route in server.router.routes[app] if route.hosts] for server in pair]
    assert told == [[None], [ServedElsewhere("local", link["url"])]]


async def test_deleting_a_service_removes_its_routes_on_all_servers(pair):
    world, twin = pair
    app = await deployed(world)
    assert await endpoints(twin, app) == []
    await world.delete(f"/application/{app}")
    await world.settle()
    twin.installation.routes.note([app])
    await twin.installation.routes.catch_up(5)
    assert app not in twin.router.routes


async def test_a_place_taken_over_twice_is_left_by_both_former_owners(pair, postgres_url, tmp_path):
    world, twin = pair
    await deployed(world)
    await lose(pair)
    await twin.installation.place_owner.take()
    async with server(postgres_url, tmp_path / "three", world.clock, "three") as third:
        await lose((world, third))
        await third.installation.place_owner.take()
        await look(world)
        assert world.engine.instances == {}
        row = await third.installation.ctx.store.reads.owners.get("local")
        assert row
        assert (row.owner, row.formers) == ("three", frozenset({"two"}))


async def test_a_place_that_is_given_back_runs_its_services_again(pair):
    world, twin = pair
    app = await deployed(world)
    await lose(pair)
    await twin.installation.place_owner.take()
    await look(world)
    await lease_passes(world.clock, world)
    await world.installation.place_owner.take()
    await look(world)
    await world.installation.ctx.store.write(lambda tx: tx.work.schedule("reconcile", app))
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert len(world.engine.instances) == 1


async def test_claims_of_the_former_place_owner_become_invalid_when_the_place_is_taken_over(pair):
    world, twin = pair
    store = world.installation.ctx.store
    await store.write(lambda tx: tx.work.schedule("reconcile", "a", 0))
    (claim,) = await store.write(lambda tx: tx.work.claim(1000 * LEASE_TIME, 1))
    await lose(pair)
    assert await store.write(lambda tx: tx.work.held(claim))
    await twin.installation.place_owner.take()
    assert not await store.write(lambda tx: tx.work.held(claim))


async def test_logs_of_a_service_requested_at_another_server_are_answered_with_503_and_the_owner(pair):
    world, twin = pair
    app = await deployed(world)
    assert (await world.get(f"/application/{app}/log")).status == 200
    answer = await twin.get(f"/application/{app}/log")
    asked = "Ask the server that runs this service, that of the place local"
    assert (answer.status, answer.message.partition(":")[0]) == (503, asked)


async def test_a_service_deleted_through_another_server_is_erased_at_the_owner(pair):
    world, twin = pair
    app = await deployed(world)
    assert (await twin.delete(f"/application/{app}?skipReconcile=true")).status in {202, 204}
    await twin.run(30)
    assert app not in world.engine.discarded
    await look(world)
    await world.settle()
    assert app in world.engine.discarded
    assert world.engine.instances == {}


def test_a_data_directory_keeps_its_server_id(tmp_path, monkeypatch):
    settings = Settings(data_dir=str(tmp_path))
    first = server_id.owner_id(settings)
    assert server_id.owner_id(settings) == first
    (tmp_path / server_id.SERVER_ID_FILE).unlink()
    assert server_id.owner_id(settings) != first


def test_a_data_directory_copied_to_another_machine_has_another_server_id(tmp_path, monkeypatch):
    settings, machine = Settings(data_dir=str(tmp_path)), tmp_path / "machine-id"
    first = server_id.owner_id(settings)
    machine.write_text("0" * 32)
    monkeypatch.setattr(server_id, "_MACHINE_ID_FILE", machine)
    assert server_id.owner_id(settings) != first
