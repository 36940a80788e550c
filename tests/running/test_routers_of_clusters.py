"""Routers of clusters: ports, names, and routes while a host is unavailable."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.running.clusters import HTTP, TCP, TLS, application_on, cluster, connector, deploy, engine_of
from tests.world import World


async def routed(world: World) -> None:
    """Lets routes follow what has changed."""
    await world.settle()
    await world.installation.note_changes()
    await world.settle()
    await world.installation.routes.catch_up(5)


async def test_changing_the_router_port_of_a_cluster_moves_its_routes_to_a_new_router(world):
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


async def test_an_unavailable_router_port_is_refused_and_not_stored(world):
    east = await cluster(world, **TLS, router_port=9001)
    path = f"/organization/{world.org}/cluster/{east}"
    connector(world).port_trouble = "router_port: choose another port than 9002: another program has it"
    assert (await world.patch(path, {"router_port": 9002})).message.startswith("router_port: ")
    fields = {"name": "west"} | TLS | {"router_port": 9002}
    assert (await world.post(f"/organization/{world.org}/cluster", fields)).status == 400
    assert (await world.get(path))["router_port"] == 9001
    assert (await world.patch(path, {"name": "east 2"})).status == 200, "its own port is not asked for again"


async def test_of_two_concurrent_requests_for_a_router_port_one_succeeds(world):
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


async def test_after_a_restart_routes_of_a_cluster_exist_while_its_host_is_unavailable(world):
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


async def test_routes_stay_unchanged_when_a_host_goes_away(world):
    east = await cluster(world)
    app = await application_on(world, east, ports=[HTTP])
    await deploy(world, app)
    (before,) = world.router.routes[app]
    engine_of(world, east).away = True
    world.installation.routes.note([app])
    await world.installation.routes.catch_up(0.2)
    await world.installation.routes.stop()
    assert world.router.routes[app] == (before,)


async def test_a_hanging_engine_does_not_delay_routes_of_services_on_other_engines(world):
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
