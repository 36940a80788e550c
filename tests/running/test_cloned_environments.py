"""Copies of whole environments: all services with their variables, and nothing that runs."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import REPOSITORY, World, make_world
from windlass.base.errors import Conflict
from windlass.control.variables.copying import VariableCopies

DATABASE = {"name": "orders", "type": "POSTGRESQL", "version": "15", "mode": "CONTAINER"}
WEB = {"name": "web", "git_repository": {"url": REPOSITORY}, "ports": [{"internal_port": 80}]}
CACHE = {"name": "cache", "image_name": "acme/cache", "tag": "1.0"}
NIGHTLY = {
    "name": "nightly",
    "source": {"image": {"image_name": "acme/cache", "tag": "1.0"}},
    "schedule": {"cronjob": {"scheduled_at": "0 3 * * *", "arguments": ["true"]}},
}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


class Shop:
    """An environment with a service of each kind, and with variables that refer to each other."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def make(self) -> None:
        made = self.world.made
        self.project = await self.world.project()
        self.id = await self.world.environment(self.project)
        self.web = await made(f"/environment/{self.id}/application", WEB)
        self.database = await made(f"/environment/{self.id}/database", DATABASE)
        await made(f"/environment/{self.id}/container", CACHE)
        await made(f"/environment/{self.id}/job", NIGHTLY)
        above = await made(f"/project/{self.project}/environmentVariable", {"key": "CITY", "value": "Bergen"})
        colour = {"key": "COLOUR", "value": "red"}
        here = await made(f"/environment/{self.id}/environmentVariable", colour)
        await made(f"/environment/{self.id}/secret", {"key": "PASSWORD", "value": "canary"})
        own = f"/application/{self.web}/environmentVariable"
        farbe = await made(f"{own}/{here}/alias", {"key": "FARBE"})
        await made(f"{own}/{farbe}/alias", {"key": "COULEUR"})
        await made(f"{own}/{above}/override", {"value": "Oslo"})
        host = await self.built_in(self.id, "HOST_INTERNAL", self.database)
        await made(f"{own}/{host['id']}/alias", {"key": "DB_HOST"})

    async def built_in(self, environment: str, word: str, service: str) -> dict[str, Any]:
        listed = (await self.world.get(f"/compat/environment/{environment}/environmentVariable"))["results"]
        return next(
            one for one in listed if one["key"].endswith(f"Z{service[:8].upper()}_{word}")
        )  # fmt: skip


@pytest.fixture
async def shop(world: World) -> Shop:
    made = Shop(world)
    await made.make()
    return made


async def variables_of(world: World, application: str) -> dict[str, dict[str, Any]]:
    listed = await world.get(f"/compat/application/{application}/environmentVariable")
    nearest_last = reversed(listed["results"])
    return {one["key"]: one for one in nearest_last if one["variable_type"] != "BUILT_IN"}


async def services_of(world: World, environment: str) -> dict[str, dict[str, Any]]:
    listed = (await world.get(f"/environment/{environment}/services"))["results"]
    return {one["name"]: one for one in listed}


async def test_an_environment_is_copied_with_all_its_services_and_settings(world: World, shop: Shop):
    answer = await world.post(f"/environment/{shop.id}/clone", {"name": "staging"})
    assert (answer.status, answer["name"], answer["project"]["id"]) == (202, "staging", shop.project)
    original = (await world.get(f"/environment/{shop.id}")).json
    assert {answer[name] == original[name] for name in ("mode", "cluster_id", "cluster_name")} == {True}
    before, after = await services_of(world, shop.id), await services_of(world, answer["id"])
    assert before.keys() == after.keys() == {"web", "orders", "cache", "nightly"}
    assert {one["id"] for one in before.values()}.isdisjoint(one["id"] for one in after.values())
    assert after["web"]["ports"][0]["id"] != before["web"]["ports"][0]["id"]
    assert after["nightly"]["schedule"] == before["nightly"]["schedule"]
    status = await world.get(f"/environment/{answer['id']}/status")
    assert (status["deployment_state"], status["deployment_status"]) == ("READY", "NEVER_DEPLOYED")


async def test_a_cloned_environment_keeps_labels_and_annotations_groups(world: World, shop: Shop):
    above = f"/organization/{world.org}"
    labels = await world.made(f"{above}/labelsGroups", {"name": "l", "labels": [{"key": "k", "value": "v"}]})
    note = {"annotations": [{"key": "k", "value": "v"}], "scopes": []}
    notes = [await world.made(f"{above}/annotationsGroups", {"name": name, **note}) for name in ("a", "b")]
    groups = {"labels_groups": [{"id": labels}], "annotations_groups": [{"id": id} for id in notes]}
    tried = 0
    for one in (await services_of(world, shop.id)).values():
        path = f"/{one['service_type'].lower()}/{one['id']}"
        if "labels_groups" in (await world.get(path)).json:
            assert (await world.patch(path, groups)).status == 200
            tried += 1
    copy = await world.post(f"/environment/{shop.id}/clone", {"name": "staging"})
    assert copy.status == 202, copy
    copied = [one for one in (await services_of(world, copy["id"])).values() if one.get("labels_groups")]
    assert tried >= 3
    shown = [{name: [{"id": group["id"]} for group in one[name]] for name in groups} for one in copied]
    assert shown == [groups] * tried
    assert (await world.get(f"{above}/labelsGroups/{labels}"))["associated_items_count"] == 2 * tried


