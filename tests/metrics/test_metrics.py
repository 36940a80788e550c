"""The metrics of an installation are true, bounded, and answered even if an engine or the database is
unavailable."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from tests.fakes.engine import FakeEngine
from tests.metrics.prometheus import measured, needs_promtool, promtool, scraped, value
from tests.webhooks.receivers import Receivers
from tests.webhooks.told import URL, webhook
from tests.world import World, make_world
from windlass.api import prometheus
from windlass.api.metrics import Metrics
from windlass.base.errors import Conflict, Unavailable
from windlass.base.metrics import Metric, gauge
from windlass.control.reporting.metrics import InstallationMetrics
from windlass.core.deploy.states import State
from windlass.engines.engine import EngineUnavailable
from windlass.engines.workload import Instance, Phase
from windlass.families import registry
from windlass.store.migrate import migrations
from windlass.store.sqlite import connect, migrate
from windlass.store.tables.figures import FIGURES, MAX_COUNTED_ROWS, Figure


async def deployed(world: World, **fields: Any) -> str:
    app = await world.application(**fields)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return app


@needs_promtool
async def test_promtool_accepts_the_metrics_endpoint(world: World):
    await deployed(world)
    assert promtool("check", "metrics", text=await scraped(world)) == (0, "")
    code, complaint = promtool("check", "metrics", text="windlass_writes_total 1\n")
    assert code != 0
    assert "no help text" in complaint


MANUAL = Path(__file__).parents[2] / "docs" / "metrics-and-logs.md"


def unexplained(text: str, page: str) -> list[str]:
    """Returns metrics that are not in the tables of the page. Those of the process share one line."""
    names = re.findall(r"^# HELP windlass_(?!process_)(\w+)", text, re.MULTILINE)
    explained = set(re.findall(r"`(\w+)`", page.partition("## Metrics\n")[2].partition("\n## ")[0]))
    return [name for name in names if name not in explained]


async def test_the_manual_explains_every_metric(world: World):
    await deployed(world)
    text, page = await scraped(world), MANUAL.read_text()
    assert "# HELP windlass_place_lost" in text
    assert unexplained(text, page) == []
    assert unexplained(text, page.replace("`place_lost`", "")) == ["place_lost"]


async def test_a_deployment_is_counted_once_by_its_action_and_result(world: World):
    app = await deployed(world)
    world.engine.broken = "no room"
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    text = await scraped(world)
    name = "deployment_duration_seconds_count"
    assert value(text, name, {"action": "deploy", "result": "succeeded"}) == 1
    assert value(text, name, {"action": "deploy", "result": "failed"}) == 1


async def test_the_duration_of_a_deployment_includes_its_time_in_the_queue(world: World):
    app = await world.application()
    await world.post(f"/application/{app}/deploy")
    world.clock.turn(42)
    await world.settle()
    labels = {"action": "deploy", "result": "succeeded"}
    assert await measured(world, "deployment_duration_seconds_sum", **labels) == 42


async def test_a_deletion_is_counted_as_a_deployment(world: World):
    app = await deployed(world)
    await world.delete(f"/application/{app}")
    await world.settle()
    labels = {"action": "delete", "result": "succeeded"}
    assert await measured(world, "deployment_duration_seconds_count", **labels) == 1


async def test_a_rolled_back_transaction_records_no_measurement(world: World):
    store = world.installation.ctx.store

    async def change(tx, fails):
        tx.measure("deployment", 1.0, "deploy", "lost" if fails else "kept")
        await tx.facts.set("touched", b"1")
        if fails:
            raise Conflict("no")

    await store.write(lambda tx: change(tx, False))
    with pytest.raises(Conflict):
        await store.write(lambda tx: change(tx, True))
    text = await scraped(world)
    assert value(text, "deployment_duration_seconds_count", {"result": "kept"}) == 1
    assert value(text, "deployment_duration_seconds_count", {"result": "lost"}) is None


async def test_waiting_work_is_counted_by_queue_with_the_age_of_the_oldest(world: World):
    apps = [await world.application() for _ in range(3)]
    for app in apps:
        await world.post(f"/application/{app}/deploy")
    world.clock.turn(90)
    text = await scraped(world)
    assert value(text, "queue_due", {"queue": "deployments"}) == 3
    assert value(text, "queue_oldest_seconds", {"queue": "deployments"}) == 90
    assert value(text, "queue_held", {"queue": "deployments"}) == 0
    assert value(text, "deployments", {"state": "queued"}) == 3
    assert value(text, "deployments_oldest_seconds") == 90


async def test_claimed_work_is_counted_in_queue_held_and_not_in_queue_due(world: World):
    world.engine.gate = asyncio.Event()
    app = await world.application()
    await world.post(f"/application/{app}/deploy")
    await world.installation.worker.start_due()
    text = await scraped(world)
    assert value(text, "queue_held", {"queue": "deployments"}) == 1
    assert value(text, "queue_due", {"queue": "deployments"}) == 0
    world.engine.gate.set()
    await world.settle()


async def test_wanted_and_running_instances_are_counted(world: World):
    await deployed(world, min_running_instances=3, max_running_instances=3)
    text = await scraped(world)
    assert value(text, "instances_wanted") == 3
    assert value(text, "instances", {"phase": "running", "place": "local"}) == 3
    assert value(text, "services", {"state": "deployed"}) == 1


async def test_restarts_between_scrapes_are_counted(world: World):
    app = await deployed(world)
    world.engine.ends(app, "exited with code 1")
    assert await measured(world, "instance_restarts_total", place="local") == 0, "before the first scrape"
    for times in (2, 0, 3):
        for _ in range(times):
            world.engine.ends(app, "exited with code 1")
        await scraped(world)
    assert await measured(world, "instance_restarts_total", place="local") == 5


class RenamingEngine:
    """Names other instances in each answer, or is away."""

    name = "fake"

    def __init__(self) -> None:
        self.away, self.answers = False, 0

    async def all(self) -> list[Instance]:
        if self.away:
            raise EngineUnavailable("away")
        self.answers += 1
        return [
            Instance(
                id=f"{self.answers}-{index}",
                service="s",
                generation=1,
                index=index,
                phase=Phase.RUNNING,
                address="127.0.0.1",
                restarts=1,
            )
            for index in range(10)
        ]


async def test_restart_counts_are_kept_only_for_instances_in_the_latest_list_of_each_engine(world: World):
    renaming, away = RenamingEngine(), RenamingEngine()
    engines = {"renaming": renaming, "away": away}
    seen = [SimpleNamespace(id=id, machine="", engine=engine) for id, engine in engines.items()]
    places: Any = SimpleNamespace(all=lambda: seen, accesses=list)
    source = InstallationMetrics(replace(world.installation.ctx, places=places))
    await source.all()
    away.away = True
    for _ in range(5):
        metrics = await source.all()
    assert {place: len(known) for place, known in source.restarts.items()} == {"renaming": 10, "away": 10}
    assert sample(metrics, "instance_restarts_total", "renaming") == 50
    assert sample(metrics, "instance_restarts_total", "away") == 0


@pytest.mark.parametrize("result", ["succeeded", "failed"])
async def test_build_metrics_are_labelled_with_the_result(world: World, result: str):
    world.builder.broken = "a step failed" if result == "failed" else ""
    await deployed(world)
    assert await measured(world, "build_duration_seconds_count", result=result) == 1
    assert await measured(world, "builds_running") == 0


async def test_an_unavailable_engine_has_engine_up_0(world: World):
    assert await measured(world, "engine_up", place="local") == 1
    world.engine.away = True
    text = await scraped(world)
    assert value(text, "engine_up", {"place": "local"}) == 0
    assert value(text, "instances", {"place": "local", "phase": "running"}) is None


class HangingEngine(FakeEngine):
    hangs = False

    async def all(self) -> list[Instance]:
        if self.hangs:
            await asyncio.Event().wait()
        return await super().all()


async def test_a_hanging_engine_has_engine_up_0_and_does_not_delay_a_scrape():
    engine = HangingEngine()
    async with make_world(engine=engine) as world:
        assert await measured(world, "engine_up", place="local") == 1
        engine.hangs = True
        source = InstallationMetrics(world.installation.ctx, timeout=0.05)
        assert sample(await source.all(), "engine_up", "local", "fake") == 0
        engine.hangs = False


def sample(metrics: Iterable[Metric], name: str, *labels: str) -> object:
    return next(dict(metric.samples).get(labels) for metric in metrics if metric.name == name)


class AwayStore:
    def __init__(self) -> None:
        self.connections: Mapping[str, int] = {}
        self.stores_changes = False

    async def figures(self, now: int) -> list[Figure]:
        raise Unavailable("The database cannot be reached.")


async def test_metrics_from_outside_the_database_are_served_during_a_database_outage(world: World):
    store: Any = AwayStore()
    source = InstallationMetrics(replace(world.installation.ctx, store=store))
    metrics = await source.all()
    assert sample(metrics, "database_up") == 0
    assert sample(metrics, "database_writable") == 0
    assert sample(metrics, "engine_up", "local", "fake") == 1
    assert "queue_due" not in {metric.name for metric in metrics}
    assert await measured(world, "database_up") == 1
    assert await measured(world, "database_writable") == 1


async def test_a_full_disk_counts_as_a_database_that_stores_no_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    store = world.installation.ctx.store
    monkeypatch.setattr(store, "shortage", lambda *, ends_something: "" if ends_something else "full")
    assert await measured(world, "database_writable") == 0
    monkeypatch.undo()
    world.clock.turn(5)
    assert await measured(world, "database_writable") == 1


async def test_simultaneous_scrapes_share_one_measurement():
    asked = 0

    async def ask() -> list[Metric]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return [gauge("asked", "Questions", asked)]

    metrics = Metrics((), kept_seconds=0)
    metrics.add(ask)
    await asyncio.gather(*(metrics.text() for _ in range(20)))
    assert asked == 1
    assert b"windlass_asked 2.0" in await metrics.text()
    metrics.kept_seconds = 3600
    for _ in range(5):
        assert b"windlass_asked 2.0" in await metrics.text()


@pytest.mark.parametrize(("kept_seconds", "texts"), [(3600, 1), (0, 3)])
async def test_frequent_scrapes_render_the_metrics_text_once_per_cache_period(
    monkeypatch, kept_seconds, texts
):
    """The second row is the control."""
    made: list[bytes] = []
    render = prometheus.text_of

    def counted(prefix: str, metrics: Iterable[Metric]) -> bytes:
        made.append(render(prefix, metrics))
        return made[-1]

    monkeypatch.setattr(prometheus, "text_of", counted)
    metrics = Metrics((), kept_seconds=kept_seconds)
    for _ in range(3):
        await metrics.text()
    assert len(made) == texts


async def test_the_database_connection_metric_exists_with_postgresql_only(world: World):
    is_embedded = not world.installation.ctx.settings.database_url
    most = await measured(world, "database_connections", state="most")
    assert (most is None) == is_embedded


async def test_request_latencies_are_labelled_by_family_and_access_and_never_by_path(world: World):
    project = await world.project()
    await world.get(f"/project/{project}")
    text = await scraped(world)
    assert value(text, "request_seconds_count", {"family": "project", "access": "read"}) == 1
    assert value(text, "request_seconds_count", {"family": "project", "access": "write"}) == 1
    before = len(text.splitlines())
    for number in range(20):
        await world.get(f"/nothing/{number}")
        await world.get(f"/project/{number}")
    assert len((await scraped(world)).splitlines()) <= before + 3, "requests of unknown paths, and of metrics"


async def test_more_organizations_and_services_add_no_metric_series(world: World):
    app = await deployed(world, name="tell-nobody")
    await scraped(world)
    before = (await scraped(world)).splitlines()
    for _ in range(5):
        await world.organization()
        await deployed(world, name=world.name("tell-nobody"))
    text = await scraped(world)
    assert series(text.splitlines()) - series(before) <= {
        'windlass_requests_total{operation="createOrganization",status="201"}'
    }
    assert "tell-nobody" not in text
    assert app not in text
    assert world.org not in text


def series(lines: Iterable[str]) -> set[str]:
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


async def test_every_service_state_and_family_has_a_series_from_the_start(world: World):
    text = await scraped(world)
    assert [state for state in State if value(text, "services", {"state": state.lower()}) is None] == []
    families = {operation.family.name for operation in registry().operations if operation.family}
    missing = {
        name
        for name in families
        if value(text, "request_seconds_count", {"family": name, "access": "read"}) is None
    }
    assert missing == set()


GROWS = frozenset({"work", "deployment", "delivery", "event", "resource"})


def test_the_metrics_query_scans_no_growing_table(tmp_path):
    with contextlib.closing(connect(tmp_path / "a.db")) as connection:
        migrate(connection, migrations())
        assert scanned(connection, FIGURES, (0, MAX_COUNTED_ROWS)) & GROWS == set()
        assert scanned(connection, "SELECT count(*) FROM work WHERE attempts > 3") == {"work"}


def scanned(connection: apsw.Connection, statement: str, values: Sequence[object] = ()) -> set[str]:
    """Returns the tables that are read without an index."""
    steps = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    return {step.split()[1] for step in steps if step.startswith("SCAN") and "INDEX" not in step}


async def test_queue_counts_stop_at_a_maximum(world: World):
    store = world.installation.ctx.store

    async def add(tx):
        for number in range(30):
            await tx.work.schedule("sweep", f"piece-{number}")

    await store.write(add)
    rows = await store.reads.session.all(FIGURES, world.clock.now(), 7)
    assert max(row[3] for row in rows if row[0] == "due") == 7


async def test_webhook_attempts_are_counted_by_result():
    receivers = Receivers()
    async with make_world(out=receivers) as world:
        await webhook(world, events=["DEPLOYMENT_SUCCEEDED"])
        await deployed(world)
        assert await measured(world, "webhook_attempts_total", result="delivered") == 1
        receivers.away.add(URL)
        await deployed(world)
        world.clock.turn(3)
        text = await scraped(world)
        assert value(text, "webhook_attempts_total", {"result": "repeated"}) == 1
        assert value(text, "webhooks_failing") == 1
        assert value(text, "webhook_deliveries_waiting") == 1
        assert value(text, "webhook_deliveries_oldest_seconds") == 3
