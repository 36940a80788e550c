"""Resources found by path of names, and the list of all services."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.world import World
from windlass.families import registry


@pytest.fixture
async def shop(world: World) -> dict[str, str]:
    """An application `web` in each of shop/production, shop/staging and blog/production."""
    ids: dict[str, str] = {}
    for project in ("Shop", "blog"):
        ids[project] = await world.project(name=project)
        for name in ("production", "staging") if project == "Shop" else ("production",):
            where = f"{project}/{name}"
            ids[where] = await world.environment(ids[project], name=name)
            ids[f"{where}/web"] = await world.application(ids[where], name="web")
    return ids


async def find(world: World, path: str, family: str = "application", **more: Any) -> Any:
    query = "".join(f"&{name}={value}" for name, value in more.pop("query", {}).items())
    return await world.get(f"/resource?family={family}&path={quote(path)}{query}", **more)


async def ids(world: World, path: str, family: str = "application", **more: Any) -> list[str]:
    answer = await find(world, path, family, **more)
    assert answer.status == 200, answer
    return [one["id"] for one in answer["results"]]


# By name


async def test_a_full_path_of_names_finds_exactly_one_resource(world, shop):
    [found] = (await find(world, "shop/PRODUCTION/Web"))["results"]
    assert found == {
        "id": shop["Shop/production/web"],
        "family": "application",
        "name": "web",
        "path": "Shop/production/web",
        "organization_id": world.org,
    }


@pytest.mark.parametrize(
    ("path", "matching"),
    [
        ("web", ["Shop/production/web", "Shop/staging/web", "blog/production/web"]),
        ("production/web", ["Shop/production/web", "blog/production/web"]),
        ("shop//web", ["Shop/production/web", "Shop/staging/web"]),
        ("blog//", ["blog/production/web"]),
        ("default/shop/staging/web", ["Shop/staging/web"]),
        ("", ["Shop/production/web", "Shop/staging/web", "blog/production/web"]),
    ],
)
async def test_a_missing_or_empty_part_of_a_path_matches_anything(world, shop, path, matching):
    assert sorted(await ids(world, path)) == sorted(shop[one] for one in matching)


async def test_an_id_may_replace_any_name_in_a_path(world, shop):
    web = shop["Shop/staging/web"]
    for path in (web, f"{shop['Shop/staging']}/web", f"{shop['Shop']}/staging/web", f"{world.org}///{web}"):
        assert await ids(world, path) == [web], path


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("nothing/production/web", "There is no project 'nothing' here"),
        ("shop/nothing/web", "There is no environment 'nothing' here"),
        ("shop/production/nothing", "There is no application 'nothing' here"),
        ("nobody/shop/production/web", "There is no organization 'nobody' here"),
    ],
)
async def test_the_first_part_of_a_path_that_does_not_exist_is_reported(world, shop, path, missing):
    answer = await find(world, path)
    assert (answer.status, answer.message) == (404, missing)


async def test_an_unknown_family_or_overlong_path_is_refused_by_parameter_name(world, shop):
    assert (await find(world, "web", "deployment")).message.startswith("family: must be one of ")
    assert (await find(world, "a/b/c/d/e")).message.startswith(
        "path: must have 4 parts at most: organization/"
    )
    assert (await find(world, "KEY", "secret")).message.startswith("below: must be one of application, ")


async def test_an_inherited_variable_is_found_below_a_service(world, shop):
    made = await world.made(f"/project/{shop['Shop']}/environmentVariable", {"key": "COLOUR", "value": "red"})
    below = {"query": {"below": "application"}}
    assert await ids(world, "shop/production/web/COLOUR", "environmentVariable", **below) == [made]
    assert (await find(world, "blog/production/web/COLOUR", "environmentVariable", **below)).status == 404


@pytest.mark.parametrize(
    "family", [one for one in registry().families.values() if "list" in one.verbs and one.names], ids=repr
)
async def test_every_family_with_names_and_a_list_can_be_looked_up(world, family):
    below = next((one.name for one in registry().parents(family) if one), "")
    answer = await find(world, "", family.name, query={"below": below})
    assert answer.status == 200, answer


# For whom


async def test_resources_of_another_organization_are_found_neither_by_name_nor_by_id(world, shop):
    other, token = await world.organization()
    web, home = shop["Shop/production/web"], world.org
    for path in (
        "web",
        "shop/production/web",
        web,
        f"{home}/shop/production/web",
        "default/shop/production/web",
    ):
        answer = await find(world, path, token=token)
        unknown = await find(world, path.replace(web, other).replace(home, web), token=token)
        assert answer.status == unknown.status == 404, path
    assert await ids(world, "", token=token) == []


async def test_a_limited_token_finds_its_resources_but_not_by_names_of_their_parents(world, shop):
    web = shop["Shop/production/web"]
    token = await world.new_token("Admin", limited_to=[web])
    [found] = (await find(world, "web", token=token))["results"]
    assert (found["id"], found["path"]) == (web, "web")
    for path in ("shop//web", "production/web", f"{shop['Shop/production']}/web", shop["Shop/staging/web"]):
        assert (await find(world, path, token=token)).status == 404, path
    assert (await find(world, "shop", "project", token=token)).status == 404


async def test_a_token_limited_to_an_environment_uses_the_name_of_that_environment(world, shop):
    token = await world.new_token("Admin", limited_to=[shop["Shop/production"]])
    [found] = (await find(world, "production/web", token=token))["results"]
    assert found["path"] == "production/web"
    assert (await find(world, "shop/production/web", token=token)).status == 404


# All services


async def services(world: World, query: str = "", **options: Any) -> dict[str, Any]:
    answer = await world.get(f"/organization/{world.org}/services{query}", **options)
    assert answer.status == 200, answer
    return {one["id"]: one for one in answer["results"]}


async def test_the_list_of_all_services_shows_the_same_state_and_address_as_each_service(world, shop):
    ports = [{"internal_port": 8080, "publicly_accessible": True}]
    app = await world.application(shop["blog/production"], name="public", ports=ports)
    db = await world.database(shop["blog/production"])
    for path in (f"/application/{app}", f"/database/{db}"):
        await world.post(f"{path}/deploy")
    await world.settle()
    found = await services(world)
    assert len(found) == 5
    for id, one in found.items():
        path = f"/{one['service_type'].lower()}/{id}"
        status, links = await world.get(f"{path}/status"), (await world.get(f"{path}/link"))["results"]
        assert one["state"] == status["state"]
        assert one["url"] == (links[0]["url"] if links else "")
    assert found[app]["url"].startswith("http://public-production.")
    assert (found[app]["project_name"], found[app]["environment_name"]) == ("blog", "production")


async def test_the_list_of_services_is_narrowed_to_a_project_an_environment_or_a_cluster(world, shop):
    [cluster] = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    assert set(await services(world, f"?project_id={shop['blog']}")) == {shop["blog/production/web"]}
    assert set(await services(world, f"?environment_id={shop['Shop/staging']}")) == {shop["Shop/staging/web"]}
    assert len(await services(world, f"?cluster_id={cluster['id']}")) == 3
    assert await services(world, f"?cluster_id={world.org}") == {}


async def test_a_limited_token_lists_the_services_that_it_may_see(world, shop):
    for given, seen in (("Shop", 2), ("Shop/staging", 1), ("Shop/staging/web", 1), ("blog", 1)):
        token = await world.new_token("Admin", limited_to=[shop[given]])
        assert len(await services(world, token=token)) == seen, given


async def test_services_of_another_organization_are_hidden(world, shop):
    other, token = await world.organization()
    assert (await world.get(f"/organization/{world.org}/services", token=token)).status == 404
    foreign = await world.get(f"/organization/{other}/services?project_id={shop['Shop']}", token=token)
    assert foreign["results"] == []


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("shop/production/wbe", "; did you mean web?"),
        ("shop/prodution/web", "; did you mean production?"),
        ("shp/production/web", "; did you mean Shop?"),
        ("shop/production/entirely-else", ""),
    ],
)
async def test_a_misspelled_name_is_answered_with_the_nearest_name(world, shop, path, meant):
    answer = await world.get(f"/resource?family=application&path={path}")
    assert answer.status == 404
    assert answer.message.partition(" here")[2] == meant


async def test_no_name_is_suggested_to_a_token_that_may_not_see_it(world, shop):
    token = await world.new_token("Read", limited_to=[shop["Shop/staging"]])
    for name, meant in (("stagin", "; did you mean staging?"), ("productio", "")):
        answer = await world.get(f"/resource?family=environment&path={name}", token=token)
        assert answer.message.partition(" here")[2] == meant


@pytest.mark.parametrize(("length", "meant"), [(40, 1), (41, 0), (42, 0)])
async def test_only_short_names_are_compared_for_suggestions(world, length, meant):
    """Comparing 200 names of 255 characters would keep the server from answering others for a second."""
    name = "ab" * 100
    await world.project(name=name[:length])
    answer = await world.get(f"/resource?family=project&path={name[: length - 1]}")
    assert answer.message.count("did you mean") == meant


async def test_a_misspelled_family_is_answered_with_the_nearest_family(world):
    answer = await world.get("/resource?family=aplication&path=web")
    assert (answer.status, answer.message.partition(";")[2]) == (400, " did you mean application?")
