"""Routes that could not be set are set later, by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes.router import FakeRouter
from tests.running.deployments import deployed
from tests.world import World, make_world
from windlass.control.context.place import Place
from windlass.control.deploying import route_updates
from windlass.routers.router import Listen, Route, RouteError


class BusyRouter(FakeRouter):
    """Refuses routes so many times."""

    refusals = 0
    refusal: Exception = RouteError("the gateway does not answer")

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise self.refusal
        await super().set(service, routes)


@pytest.fixture
def router(monkeypatch) -> BusyRouter:
    monkeypatch.setattr(route_updates, "_RETRY_PAUSE", 0.001)
    return BusyRouter()


async def refreshed(router: BusyRouter, refusals: int) -> Any:
    """The routes of a service after the router has refused them so many times."""
    async with make_world(router=router) as world:
        app = await deployed(world)
        router.routes.clear()
        router.refusals = refusals
        world.installation.routes.note([app])
        await world.installation.routes.catch_up(5)
        return router.routes.get(app)


async def test_routes_refused_by_a_router_are_set_again_until_accepted(router):
    assert await refreshed(router, refusals=7)
    assert router.refusals == 0


async def test_waiting_routes_are_logged_once_per_reason(router, caplog):
    await refreshed(router, refusals=9)
    assert [record.message for record in caplog.records].count("routes wait") == 1


async def test_routes_are_retried_after_an_unexpected_error(router, caplog):
    router.refusal = KeyError("not expected")
    assert await refreshed(router, refusals=7)
    assert [record.message for record in caplog.records if record.exc_info].count("routes wait") == 1


def place_fails(world: World, bad: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the question for the place of a service fail so many times, for a reason that is not expected."""
    failures, place_of = iter(range(times)), world.installation.ctx.places.of

    async def of(service: str) -> Place:
        if service == bad and next(failures, None) is not None:
            raise KeyError(service)
        return await place_of(service)

    monkeypatch.setattr(world.installation.ctx.places, "of", of)


async def test_a_service_whose_place_cannot_be_found_does_not_delay_routes_of_others(router, monkeypatch):
    async with make_world(router=router) as world:
        bad, good = await deployed(world), await deployed(world)
        routes, before = world.installation.routes, router.routes.pop(good)
        router.routes.pop(bad)
        place_fails(world, bad, 2, monkeypatch)
        routes.note([bad, good])
        await routes.catch_up(5)
        assert router.routes == {good: before}
        await routes.catch_up(5)
        await routes.catch_up(5)
        assert set(router.routes) == {bad, good}


class FullRouter(FakeRouter):
    """Cannot hold ports any more once it is full: another program has one of them."""

    is_full = False

    async def reserve(self, service: str, ports: Sequence[Listen]) -> None:
        if self.is_full:
            raise RouteError("port 30001 is in use by another program")
        await super().reserve(service, ports)


async def test_stopping_a_service_succeeds_even_if_the_router_refuses_its_routes():
    router = FullRouter()
    async with make_world(router=router) as world:
        app = await deployed(world)
        router.is_full = True
        await world.post(f"/application/{app}/stop")
        await world.settle()
        assert (await world.get(f"/application/{app}/status")).json["state"] == "STOPPED"
