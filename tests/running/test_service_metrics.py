"""The metrics of a service: what its instances used in the last hour, and the requests to it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

import pytest

from tests.running.clusters import application_on, cluster, engine_of
from tests.running.clusters import deploy as deploy_on
from tests.running.deployments import deploy, deployed
from tests.running.measured import count, look, metrics, traffic, use
from tests.running.test_place_owner import lose, pair  # noqa: F401 (a fixture)
from tests.world import World, make_world
from windlass.base.clock import SECOND
from windlass.control.background import all_places, sampling
from windlass.control.context.usage_history import INTERVAL_MS, RING_POINTS
from windlass.engines.workload import Instance, Phase, StaticSite, Usage
from windlass.families import registry

CLASSES = ("2xx", "3xx", "4xx", "5xx")


def rates(found: object, name: str = "2xx") -> list[float | None]:
    return list(found["requests"]["by_status"][name])  # type: ignore[index]


def test_every_deployable_family_has_a_metrics_operation():
    assert [
        family.name for family in registry().services if not registry().handled_by(f"{family.name}.metrics")
    ] == []


async def test_a_service_that_was_never_measured_has_no_metric_points(world: World):
    found = await metrics(world, await world.application())
    assert found == {"every_seconds": 15, "times": [], "instances": [], "requests": None, "usage": None}


async def test_processor_time_is_a_rate_and_memory_is_the_current_value(world: World):
    app = await deployed(world)
    for cpu_ms, memory in ((1000, 10), (2500, 20), (2500, 30)):
        use(world.engine, app, cpu_ms, memory)
        await look(world)
    (found,) = (await metrics(world, app))["instances"]
    assert found == {"name": "1-0", "cpu": [None, 100.0, 0.0], "memory": [10, 20, 30]}


async def test_a_restarted_instance_has_an_unknown_processor_rate_and_no_negative_one(world: World):
    app = await deployed(world)
    for cpu_ms in (5000, 100, 250):
        use(world.engine, app, cpu_ms)
        await look(world)
    assert (await metrics(world, app))["instances"][0]["cpu"] == [None, None, 10.0]


async def test_each_instance_has_its_own_metrics_also_after_a_new_version(world: World):
    app = await deployed(world, min_running_instances=2, max_running_instances=2)
    use(world.engine, app, memory=10)
    await look(world)
    world.engine.load = {}
    await deploy(world, app)
    await world.settle()
    use(world.engine, app, memory=20)
    await look(world)
    found = (await metrics(world, app))["instances"]
    assert [(one["name"], one["memory"]) for one in found] == [
        ("1-0", [10, None]),
        ("1-1", [10, None]),
        ("2-0", [None, 20]),
        ("2-1", [None, 20]),
    ]


async def test_requests_are_rates_by_class_and_have_percentiles_of_their_times(world: World):
    app = await deployed(world)
    count(world, app, ok=100)
    await look(world)
    count(world, app, ok=130, failed=15, times={0: 130, 3: 15})  # the bucket from 25 to 50 ms
    await look(world)
    found = await metrics(world, app)
    assert [rates(found, name) for name in CLASSES] == [[2.0], [0.0], [0.0], [1.0]]
    assert list(found["requests"]["by_status"]) == [*CLASSES]
    assert 0 < found["requests"]["p50"][0] <= 5
    assert 25 < found["requests"]["p90"][0] < found["requests"]["p99"][0] <= 50


async def test_answers_in_the_slowest_bucket_count_as_ten_seconds(world: World):
    app = await deployed(world)
    await look(world)
    count(world, app, ok=3, times={11: 3})
    await look(world)
    assert (await metrics(world, app))["requests"]["p50"] == [10000]


async def test_websockets_and_aborted_requests_have_their_own_status_classes(world: World):
    app = await deployed(world)
    await look(world)
    world.router.told[app] = traffic(app, (15, 30))
    await look(world)
    found = await metrics(world, app)
    assert list(found["requests"]["by_status"]) == ["none", "1xx", *CLASSES]
    assert (rates(found, "none"), rates(found, "1xx")) == ([1.0], [2.0])
    assert found["requests"]["p50"] == [None]


async def test_an_interval_without_requests_has_a_rate_of_zero_and_unknown_latencies(world: World):
    app = await deployed(world)
    use(world.engine, app)
    for ok in (0, 0, 30, 30):
        count(world, app, ok)
        await look(world)
    found = await metrics(world, app)
    assert rates(found) == [None, 0, 2.0, 0]
    assert [number is None for number in found["requests"]["p99"]] == [True, True, False, True]


async def test_a_service_without_a_request_in_the_hour_has_no_requests(world: World):
    """The control is the test above."""
    app = await deployed(world)
    use(world.engine, app)
    count(world, app, ok=70)
    for _ in range(3):
        await look(world)
    found = await metrics(world, app)
    assert (len(found["times"]), found["requests"]) == (3, None)


async def test_a_restarted_gateway_causes_no_negative_request_rates(world: World):
    app = await deployed(world)
    for ok in (1000, 30, 45):
        count(world, app, ok)
        await look(world)
    assert rates(await metrics(world, app)) == [2.0, 1.0]


async def test_request_rates_are_unknown_while_the_gateway_does_not_answer(world: World):
    app = await deployed(world)
    use(world.engine, app)
    for ok, problem in ((0, ""), (15, ""), (15, "away"), (30, "")):
        world.router.problem = problem
        count(world, app, ok)
        await look(world)
    found = await metrics(world, app)
    assert rates(found) == [None, 1.0, None, 0.5]
    assert found["instances"][0]["memory"] == [1, 1, 1, 1]


async def test_requests_of_each_service_are_measured_among_many_services(world: World):
    """Only some services have samples of their own in the metrics of a scrape."""
    world.router.told = {f"s{number}": traffic(f"s{number}", (0, 0, 1)) for number in range(750)}
    app = await deployed(world)
    for ok in (0, 30):
        count(world, app, ok)
        await look(world)
    assert rates(await metrics(world, app)) == [2.0]


async def test_a_static_site_has_requests_and_no_instances(world: World):
    world.builder.names = {"static": StaticSite(folder="dist")}
    app = await deployed(world)
    for ok in (0, 30):
        count(world, app, ok)
        await look(world)
    found = await metrics(world, app)
    assert (found["instances"], rates(found)) == ([], [2.0])


async def test_metric_times_are_continuous_with_null_values_in_a_pause(world: World):
    app = await deployed(world)
    for seconds, cpu_ms in ((15, 0), (15, 150), (60, 3000), (15, 3150)):
        use(world.engine, app, cpu_ms)
        count(world, app, cpu_ms)
        await look(world, seconds)
    found = await metrics(world, app)
    (instance,) = found["instances"]
    assert instance["memory"] == [1, 1, None, None, None, 1, 1]
    assert instance["cpu"] == [None, 10.0, None, None, None, None, 10.0]
    assert rates(found) == [None, 10.0, None, None, None, None, 10.0]
    times = [datetime.fromisoformat(time).timestamp() for time in found["times"]]
    assert times == [times[0] + 15 * step for step in range(7)]
    assert times[0] % 15 == 0


async def test_after_one_missing_sample_the_next_point_is_the_mean_of_both_intervals(world: World):
    """The control of the test above: the mean of two steps is told."""
    app = await deployed(world)
    for seconds, cpu_ms in ((15, 0), (30, 300)):
        use(world.engine, app, cpu_ms)
        await look(world, seconds)
    assert (await metrics(world, app))["instances"][0]["cpu"] == [None, None, 10.0]


async def test_a_stopped_service_has_null_metrics_up_to_now(world: World):
    app = await deployed(world)
    use(world.engine, app)
    await look(world)
    world.engine.load = {}
    for _ in range(3):
        await look(world)
    assert (await metrics(world, app))["instances"][0]["memory"] == [1, None, None, None]


async def test_metrics_keep_the_latest_240_points(world: World):
    app = await deployed(world)
    for number in range(RING_POINTS + 20):
        use(world.engine, app, memory=number)
        count(world, app, number)
        await look(world)
    found = await metrics(world, app)
    (instance,) = found["instances"]
    assert len(found["times"]) == len(instance["cpu"]) == len(rates(found)) == RING_POINTS
    assert instance["memory"] == [*range(20, RING_POINTS + 20)]


async def test_a_metric_series_has_at_most_240_points_even_with_irregular_samples(world: World):
    app = await deployed(world)
    use(world.engine, app)
    for _ in range(150):
        await look(world, 31)
    found = await metrics(world, app)
    assert (len(found["times"]), len(found["instances"][0]["memory"])) == (RING_POINTS, RING_POINTS)


async def test_a_service_that_did_not_run_for_an_hour_has_no_points(world: World):
    app = await deployed(world)
    use(world.engine, app)
    await look(world)
    world.engine.load = {}
    await look(world, 3600)
    assert (await metrics(world, app))["times"] == []


async def test_two_samples_in_one_interval_count_once(world: World):
    app = await deployed(world)
    count(world, app, 0)
    await look(world)
    for seconds, ok in ((15, 30), (1, 45), (14, 60)):
        count(world, app, ok)
        await look(world, seconds)
    assert rates(await metrics(world, app)) == [2.0, 2.0]


async def test_samples_are_taken_at_multiples_of_the_interval(world: World, monkeypatch):
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        world.clock.turn(seconds + 0.004)
        if len(waited) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await world.installation.sampler.run()
    assert [round(seconds * SECOND) for seconds in waited[1:]] == [INTERVAL_MS - 4] * 2


async def test_a_service_of_another_organization_is_not_found(world: World):
    app = await deployed(world)
    use(world.engine, app)
    await look(world)
    _, stranger = await world.organization()
    assert (await world.get(f"/application/{app}/metrics", token=stranger)).status == 404
    assert (await world.get(f"/application/{app}/metrics")).status == 200


async def test_a_token_that_may_read_the_service_may_read_its_metrics(world: World):
    app = await deployed(world)
    other = await world.project()
    assert (await world.get(f"/application/{app}/metrics", token=await world.new_token("Read"))).status == 200
    limited = await world.new_token("Read", limited_to=[other])
    assert (await world.get(f"/application/{app}/metrics", token=limited)).status == 404


async def test_metrics_requested_at_a_server_that_does_not_run_the_service_get_503_and_the_owner(pair):  # noqa: F811
    owner, other = pair
    app = await deployed(owner)
    use(owner.engine, app)
    for server in pair:
        await server.installation.sampler.add_points()
    assert (await metrics(owner, app))["instances"][0]["memory"] == [1]
    answer = await other.get(f"/application/{app}/metrics")
    assert (answer.status, answer.message.partition(",")[0]) == (
        503,
        "Ask the server that runs this service",
    )
    await lose(pair)
    answer = await other.get(f"/application/{app}/metrics")
    assert (answer.status, "does not answer" in answer.message) == (503, True)


async def test_a_server_that_does_not_own_its_place_requests_no_usage_from_its_engine(pair, monkeypatch):  # noqa: F811
    asked: list[str] = []
    for name, server in zip(("owner", "other"), pair, strict=True):

        async def usage(name: str = name) -> dict[str, Usage]:
            asked.append(name)
            return {}

        monkeypatch.setattr(server.engine, "usage", usage)
        await look(server)
    assert asked == ["owner"]


async def test_a_service_with_many_instances_does_not_displace_metrics_of_other_services(
    world: World, monkeypatch
):
    monkeypatch.setattr(sampling, "MAX_SHOWN_INSTANCES", 2)
    large = await deployed(world, min_running_instances=3, max_running_instances=3)
    small = await deployed(world)
    for app in (large, small):
        use(world.engine, app)
    await look(world)
    assert [len((await metrics(world, app))["instances"]) for app in (large, small)] == [2, 1]


async def test_usage_from_a_clusters_engine_is_accepted_only_for_services_of_that_cluster(world: World):
    east = await cluster(world)
    far, near = await application_on(world, east), await deployed(world)
    await deploy_on(world, far)
    engine = engine_of(world, east)
    for service in (near, "invented"):
        engine.instances[service, 7, 0] = Instance(
            id=f"{service}-7-0",
            service=service,
            generation=7,
            index=0,
            phase=Phase.RUNNING,
            address="127.0.0.1",
        )
    for service in (far, near, "invented"):
        use(engine, service, memory=666)
    await look(world)
    found = [(await metrics(world, app))["instances"] for app in (far, near)]
    assert [[(one["name"], one["memory"]) for one in instances] for instances in found] == [
        [("1-0", [666])],
        [],
    ]


async def test_a_hanging_cluster_engine_does_not_stop_metrics_of_other_services(world: World, monkeypatch):
    monkeypatch.setattr(all_places, "_ROUND_TIMEOUT", 0.01)
    east = await cluster(world)
    far, near = await application_on(world, east), await deployed(world)
    await deploy_on(world, far)
    use(engine_of(world, east), far)
    use(world.engine, near)
    await look(world)
    hangs = asyncio.Event()
    monkeypatch.setattr(engine_of(world, east), "usage", hangs.wait)
    await look(world)
    await look(world)
    assert (await metrics(world, near))["instances"][0]["memory"] == [1, 1, 1]
    assert (await metrics(world, far))["instances"][0]["memory"] == [1, None, None]


async def test_a_failed_usage_sample_does_not_stop_later_samples(world: World):
    app = await deployed(world)
    use(world.engine, app)
    for away in (False, True, False):
        world.engine.away = away
        await look(world)
    assert (await metrics(world, app))["instances"][0]["memory"] == [1, None, 1]


async def test_instances_are_listed_at_the_engine_only_when_there_is_a_new_one(world: World, monkeypatch):
    asked: list[str] = []
    every = world.engine.all

    async def all_instances() -> list[object]:
        asked.append("")
        return [*await every()]

    monkeypatch.setattr(world.engine, "all", all_instances)
    use(world.engine, await deployed(world))
    asked.clear()
    for _ in range(3):
        await look(world)
    assert len(asked) == 1
    use(world.engine, await deployed(world))
    asked.clear()
    await look(world)
    assert len(asked) == 1


async def test_usage_history_begins_empty_after_a_server_restart(tmp_path: Path):
    async with make_world(folder=tmp_path) as world:
        app = await deployed(world)
        use(world.engine, app)
        await look(world)
        clock, engine = world.clock, world.engine
    async with make_world(folder=tmp_path, clock=clock, engine=engine) as again:
        assert (await metrics(again, app))["times"] == []
        await look(again)
        assert (await metrics(again, app))["instances"][0]["memory"] == [1]
