"""Releases are watched after their deployments: health, changes by others, and the Pods behind ports."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from msgspec.structs import replace

from tests.helm_services.conftest import deployed, release_of
from tests.world import World
from windlass.core.words.events import Event
from windlass.engines.releases import (
    ReleasedController,
    ReleasedEndpoint,
    ReleaseDetails,
    ReleasedEvent,
    ReleasedPod,
    ReleasedRoute,
    ReleaseState,
)
from windlass.engines.workload import Workload
from windlass.helm import release_watch
from windlass.helm.health import DeployedController
from windlass.helm.kind import HelmKind
from windlass.helm.manifests import compare
from windlass.helm.plans import ReleasePlan, put_plan
from windlass.helm.release_watch import ReleaseWatch, release_name
from windlass.routers.router import Endpoint

PORTS = [
    {"internal_port": 80, "service_name": "web", "is_default": True},
    {"internal_port": 80, "name": "admin", "service_selectors": [{"key": "part", "value": "admin"}]},
    {"internal_port": 81, "name": "other", "service_name": "web", "namespace": "kube-system"},
]
MANIFEST = "kind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 2\n"


class FakeReleases:
    """What is in the cluster, as the test says."""

    def __init__(self) -> None:
        self.environments: set[str] = set()
        self.states: dict[str, ReleaseState | None] = {}
        self.found: dict[str, ReleaseDetails] = {}

    def put(self, environment: str, state: ReleaseState | None) -> None:
        self.states[environment] = state
        self.environments.add(environment)

    def changed(self) -> Collection[str]:
        changed, self.environments = self.environments, set()
        return changed

    async def state(self, environment: str) -> ReleaseState | None:
        return self.states.get(environment, ReleaseState())

    async def details(self, environment: str, release: str) -> ReleaseDetails | None:
        return self.found.get(release)


@pytest.fixture
def releases(world: World) -> FakeReleases:
    made = FakeReleases()
    world.engine.releases = made  # type: ignore[attr-defined]
    return made


@pytest.fixture
def watch(world: World) -> ReleaseWatch:
    ctx = world.installation.ctx
    kind = ctx.kinds["helm"]
    assert isinstance(kind, HelmKind)
    kind.loops(ctx)
    assert kind._watch is not None
    return kind._watch


def controller(service: str, **fields: Any) -> ReleasedController:
    usual: dict[str, Any] = {"kind": "Deployment", "name": "web", "generation": 1, "wanted": 2, "ready": 2}
    return ReleasedController(**{**usual, "release": release_name(service), **fields})


async def released(world: World, service: str) -> None:
    """Deploys a service, and stores what its run would have sent."""
    assert await deployed(world, service) == ("SUCCEEDED", "")
    ctx = world.installation.ctx
    (run, *_) = await ctx.store.reads.deployments.latest(service, 1)
    plan = ReleasePlan(compare("", MANIFEST, "shop"), 0, [DeployedController("Deployment", "web", 1, 2)])
    await ctx.store.write(lambda tx: put_plan(ctx, tx, run, plan))


async def shown(world: World, service: str) -> tuple[str, str]:
    status = await world.get(f"/helm/{service}/status")
    return str(status["deployment_state"]), str(status["message"])


async def test_a_deployment_of_a_chart_that_crashes_later_is_shown_until_it_runs_again(
    world: World, releases: FakeReleases, watch: ReleaseWatch
):
    environment = await world.environment()
    service = await release_of(world, environment)
    await released(world, service)
    healthy = ReleaseState([controller(service)])
    crashing = ReleaseState([controller(service, ready=1, reason="the container web exited with 3")])
    other = ReleaseState([controller("9" * 36, ready=0, reason="it is of another service")])
    for state, expected, message in (
        (healthy, "DEPLOYED", ""),
        (
            crashing,
            "DEPLOYMENT_ERROR",
            "Deployment/web has 1 of 2 Pods ready: the container web exited with 3",
        ),
        (ReleaseState([*healthy.controllers, *other.controllers]), "DEPLOYED", ""),
    ):
        releases.put(environment, state)
        await watch.look()
        state_shown, told = await shown(world, service)
        assert (state_shown, told.endswith(message)) == (expected, True), told
    assert len(await world.events(Event.BROKE)) == len(await world.events(Event.RECOVERED)) == 1


async def test_changes_by_others_are_told_and_a_deployment_ends_that(
    world: World, releases: FakeReleases, watch: ReleaseWatch
):
    environment = await world.environment()
    service = await release_of(world, environment)
    await released(world, service)
    releases.put(environment, ReleaseState([controller(service, generation=2, wanted=5, ready=5)]))
    await watch.look()
    state, message = await shown(world, service)
    assert (state, message.endswith("Deployment/web was scaled from 2 to 5 Pods in the cluster")) == (
        "DEPLOYED",
        True,
    )
    await released(world, service)
    releases.put(environment, ReleaseState([controller(service)]))
    await watch.look()
    assert await shown(world, service) == ("DEPLOYED", "")


@pytest.mark.parametrize("has_pod", [True, False])
async def test_a_single_pod_is_looked_at_again_because_no_watch_tells_its_changes(
    world: World,
    releases: FakeReleases,
    watch: ReleaseWatch,
    monkeypatch: pytest.MonkeyPatch,
    has_pod: bool,
):
    monkeypatch.setattr(release_watch, "_FIRST_PAUSE", 0.0)
    environment = await world.environment()
    service = await release_of(world, environment)
    await released(world, service)
    pod = controller(service, kind="Pod", name="alone", wanted=1, ready=1)
    releases.put(environment, ReleaseState([controller(service), *([pod] if has_pod else [])]))
    await watch.look()
    assert await shown(world, service) == ("DEPLOYED", "")
    broken = replace(pod, ready=0, reason="the container main of the Pod alone exited with 3")
    releases.states[environment] = ReleaseState([controller(service), broken])  # without a notice
    await watch.look()
    assert ((await shown(world, service))[0] == "DEPLOYMENT_ERROR") is has_pod


async def test_a_failed_or_stopped_release_keeps_its_state(
    world: World, releases: FakeReleases, watch: ReleaseWatch
):
    environment = await world.environment()
    service = await release_of(world, environment)
    await released(world, service)
    await world.post(f"/helm/{service}/stop")
    await world.settle()
    releases.put(environment, ReleaseState([controller(service, ready=0, wanted=0)]))
    await watch.look()
    assert (await shown(world, service))[0] == "STOPPED"

    async def fail(workload: Workload) -> int:
        return 1

    world.engine.work = fail
    await deployed(world, service)
    before = await shown(world, service)
    releases.put(environment, ReleaseState([controller(service)]))
    await watch.look()
    assert await shown(world, service) == before
    assert before[0] == "DEPLOYMENT_ERROR"


async def test_a_cluster_that_does_not_answer_changes_nothing(
    world: World, releases: FakeReleases, watch: ReleaseWatch
):
    environment = await world.environment()
    service = await release_of(world, environment)
    await released(world, service)
    releases.put(environment, None)
    await watch.look()
    assert await shown(world, service) == ("DEPLOYED", "")


async def test_the_gateway_leads_to_the_pods_behind_the_services_of_a_chart(
    world: World, releases: FakeReleases, watch: ReleaseWatch
):
    environment = await world.environment()
    service = await release_of(world, environment, ports=PORTS)
    web = ReleasedRoute(
        name="web",
        release=release_name(service),
        labels={},
        ports={80: [ReleasedEndpoint("10.1.0.5", 8080)], 81: [ReleasedEndpoint("10.1.0.5", 8081)]},
    )
    admin = replace(
        web, name="admin-1", labels={"part": "admin"}, ports={80: [ReleasedEndpoint("10.1.0.6", 9000)]}
    )
    foreign = replace(admin, release="helm-z99999999", ports={80: [ReleasedEndpoint("10.1.0.7", 1)]})
    releases.put(environment, ReleaseState(routes=[web, admin, foreign]))
    await deployed(world, service)
    await watch.look()
    routes = {route.port: route for route in world.router.routes[service]}
    assert {port: route.endpoints for port, route in routes.items()} == {
        "p80": (Endpoint("10.1.0.5", 8080),),
        "admin": (Endpoint("10.1.0.6", 9000),),
    }
    assert {route.kind for route in routes.values()} == {"http"}
    links = (await world.get(f"/helm/{service}/link"))["results"]
    assert [link["url"].partition("://")[2].partition(":")[0] for link in links] == [
        routes["p80"].hosts[0],
        routes["admin"].hosts[0],
    ]
    shown_ports = (await world.get(f"/helm/{service}"))["ports"]
    assert [port["publicly_accessible"] for port in shown_ports] == [True, True, False]

    releases.put(environment, ReleaseState(routes=[replace(web, ports={80: []}), admin]))
    await watch.look()
    routes = {route.port: route for route in world.router.routes[service]}
    assert (routes["p80"].endpoints, routes["admin"].endpoints) == ((), (Endpoint("10.1.0.6", 9000),))


async def test_routes_stay_until_the_cluster_has_answered(
    world: World, releases: FakeReleases, watch: ReleaseWatch
):
    environment = await world.environment()
    service = await release_of(world, environment, ports=PORTS)
    releases.put(environment, None)
    await deployed(world, service)
    world.router.routes[service] = kept = ("as the gateway has them",)
    await watch.look()
    await world.settle()
    assert world.router.routes[service] == kept


SECRET = "s3cret-of-the-shop"
TOLD_AT = 1769850420000
POD = ReleasedPod(
    name="web-1", phase="Running", node="n1", ready=False, restarts=4, reason=f"exited {SECRET}", created=0
)
EVENT = ReleasedEvent(
    address="Pod/web-1", reason="Unhealthy", message=f"got {SECRET}", is_warning=True, count=3, at=TOLD_AT
)


async def test_the_pods_and_events_of_a_release_are_listed_without_secrets(
    world: World, releases: FakeReleases
):
    service = await release_of(world)
    await world.post(f"/helm/{service}/secret", {"key": "PASSWORD", "value": SECRET})
    assert (await world.get(f"/helm/{service}/pods"))["results"] == []  # it was never deployed
    assert await deployed(world, service) == ("SUCCEEDED", "")
    assert (await world.get(f"/helm/{service}/clusterEvents")).status == 503
    releases.found[release_name(service)] = ReleaseDetails([POD], [EVENT])
    (pod,) = (await world.get(f"/helm/{service}/pods"))["results"]
    (event,) = (await world.get(f"/helm/{service}/clusterEvents"))["results"]
    assert (pod["name"], pod["ready"], pod["restarts"], "created_at" in pod) == ("web-1", False, 4, False)
    assert (event["address"], event["warning"], event["count"]) == ("Pod/web-1", True, 3)
    assert event["last_at"] == "2026-01-31T09:07:00.000Z"
    assert SECRET not in pod["reason"] + event["message"]
    assert event["message"].startswith("got ")
