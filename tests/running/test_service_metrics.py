"""The metrics of a service: what its instances used in the last hour, and the requests to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes.router import FakeRouter
from tests.world import World, make_world
from windlass.base.metrics import Histogram, Metric, MetricType
from windlass.control.background.sampling import sample
from windlass.control.context.usage_history import KEPT, MOST_SERVICES, UsageHistory
from windlass.core.deploy.workload import Usage
from windlass.engines.engine import EngineError


class CountingRouter(FakeRouter):
    """A router that counted what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, dict[str, int]] = {}
        self.times: dict[str, Histogram] = {}
        self.is_away = False

    async def metrics(self) -> Sequence[Metric]:
        if self.is_away:
            return ()
        counts = [((s, name), float(n)) for s, by in self.answers.items() for name, n in by.items()]
        return [
            Metric("gateway_requests_total", "", MetricType.COUNTER, ("service", "class"), counts),
            Metric(
                "gateway_request_seconds",
                "",
                MetricType.HISTOGRAM,
                ("service",),
                [((service,), histogram) for service, histogram in self.times.items()],
            ),
        ]


@pytest.fixture
def router():
    return CountingRouter()


@pytest.fixture
async def world(router):
    async with make_world(router=router) as made:
        yield made


async def running(world: World) -> str:
    app = await world.application()
    await world.post(f"/application/{app}/deploy", {})
    await world.run(10)
    assert await world.state(f"/application/{app}") == "RUNNING"
    world.engine.load = {one.id: Usage(memory=1) for one in await world.engine.all()}
    return app


async def look(world: World, seconds: float = 15) -> None:
    world.clock.turn(seconds)
    await sample(world.installation.ctx)


async def metrics(world: World, app: str) -> Any:
    answer = await world.get(f"/application/{app}/metrics")
    assert answer.status == 200, answer
    return answer.json


async def test_a_service_that_was_never_measured_has_no_points(world):
    app = await world.application()
    found = await metrics(world, app)
    assert (found["times"], found["instances"], found["requests"]) == ([], [], None)


async def test_processor_time_is_a_rate_and_memory_the_present_value(world):
    app = await running(world)
    (instance,) = [one for one in await world.engine.all() if one.service == app]
    for cpu_ms, memory in ((1000, 10), (2500, 20), (2500, 30)):
        world.engine.load[instance.id] = Usage(cpu_ms=cpu_ms, memory=memory)
        await look(world)
    (found,) = (await metrics(world, app))["instances"]
    assert (found["cpu"], found["memory"]) == ([100.0, 0.0], [20, 30])


async def test_requests_are_counted_by_class_and_timed(world, router):
    app = await running(world)
    histogram = router.times[app] = Histogram((0.01, 0.1, 1.0))
    router.answers[app] = {"2xx": 100, "5xx": 0}
    histogram.buckets = [100, 0, 0, 0]
    await look(world)
    router.answers[app] = {"2xx": 130, "5xx": 15}
    histogram.buckets = [130, 15, 0, 0]
    await look(world)
    found = (await metrics(world, app))["requests"]
    assert {name: rates[-1] for name, rates in found["by_status"].items()} == {
        "2xx": 2.0,
        "3xx": 0.0,
        "4xx": 0.0,
        "5xx": 1.0,
    }
    assert 0 < found["p50"][-1] <= 10 < found["p90"][-1] <= found["p99"][-1] <= 100


async def test_a_gateway_that_began_again_makes_no_negative_rates(world, router):
    app = await running(world)
    router.times[app] = Histogram((0.01,))
    for count in (1000, 30):
        router.answers[app] = {"2xx": count}
        router.times[app].buckets = [count, 0]
        await look(world)
    found = (await metrics(world, app))["requests"]
    assert found["by_status"]["2xx"] == [2.0]


async def test_requests_are_unknown_while_the_gateway_is_away(world, router):
    app = await running(world)
    router.times[app], router.answers[app] = Histogram((0.01,)), {"2xx": 1}
    await look(world)
    await look(world)
    router.is_away = True
    await look(world)
    found = (await metrics(world, app))["requests"]
    assert found["by_status"]["2xx"] == [0.0, None]
    assert found["p50"] == [None, None]


async def test_a_pause_is_a_gap(world):
    app = await running(world)
    for seconds in (15, 15, 15, 120, 15):
        await look(world, seconds)
    found = await metrics(world, app)
    assert [value is None for value in found["instances"][0]["memory"]] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


async def test_an_hour_is_kept(world):
    app = await running(world)
    for _ in range(KEPT + 20):
        await look(world)
    times = (await metrics(world, app))["times"]
    assert len(times) == KEPT


async def test_a_service_of_another_organization_is_not_there(world):
    app = await running(world)
    await look(world)
    _, token = await world.organization()
    assert (await world.get(f"/application/{app}/metrics", token=token)).status == 404


async def test_an_engine_that_fails_ends_no_later_sample(world, monkeypatch):
    app = await running(world)
    await look(world)
    right = world.engine.usage

    async def wrong():
        raise EngineError("the engine is away")

    world.engine.usage = wrong
    await look(world)
    world.engine.usage = right
    await look(world)
    assert len((await metrics(world, app))["times"]) == 1


def test_the_history_has_an_end():
    history = UsageHistory()
    for at in (0, 15_000):
        used = {str(number): {"1-0": Usage(cpu_ms=1, memory=1)} for number in range(MOST_SERVICES + 5)}
        history.note(at, used, None)
    kept = [number for number in range(MOST_SERVICES + 5) if history.of(str(number), 15_000)]
    assert len(kept) == MOST_SERVICES


def test_a_service_that_is_gone_for_an_hour_makes_room():
    history = UsageHistory()
    for at in (0, 15_000):
        history.note(at, {"old": {"1-0": Usage()}}, None)
    history.note(15_000 * (KEPT + 3), {"new": {"1-0": Usage()}}, None)
    assert not history.of("old", 15_000 * (KEPT + 3))
