"""Operations of Helm services and repositories that no other test is about."""

from __future__ import annotations

from tests.helm_services.conftest import SOURCE, deployed, release_of, repository_of
from tests.world import World
from windlass.helm.manifests import compare
from windlass.helm.plans import ReleasePlan, put_plan

SERVICE = "kind: Service\nmetadata: {name: web}\nspec: {ports: [{name: http, port: 80}]}\n"


async def test_the_services_of_an_environment_are_listed_with_their_statuses(world: World):
    environment = await world.environment()
    first, second = await release_of(world, environment), await release_of(world, environment)
    listed = (await world.get(f"/environment/{environment}/helm"))["results"]
    assert [service["id"] for service in listed] == [first, second]
    await deployed(world, first)
    statuses = (await world.get(f"/environment/{environment}/helm/status"))["results"]
    assert {status["id"]: status["deployment_state"] for status in statuses} == {
        first: "DEPLOYED",
        second: "READY",
    }


async def test_a_put_replaces_the_settings_of_a_service(world: World):
    service = await release_of(world, description="old", arguments=["--wait"])
    answer = await world.call("PUT", f"/helm/{service}", {"name": "shop", "source": SOURCE})
    assert answer.status == 200, answer
    shown = await world.get(f"/helm/{service}")
    assert (shown["name"], shown["description"], shown["arguments"]) == ("shop", "", [])


async def test_the_commits_of_a_chart_in_git_are_listed(world: World):
    service = await release_of(world)
    listed = (await world.get(f"/helm/{service}/commit"))["results"]
    assert listed[0]["git_commit_id"] == world.git.newest


async def test_an_uninstalled_release_is_deployed_again_by_a_redeploy(world: World):
    service = await release_of(world)
    await deployed(world, service)
    assert (await world.post(f"/helm/{service}/uninstall", {})).status == 202
    await world.settle()
    assert world.engine.applied[-1].variables["WINDLASS_HELM"].count('"remove release"') == 1
    assert (await world.post(f"/helm/{service}/redeploy")).status == 202
    await world.settle()
    assert (await world.get(f"/helm/{service}/status"))["deployment_state"] == "DEPLOYED"


async def test_the_services_of_a_release_are_those_of_its_last_plan(world: World):
    service = await release_of(world)
    assert (await world.get(f"/helm/{service}/listServices"))["results"] == []
    await deployed(world, service)
    ctx = world.installation.ctx
    (run, *_) = await ctx.store.reads.deployments.latest(service, 1)
    plan = ReleasePlan(compare("", SERVICE, "shop"), 0)
    await ctx.store.write(lambda tx: put_plan(ctx, tx, run, plan))
    (shown,) = (await world.get(f"/helm/{service}/listServices"))["results"]
    assert (shown["metadata"]["name"], shown["service_spec"]["ports"][0]["port"]) == ("web", 80)
    await world.post(f"/helm/{service}/uninstall", {})
    await world.settle()
    assert (await world.get(f"/helm/{service}/listServices"))["results"] == []


async def test_kinds_of_repositories_name_their_fields(world: World):
    kinds = (await world.get("/availableHelmRepository"))["results"]
    assert {"HTTPS", "OCI_ECR"} <= {kind["kind"] for kind in kinds}


async def test_repositories_are_listed_replaced_and_deleted(world: World):
    repository = await repository_of(world)
    at = f"/organization/{world.org}/helmRepository"
    assert [row["id"] for row in (await world.get(at))["results"]] == [repository]
    body = {"name": "renamed", "kind": "HTTPS", "url": "https://charts.example.com", "config": {}}
    assert (await world.call("PUT", f"{at}/{repository}", body))["name"] == "renamed"
    assert (await world.delete(f"{at}/{repository}")).status == 204
    assert (await world.get(at))["results"] == []


async def test_a_custom_domain_of_a_chart_leads_to_its_default_port(world: World):
    service = await release_of(
        world, ports=[{"internal_port": 80, "service_name": "web", "is_default": True}]
    )
    await deployed(world, service)
    made = await world.post(
        f"/helm/{service}/customDomain", {"domain": "shop.example.com", "generate_certificate": False}
    )
    assert made.status == 201, made
    listed = (await world.get(f"/helm/{service}/customDomain"))["results"]
    assert [row["domain"] for row in listed] == ["shop.example.com"]
    assert (await world.get(f"/helm/{service}/customDomain/{made['id']}"))["state"] == "UNPROVED"
    [checked] = (await world.get(f"/helm/{service}/checkCustomDomain"))["results"]
    assert checked["domain_name"] == "shop.example.com"
    changed = await world.call(
        "PUT",
        f"/helm/{service}/customDomain/{made['id']}",
        {"domain": "new.example.com", "generate_certificate": False},
    )
    assert (changed.status, changed["domain"]) == (200, "new.example.com")
    assert (await world.delete(f"/helm/{service}/customDomain/{made['id']}")).status == 204
