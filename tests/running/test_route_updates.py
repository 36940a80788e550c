"""Routes that could not be set are set later, by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes.router import FakeRouter
from tests.running.deployments import deployed
from tests.world import make_world
from windlass.control.deploying import route_updates
from windlass.routers.router import Route, RouteError


class BusyRouter(FakeRouter):
    """Refuses routes so many times, for a reason of each time."""

    refusals = 0

    async def set(self, service: str, routes: Sequence[Route]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise RouteError("the gateway does not answer")
        await super().set(service, routes)


@pytest.fixture
def router(monkeypatch) -> BusyRouter:
    monkeypatch.setattr(route_updates, "_PAUSE", 0.001)
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


async def test_routes_that_a_router_refused_are_set_when_it_takes_them(router):
    assert await refreshed(router, refusals=7)
    assert router.refusals == 0


async def test_routes_that_wait_are_logged_once_for_a_reason(router, caplog):
    await refreshed(router, refusals=9)
    assert [record.message for record in caplog.records].count("routes wait") == 1
