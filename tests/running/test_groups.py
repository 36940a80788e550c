"""Groups of labels and annotations: services refer to them and show them in full."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.tables import rows
from tests.world import World

LABELS = {"name": "team", "labels": [{"key": "team", "value": "checkout"}]}
ANNOTATIONS = {
    "name": "runbook",
    "annotations": [{"key": "example.com/runbook", "value": "https://wiki.example.com/checkout"}],
    "scopes": ["PODS"],
}


@pytest.fixture
async def labels(world: World) -> str:
    return await world.made(f"/organization/{world.org}/labelsGroups", LABELS)


@rows(("family", "body"), [("labelsGroups", LABELS), ("annotationsGroups", ANNOTATIONS)])
async def test_a_group_is_created_listed_replaced_and_deleted(
    world: World, family: str, body: dict[str, Any]
):
    path = f"/organization/{world.org}/{family}"
    group = await world.made(path, body)
    shown = await world.get(f"{path}/{group}")
    assert (shown["name"], shown["associated_items_count"]) == (body["name"], 0)
    assert [each["id"] for each in (await world.get(path))["results"]] == [group]
    assert (await world.get(f"{path}/{group}/associatedItems"))["results"] == []
    assert (await world.put(f"{path}/{group}", {**body, "name": "another"}))["name"] == "another"
    assert (await world.delete(f"{path}/{group}")).status == 204
    assert (await world.get(f"{path}/{group}")).status == 404


async def test_a_service_shows_its_groups_in_full(world: World, labels: str):
    annotations = await world.made(f"/organization/{world.org}/annotationsGroups", ANNOTATIONS)
    app = await world.application(labels_groups=[{"id": labels}], annotations_groups=[{"id": annotations}])
    shown = await world.get(f"/application/{app}")
    [group] = shown["labels_groups"]
    own_fields = {"key": "team", "value": "checkout", "propagate_to_cloud_provider": False}
    assert (group["id"], group["name"], group["labels"]) == (labels, "team", [own_fields])
    [group] = shown["annotations_groups"]
    assert (group["id"], group["scopes"]) == (annotations, ["PODS"])
    assert group["annotations"] == ANNOTATIONS["annotations"]


@rows("family", ["application", "container", "database", "job"])
async def test_each_kind_of_service_can_use_a_group(world: World, labels: str, family: str):
    bodies: dict[str, dict[str, Any]] = {
        "application": {"git_repository": {"url": "https://github.com/acme/shop.git"}},
        "container": {"image_name": "acme/cache", "tag": "1.0"},
        "database": {"type": "POSTGRESQL", "version": "15", "mode": "CONTAINER"},
        "job": {
            "source": {"image": {"image_name": "acme/cache", "tag": "1.0"}},
            "schedule": {"cronjob": {"scheduled_at": "0 3 * * *", "arguments": ["true"]}},
        },
    }
    body = {"name": "one", "labels_groups": [{"id": labels}], **bodies[family]}
    service = await world.made(f"/environment/{await world.environment()}/{family}", body)
    items = (await world.get(f"/organization/{world.org}/labelsGroups/{labels}/associatedItems"))["results"]
    [item] = [item for item in items if item["item_id"] == service]
    types = {"job": "CRON"}
    assert item["item_name"] == "one"
    assert item["item_type"] == types.get(family, family.upper())
    assert item["cluster_id"]


async def test_a_group_counts_the_services_that_use_it(world: World, labels: str):
    path = f"/organization/{world.org}/labelsGroups/{labels}"
    app = await world.application(labels_groups=[{"id": labels}])
    assert (await world.get(path))["associated_items_count"] == 1
    await world.patch(f"/application/{app}", {"description": "it keeps its groups"})
    assert (await world.get(path))["associated_items_count"] == 1
    assert (await world.patch(f"/application/{app}", {"labels_groups": []})).status == 200
    assert (await world.get(path))["associated_items_count"] == 0
    assert (await world.get(f"{path}/associatedItems"))["results"] == []


async def test_services_show_a_changed_group(world: World, labels: str):
    app = await world.application(labels_groups=[{"id": labels}])
    other = await world.made(f"/organization/{world.org}/labelsGroups", {**LABELS, "name": "other"})
    await world.patch(f"/application/{app}", {"labels_groups": [{"id": other}, {"id": labels}]})
    changed = {"name": "team", "labels": [{"key": "team", "value": "orders"}]}
    assert (await world.put(f"/organization/{world.org}/labelsGroups/{labels}", changed)).status == 200
    shown = (await world.get(f"/application/{app}"))["labels_groups"]
    assert [group["id"] for group in shown] == [other, labels]
    assert [group["labels"][0]["value"] for group in shown] == ["checkout", "orders"]


async def test_a_group_in_use_is_not_deleted(world: World, labels: str):
    path = f"/organization/{world.org}/labelsGroups/{labels}"
    app = await world.application(name="web", labels_groups=[{"id": labels}])
    refused = await world.delete(path)
    assert refused.status == 409
    assert refused.message.startswith("Remove it from the services that use it first: 1 use it (web)")
    await world.delete(f"/application/{app}")
    assert (await world.delete(path)).status == 204


async def test_a_group_must_be_one_of_the_organization(world: World, labels: str):
    _, foreign = await world.organization()
    app = await world.application()
    unknown = await world.patch(f"/application/{app}", {"labels_groups": [{"id": str(uuid.uuid4())}]})
    assert unknown.status == 400
    assert unknown.message.startswith("labels_groups[].id: no labelsGroup of this organization has this id")
    path = f"/organization/{world.org}/labelsGroups/{labels}"
    assert (await world.get(path, token=foreign)).status == 404


async def test_an_engine_gets_the_labels_of_the_groups_of_a_service(world: World, labels: str):
    more = {"name": "more", "labels": [{"key": "team", "value": "orders"}, {"key": "tier", "value": "web"}]}
    later = await world.made(f"/organization/{world.org}/labelsGroups", more)
    app = await world.application(labels_groups=[{"id": labels}, {"id": later}])
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    assert world.engine.running[app].labels == {"team": "orders", "tier": "web"}


@rows(
    ("labels", "problem"),
    [
        ([{"key": "team", "value": "a"}, {"key": "team", "value": "b"}], "labels[1].key: is there twice"),
        ([{"key": "-team", "value": "a"}], "labels[0].key: must be a key of a label"),
        ([{"key": "team", "value": "two words"}], "labels[0].value: must begin and end with"),
        ([], "labels: "),
    ],
)
async def test_a_label_that_no_engine_could_take_is_refused(
    world: World, labels: list[dict[str, str]], problem: str
):
    answer = await world.post(f"/organization/{world.org}/labelsGroups", {"name": "team", "labels": labels})
    assert answer.status == 400
    assert answer.message.startswith(problem)
