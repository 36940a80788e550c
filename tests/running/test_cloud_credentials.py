"""Cloud credentials: kept encrypted for the clusters that name them, and never answered."""

from __future__ import annotations

from typing import Any

from tests.running.clusters import cluster, connector
from tests.tables import rows
from tests.world import World

SECRET = "canary-4be1c0a9"
AWS = {"name": "account", "type": "", "access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": SECRET}
SCALEWAY = {
    "name": "account", "scaleway_access_key": "SCWX", "scaleway_secret_key": SECRET,
    "scaleway_project_id": "p", "scaleway_organization_id": "o",
}  # fmt: skip
GCP = {"name": "project", "gcp_credentials": SECRET}
AZURE = {"name": "subscription", "azure_subscription_id": "s", "azure_tenant_id": "t"}


@rows(
    ("provider", "body", "object_type"),
    [
        ("aws", AWS, "AWS"),
        ("scaleway", SCALEWAY, "SCW"),
        ("gcp", GCP, "GCP"),
        ("azure", AZURE, "AZURE"),
        ("onPremise", {"name": "cellar"}, "OTHER"),
    ],
)
async def test_credentials_have_the_type_of_their_provider_and_secrets_are_never_answered(
    world: World, provider: str, body: dict[str, Any], object_type: str
):
    path = f"/organization/{world.org}/{provider}/credentials"
    made = await world.post(path, body)
    assert (made.status, made["object_type"]) == (201, object_type)
    one = f"{path}/{made['id']}"
    replaced = await world.put(one, {**body, "name": "other"})
    assert (replaced.status, replaced["name"]) == (200, "other")
    for answer in (made, replaced, await world.get(one), await world.get(path)):
        assert SECRET not in str(answer)
        assert object_type in str(answer)
    assert (await world.delete(one)).status == 204
    assert (await world.get(path))["results"] == []


@rows(
    ("provider", "body", "field"),
    [
        ("aws", {**AWS, "access_key_id": ""}, "access_key_id"),
        ("scaleway", {**SCALEWAY, "scaleway_secret_key": ""}, "scaleway_secret_key"),
        ("gcp", {**GCP, "gcp_credentials": ""}, "gcp_credentials"),
    ],
)
async def test_missing_fields_are_refused_by_name(
    world: World, provider: str, body: dict[str, Any], field: str
):
    answer = await world.post(f"/organization/{world.org}/{provider}/credentials", body)
    assert (answer.status, answer.message.partition(":")[0]) == (400, field)


async def test_a_change_without_the_secret_keeps_it(world: World):
    path = f"/organization/{world.org}/aws/credentials"
    made = await world.post(path, AWS)
    changed = await world.put(f"{path}/{made['id']}", {"name": "other", "access_key_id": "AKIA2"})
    assert (changed.status, changed["object_type"]) == (200, "AWS")


async def test_credentials_that_a_cluster_names_are_shown_with_it_and_cannot_be_deleted(world: World):
    path, east = f"/organization/{world.org}/aws/credentials", await cluster(world)
    made = await world.post(path, AWS)
    info = f"/organization/{world.org}/cluster/{east}/cloudProviderInfo"
    wanted = {"cloud_provider": "AWS", "region": "eu-west-3", "credentials": {"id": made["id"], "name": "?"}}
    answer = await world.post(info, wanted)
    assert answer.status == 201
    assert answer.json == (await world.get(info)).json
    assert (answer["credentials"], answer["region"]) == ({"id": made["id"], "name": "account"}, "eu-west-3")
    (only,) = (await world.get(f"/organization/{world.org}/credentials"))["results"]
    assert (only["credential"]["id"], [one["id"] for one in only["clusters"]]) == (made["id"], [east])
    refused = await world.delete(f"{path}/{made['id']}")
    assert (refused.status, refused.message.endswith("first: east")) == (409, True)
    assert (await world.post(info, {"credentials": {"id": None}})).status == 201
    assert (await world.get(info))["credentials"] == {"name": ""}
    assert (await world.delete(f"{path}/{made['id']}")).status == 204


async def test_a_token_that_is_limited_to_a_project_reads_no_credentials(world: World):
    path = f"/organization/{world.org}/{{}}credentials"
    assert (await world.post(path.format("aws/"), AWS)).status == 201
    token = await world.new_token("Admin", limited_to=[await world.project()])
    for each in ("aws/", ""):
        assert len((await world.get(path.format(each)))["results"]) == 1
        assert (await world.get(path.format(each), token=token))["results"] == []


async def test_a_cluster_cannot_name_credentials_of_another_organization(world: World):
    other, token = await world.organization()
    foreign = await world.post(f"/organization/{other}/aws/credentials", AWS, token=token)
    assert foreign.status == 201, foreign
    info = f"/organization/{world.org}/cluster/{await cluster(world)}/cloudProviderInfo"
    refused = await world.post(info, {"credentials": {"id": foreign["id"]}})
    assert (refused.status, refused.message.startswith("credentials.id: create")) == (400, True)


async def test_deploying_a_cluster_says_whether_its_engine_answers(world: World):
    east = await cluster(world)
    path = f"/organization/{world.org}/cluster/{east}"
    deployed = await world.post(f"{path}/deploy?dry_run=true")
    assert (deployed.status, deployed["status"]) == (201, "DEPLOYED")
    connector(world).engines[east].away = True
    refused = await world.post(f"{path}/deploy")
    assert refused.status == 409
    record = await world.made(f"/organization/{world.org}/cluster", {"name": "record"})
    refused = await world.post(f"/organization/{world.org}/cluster/{record}/deploy")
    assert (refused.status, "engine" in refused.message) == (409, True)


async def test_a_cluster_has_no_routes(world: World):
    path = f"/organization/{world.org}/cluster/{await cluster(world)}/routingTable"
    assert (await world.get(path)).json == {"results": []}
