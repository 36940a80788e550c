"""A preview of a clone says what is copied, and makes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.running.test_cloned_environments import Shop, services_of
from tests.world import World, make_world

HOURS = {"auto_stop": True, "timezone": "UTC", "weekdays": ["MONDAY"]}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


@pytest.fixture
async def shop(world: World) -> Shop:
    made = Shop(world)
    await made.make()
    return made


async def preview(world: World, path: str, **body: Any) -> Any:
    return await world.post(f"{path}/clonePreview", {"name": "staging", **body})


def lacking(answer: Any) -> set[tuple[str, str, str]]:
    return {(one["kind"], one["service_name"], one["name"]) for one in answer["not_cloned"]}


async def numbered(world: World) -> tuple[int, int]:
    events = await world.events()
    return len((await world.get(f"/organization/{world.org}/services"))["results"]), len(events)


async def test_a_preview_of_a_cloned_environment_lists_what_comes_along(world: World, shop: Shop):
    app = f"/application/{shop.web}"
    await world.patch(app, {"storage": [{"type": "FAST_SSD", "size": 1, "mount_point": "/data"}]})
    await world.made(f"{app}/deploymentRestriction", {"mode": "EXCLUDE", "type": "PATH", "value": "docs"})
    settings = (await world.get(f"{app}/advancedSettings")).json
    await world.put(f"{app}/advancedSettings", settings | {"build.timeout_max_sec": 60})
    await world.made(f"{app}/customDomain", {"domain": "shop.example.com", "generate_certificate": False})
    before = await numbered(world)
    answer = await preview(world, f"/environment/{shop.id}")
    assert answer.status == 200, answer
    assert await numbered(world) == before, "nothing is made, and nothing is in the audit"
    assert answer["name"] == "staging"
    assert len(answer["stages"]) == 3
    assert {(one["key"], one["is_secret"]) for one in answer["variables"]} == {
        ("COLOUR", False),
        ("PASSWORD", True),
    }
    services = {one["name"]: one for one in answer["services"]}
    assert services.keys() == {"web", "orders", "cache", "nightly"}
    web = services["web"]
    assert (web["id"], web["stage"]) == (shop.web, "default-applications")
    assert {(one["key"], one["variable_type"]) for one in web["variables"]} == {
        ("FARBE", "ALIAS"), ("COULEUR", "ALIAS"), ("DB_HOST", "ALIAS"), ("CITY", "OVERRIDE"),
    }  # fmt: skip
    assert (web["advanced_settings"], web["deployment_restrictions"]) == (["build.timeout_max_sec"], ["docs"])
    assert lacking(answer) >= {
        ("DATA", "web", "/data"), ("DATA", "orders", "orders"), ("DOMAIN", "web", "shop.example.com"),
    }  # fmt: skip
    assert not [one for one in answer["not_cloned"] if one["kind"] in {"VARIABLE", "SECRET"}]


async def test_the_clone_is_as_its_preview_says(world: World, shop: Shop):
    app = f"/application/{shop.web}"
    await world.made(f"{app}/deploymentRestriction", {"mode": "EXCLUDE", "type": "PATH", "value": "docs"})
    said = {one["name"]: one for one in (await preview(world, f"/environment/{shop.id}"))["services"]}
    copy = (await world.post(f"/environment/{shop.id}/clone", {"name": "staging"}))["id"]
    made = await services_of(world, copy)
    assert made.keys() == said.keys()
    path = f"/application/{made['web']['id']}"
    own = [
        one["key"]
        for kind in ("environmentVariable", "secret")
        for one in (await world.get(f"{path}/{kind}"))["results"]
        if one["scope"] == "APPLICATION"
    ]
    assert sorted(own) == sorted(one["key"] for one in said["web"]["variables"])
    restrictions = (await world.get(f"{path}/deploymentRestriction"))["results"]
    assert [one["value"] for one in restrictions] == said["web"]["deployment_restrictions"] == ["docs"]


async def test_a_preview_names_variables_that_the_copy_would_not_see(world: World, shop: Shop):
    other = await world.project()
    answer = await preview(world, f"/environment/{shop.id}", project_id=other)
    assert ("VARIABLE", "web", "CITY") in lacking(answer)
    web = next(one for one in answer["services"] if one["name"] == "web")
    assert "CITY" not in {one["key"] for one in web["variables"]}


async def test_a_preview_of_a_cloned_service_is_about_that_service(world: World, shop: Shop):
    elsewhere = await world.environment()
    answer = await preview(world, f"/application/{shop.web}", environment_id=elsewhere)
    [service] = answer["services"]
    assert (service["id"], service["name"]) == (shop.web, "staging")
    assert {name for kind, _, name in lacking(answer) if kind == "VARIABLE"} >= {"FARBE", "COULEUR", "CITY"}
    assert await services_of(world, elsewhere) == {}


async def test_a_preview_is_refused_where_the_clone_would_be(world: World, shop: Shop):
    name = (await world.get(f"/environment/{shop.id}"))["name"]
    for path, body in (
        (f"/environment/{shop.id}", {"name": name}),
        (f"/environment/{shop.id}", {"project_id": shop.web}),
        (f"/application/{shop.web}", {"environment_id": shop.web}),
    ):
        refused, clone = (
            await preview(world, path, **body),
            await world.post(f"{path}/clone", {"name": "a", **body}),
        )
        assert (refused.status, refused.message) == (clone.status, clone.message)
        assert refused.status in {400, 409}
    reader = await world.new_token("Read")
    answer = await world.post(f"/environment/{shop.id}/clonePreview", {"name": "a"}, token=reader)
    assert answer.status == 403


async def test_services_of_equal_names_are_each_in_the_preview(world: World):
    environment = await world.environment()
    await world.application(environment, name="shop")
    await world.database(environment, name="shop")
    answer = await preview(world, f"/environment/{environment}")
    assert sorted(one["service_type"] for one in answer["services"]) == ["APPLICATION", "DATABASE"]


@pytest.mark.parametrize("hours", [HOURS, None], ids=["running hours", "no running hours"])
async def test_a_preview_says_whether_running_hours_stay_behind(world: World, hours: Any):
    environment = await world.environment()
    if hours:
        path = f"/environment/{environment}/deploymentRule"
        rule = await world.get(path)
        changed = await world.put(f"{path}/{rule['id']}", hours)
        assert changed.status == 200, changed
    answer = await preview(world, f"/environment/{environment}")
    copy = (await world.post(f"/environment/{environment}/clone", {"name": "copy"}))["id"]
    kept = (await world.get(f"/environment/{copy}/deploymentRule"))["auto_stop"]
    told = "RUNNING_HOURS" in {one["kind"] for one in answer["not_cloned"]}
    assert told == (bool(hours) and not kept)
