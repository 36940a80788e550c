"""Summaries of many services, environments or projects at once."""

from __future__ import annotations

from tests.world import World


async def test_each_project_and_environment_says_how_many_services_it_has(world: World):
    project = await world.project()
    full, empty = await world.environment(project), await world.environment(project)
    await world.application(full)
    await world.database(full)
    counts = (await world.get(f"/project/{project}/environment/stats"))["results"]
    assert {count["id"]: count["service_total_number"] for count in counts} == {full: 2, empty: 0}
    [stats] = (await world.get(f"/organization/{world.org}/project/stats"))["results"]
    assert stats == {"id": project, "service_total_number": 2, "environment_total_number": 2}


async def test_the_list_of_all_services_shows_each_service_as_its_own_endpoint_does(world: World):
    environment = await world.environment()
    app, database = await world.application(environment), await world.database(environment)
    for base in ("", "/compat"):
        listed = (await world.get(f"{base}/environment/{environment}/services"))["results"]
        each = [await world.get(f"{base}/{kind}") for kind in (f"database/{database}", f"application/{app}")]
        assert sorted(listed, key=lambda one: one["service_type"], reverse=True) == [one.json for one in each]


async def test_a_list_of_statuses_equals_the_individual_statuses(world: World):
    project = await world.project()
    environment = await world.environment(project)
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    for base in ("", "/compat"):
        [status] = (await world.get(f"{base}/environment/{environment}/application/status"))["results"]
        assert status == (await world.get(f"{base}/application/{app}/status")).json
        [whole] = (await world.get(f"{base}/project/{project}/environment/status"))["results"]
        assert whole == (await world.get(f"{base}/environment/{environment}/status")).json
        [overview] = (await world.get(f"{base}/project/{project}/environment/overview"))["results"]
        assert overview["deployment_status"] == whole
        assert overview["services_overview"]["service_count"] == 1
        assert overview["cluster"]["name"] == "local"


async def test_a_list_can_have_only_services_that_are_out_of_date(world: World):
    environment = await world.environment()
    changed, current, _new = [await world.application(environment) for _ in range(3)]
    for app in (changed, current):
        await world.post(f"/application/{app}/deploy")
    await world.settle()
    path = f"/environment/{environment}/application?toUpdate=true"
    assert (await world.get(path))["results"] == []
    await world.patch(f"/application/{changed}", {"cpu": 250})
    assert [app["id"] for app in (await world.get(path))["results"]] == [changed]
    assert len((await world.get(f"/compat{path.partition('?')[0]}"))["results"]) == 3


async def test_a_limited_token_sees_only_the_environments_of_its_part(world: World):
    project = await world.project()
    seen, hidden = await world.environment(project), await world.environment(project)
    token = await world.new_token("Read", limited_to=[seen])
    path = f"/organization/{world.org}/environments"
    everything, part = [
        {one["id"] for one in (await world.get(path, **options))["results"]}
        for options in ({}, {"token": token})
    ]
    assert (everything, part) == ({seen, hidden}, {seen})
    assert (await world.get(f"/project/{project}/environment/status", token=token)).status == 404
