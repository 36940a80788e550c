"""A gateway tells its server the requests of services."""

from __future__ import annotations

import os
import signal

import pytest

from tests.gateway.gateway_town import GatewayTown
from tests.gateway.routers.town import request
from tests.metrics.prometheus import needs_promtool, promtool, value
from windlass.api.prometheus import text_of
from windlass.control.background.rates import RequestLook, request_points
from windlass.control.context.usage_history import INTERVAL_MS
from windlass.gateway import router as gateway_router
from windlass.gateway.messages import ServiceTraffic
from windlass.gateway.router import GatewayRouter
from windlass.gateway.traffic import MAX_SERVICES, metrics_of


async def test_a_gateway_reports_request_counts_of_services_with_requests(town: GatewayTown):
    router: GatewayRouter = town.router  # type: ignore[assignment]
    await town.shop(await town.instance("one"))
    assert await router.service_traffic() == ()
    for _ in range(3):
        await town.ask(request())
    (told,) = await router.service_traffic()
    assert (told.service, told.requests, told.active) == ("shop", 3, 0)
    assert told.answers == (0, 0, 3, 0, 0, 0)
    assert sum(told.buckets) > 0
    assert told.seconds > 0


async def test_request_counts_of_a_gateway_become_rates_of_their_service(town: GatewayTown):
    router: GatewayRouter = town.router  # type: ignore[assignment]
    await town.shop(await town.instance("one"))
    looks = []
    for at in (0, INTERVAL_MS):
        looks.append(RequestLook(at, {row.service: row for row in await router.service_traffic()}))
        for _ in range(3):
            await town.ask(request())
    points = request_points(looks[0], looks[1])
    assert points["shop"]["2xx"] == 3 / 15
    assert points["shop"]["p99"]


async def test_a_scrape_shows_requests_by_service_and_class(town: GatewayTown):
    router: GatewayRouter = town.router  # type: ignore[assignment]
    await town.shop(await town.instance("one"))
    for _ in range(3):
        await town.ask(request())
    text = text_of("windlass", await router.metrics()).decode()
    assert value(text, "gateway_up") == 1
    assert value(text, "gateway_requests_total", {"service": "shop", "class": "2xx"}) == 3
    count = value(text, "gateway_request_seconds_count", {"service": "shop"})
    assert count
    assert value(text, "gateway_request_seconds_bucket", {"service": "shop", "le": "+Inf"}) == count


async def test_a_hanging_gateway_has_gateway_up_0(town: GatewayTown, monkeypatch: pytest.MonkeyPatch):
    router: GatewayRouter = town.router  # type: ignore[assignment]
    monkeypatch.setattr(gateway_router, "_SCRAPE_SECONDS", 0.1)
    process = await town.process()
    os.kill(process, signal.SIGSTOP)
    try:
        text = text_of("windlass", await router.metrics()).decode()
    finally:
        os.kill(process, signal.SIGCONT)
    assert value(text, "gateway_up") == 0


def test_services_beyond_a_number_share_their_samples():
    told = [ServiceTraffic(f"s{n}", 3, 1, (0, 0, 2, 0, 0, 0), (2, *[0] * 11), 0.5) for n in range(700)]
    text = text_of("windlass", metrics_of(told)).decode()
    further = 700 - MAX_SERVICES
    assert value(text, "gateway_active", {"service": "other"}) == further
    assert value(text, "gateway_requests_total", {"service": "other", "class": "2xx"}) == 2 * further
    assert value(text, "gateway_request_seconds_count", {"service": "other"}) == 2 * further
    assert value(text, "gateway_active", {"service": f"s{MAX_SERVICES - 1}"}) == 1
    assert value(text, "gateway_active", {"service": f"s{MAX_SERVICES}"}) is None


@needs_promtool
def test_promtool_accepts_the_metrics_of_a_gateway():
    told = [ServiceTraffic("s", 3, 1, (0, 0, 2, 0, 0, 0), (2, *[0] * 11), 0.5)]
    assert promtool("check", "metrics", text=text_of("windlass", metrics_of(told)).decode()) == (0, "")