async def test_variables_of_a_copy_refer_to_the_copies(world: World, shop: Shop):
    copy = (await world.post(f"/environment/{shop.id}/clone", {"name": "staging"}))["id"]
    services = await services_of(world, copy)
    web = services["web"]["id"]
    before, after = await variables_of(world, shop.web), await variables_of(world, web)
    assert before.keys() == after.keys() == {"CITY", "COLOUR", "FARBE", "COULEUR", "DB_HOST"}
    assert {key for key in after if after[key]["id"] == before[key]["id"]} == set()
    assert after["FARBE"]["aliased_variable"]["id"] == after["COLOUR"]["id"]
    assert after["COULEUR"]["aliased_variable"]["id"] == after["FARBE"]["id"]
    assert after["CITY"]["overridden_variable"]["id"] == before["CITY"]["overridden_variable"]["id"]
    host = await shop.built_in(copy, "HOST_INTERNAL", services["orders"]["id"])
    assert after["DB_HOST"]["aliased_variable"]["id"] == host["id"]
    path = f"/environment/{copy}/environmentVariable/{after['COLOUR']['id']}"
    await world.patch(path, {"value": "blue"})
    listed = await world.get(f"/application/{web}/environmentVariable")
    values = {one["key"]: one["value"] for one in listed["results"] if one["scope"] == "APPLICATION"}
    assert (values["FARBE"], values["COULEUR"]) == ("blue", "blue")
    assert (await variables_of(world, shop.web))["COLOUR"]["value"] == "red"


async def test_a_deployed_clone_has_copied_variables_and_the_built_in_variables_of_its_environment(
    world: World, shop: Shop
):
    copy = (await world.post(f"/environment/{shop.id}/clone", {"name": "staging"}))["id"]
    web = (await services_of(world, copy))["web"]["id"]
    await world.post(f"/environment/{copy}/deploy")
    await world.settle()
    found = world.engine.running[web].variables
    assert (found["FARBE"], found["PASSWORD"], found["CITY"]) == ("red", "canary", "Oslo")
    assert found["QOVERY_ENVIRONMENT_ID"] == copy
    assert shop.web not in world.engine.running


async def test_an_environment_may_be_cloned_into_another_project_and_mode(world: World, shop: Shop):
    other = await world.project()
    body = {"name": "live", "project_id": other, "mode": "PRODUCTION"}
    answer = await world.post(f"/environment/{shop.id}/clone", body)
    assert (answer.status, answer["project"]["id"], answer["mode"]) == (202, other, "PRODUCTION")
    web = (await services_of(world, answer["id"]))["web"]["id"]
    keys = (await variables_of(world, web)).keys()
    assert keys == {"COLOUR", "FARBE", "COULEUR", "DB_HOST"}, "the project's variable is not there"


async def test_cloning_with_a_taken_name_or_unknown_ids_is_refused(world: World, shop: Shop):
    name = (await world.get(f"/environment/{shop.id}"))["name"]
    for body, status, field in (
        ({"name": name}, 409, "name"),
        ({"name": "a", "project_id": shop.web}, 400, "project_id"),
        ({"name": "a", "cluster_id": str(uuid.uuid4())}, 400, "cluster_id"),
        ({"name": "a", "mode": "PREVIEW"}, 400, "mode"),
        ({}, 400, "name"),
    ):
        refused = await world.post(f"/environment/{shop.id}/clone", body)
        assert (refused.status, refused.message.partition(":")[0]) == (status, field), refused
    environments = (await world.get(f"/project/{shop.project}/environment"))["results"]
    assert len(environments) == 1


async def test_a_clone_that_fails_at_the_end_creates_nothing(world: World, shop: Shop, monkeypatch):
    async def fail(self: VariableCopies) -> None:
        raise Conflict("not now")

    with monkeypatch.context() as patched:
        patched.setattr(VariableCopies, "make", fail)
        refused = await world.post(f"/environment/{shop.id}/clone", {"name": "staging"})
    assert refused.status == 409
    services = (await world.get(f"/organization/{world.org}/services"))["results"]
    assert (len(services), {one["environment_id"] for one in services}) == (4, {shop.id})
    assert (await world.post(f"/environment/{shop.id}/clone", {"name": "staging"})).status == 202, (
        "the control"
    )


async def test_a_copy_needs_the_right_to_write_in_the_project(world: World, shop: Shop):
    inside = await world.new_token("Write", limited_to=[shop.id])
    refused = await world.post(f"/environment/{shop.id}/clone", {"name": "staging"}, token=inside)
    assert (refused.status, refused.message.partition(":")[0]) == (403, "project_id")
    other = await world.project()
    project = await world.new_token("Write", limited_to=[shop.project])
    body = {"name": "staging", "project_id": other}
    refused = await world.post(f"/environment/{shop.id}/clone", body, token=project)
    assert (refused.status, refused.message.partition(":")[0]) == (400, "project_id")
    answer = await world.post(f"/environment/{shop.id}/clone", {"name": "staging"}, token=project)
    assert answer.status == 202
    reader = await world.new_token("Read")
    assert (await world.post(f"/environment/{shop.id}/clone", {"name": "b"}, token=reader)).status == 403


async def test_a_copied_service_keeps_an_alias_of_a_neighbours_built_in_variable(world: World, shop: Shop):
    body = {"name": "web-2", "environment_id": shop.id}
    copy = await world.post(f"/application/{shop.web}/clone", body)
    assert copy.status == 202
    before, after = await variables_of(world, shop.web), await variables_of(world, copy["id"])
    assert after["DB_HOST"]["aliased_variable"] == before["DB_HOST"]["aliased_variable"]


async def test_an_environment_that_is_being_deleted_is_not_copied(world: World, shop: Shop):
    await world.post(f"/environment/{shop.id}/deploy")
    await world.settle()
    await world.delete(f"/environment/{shop.id}")
    refused = await world.post(f"/environment/{shop.id}/clone", {"name": "staging"})
    assert (refused.status, "is being deleted" in refused.message) == (409, True)
