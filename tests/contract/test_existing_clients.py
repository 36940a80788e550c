"""Clients generated from the description of the full interface find the answers that they expect."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from tests.contract.contract import is_refused
from windlass.core.deploy.states import State
from windlass.core.words.later_lists import LATER_LISTS
from windlass.families import registry

# What the generated clients refuse to read without.
STATUS = {"id", "state", "service_deployment_status", "is_part_last_deployment", "status_details",
          "deployment_request_id", "deployment_requests_count"}  # fmt: skip
ENVIRONMENT_STATUS = {"id", "state", "last_deployment_state"}
KEDA = {"id", "created_at", "updated_at", "service_id", "mode", "scalers", "polling_interval_seconds",
        "cooldown_period_seconds"}  # fmt: skip
SCALER = {"id", "created_at", "updated_at", "scaler_type", "enabled", "role"}
STATE_WORDS = {str(state) for state in State} - {"QUEUED"}
PUBLIC = {"internal_port": 80, "external_port": 443, "publicly_accessible": True}
INSIDE = {"internal_port": 81}
VOLUME = {"type": "FAST_SSD", "size": 4, "mount_point": "/data"}
TRIGGER = {"name": "auth", "config_yaml": "x: 1"}
POLICY = {
    "mode": "KEDA",
    "scalers": [{"scaler_type": "cpu", "role": "PRIMARY", "trigger_authentication": TRIGGER}],
}


async def application(world, **fields: Any) -> str:
    return f"/compat/application/{await world.application(**fields)}"


# Answers


@pytest.mark.parametrize("base", ["", "/compat"])
@pytest.mark.parametrize("services", [0, 1])
@pytest.mark.parametrize("action", ["deploy", "redeploy", "stop", "uninstall", "service/deploy"])
async def test_actions_on_an_environment_return_service_and_environment_status_fields(
    embedded, base, services, action
):
    environment = await embedded.environment()
    apps = [await embedded.application(environment) for _ in range(services)]
    body = {"applications": [{"application_id": app} for app in apps]} if action == "service/deploy" else None
    answer = await embedded.post(f"{base}/environment/{environment}/{action}", body)
    assert answer.status == 202
    assert answer.json.keys() >= STATUS | ENVIRONMENT_STATUS
    assert answer["status_details"].keys() == {"action", "status", "sub_action"}


async def test_the_queued_state_under_compat_is_deployment_queued(world):
    environment = await world.environment()
    app = await world.application(environment)
    deployed = await world.post(f"/compat/application/{app}/deploy")
    status = await world.get(f"/compat/application/{app}/status")
    whole = await world.get(f"/compat/environment/{environment}/status")
    said = [answer[name] for answer in (deployed, status, whole) for name in ("state", "deployment_state")]
    assert {*said, whole["last_deployment_state"]} == {"DEPLOYMENT_QUEUED"} <= STATE_WORDS
    plain = await world.get(f"/application/{app}/status")
    assert (plain["state"], plain["deployment_state"]) == ("QUEUED", "QUEUED")


@pytest.mark.parametrize("kind", ["environmentVariable", "secret"])
async def test_the_value_of_an_alias_under_compat_is_the_key_of_its_target(embedded, kind):
    here = f"/application/{await embedded.application()}/{kind}"
    shared = await embedded.made(here, {"key": "SHARED", "value": "1"})
    alias = await embedded.post(f"/compat{here}/{shared}/alias", {"key": "ALIAS"})
    shown = "SHARED" if kind == "environmentVariable" else None
    listed = {one["key"]: one for one in (await embedded.get(f"/compat{here}"))["results"]}
    read = await embedded.get(f"/compat{here}/{alias['id']}")
    assert [one.get("value") for one in (alias.json, listed["ALIAS"], read.json)] == [shown] * 3
    plain = await embedded.get(f"{here}/{alias['id']}")
    assert plain.json.get("value") == ("1" if kind == "environmentVariable" else None)


async def test_a_client_that_sends_the_targets_key_as_value_can_change_an_alias(embedded):
    here = f"/application/{await embedded.application()}/environmentVariable"
    shared = await embedded.made(here, {"key": "SHARED", "value": "1"})
    alias = (await embedded.post(f"/compat{here}/{shared}/alias", {"key": "ALIAS"}))["id"]
    for body in (
        {"key": "ALIAS", "value": "SHARED", "description": "x"},
        {"key": "ALIAS", "description": "y"},
    ):
        answer = await embedded.put(f"/compat{here}/{alias}", body)
        assert (answer.status, answer["value"], answer["description"]) == (200, "SHARED", body["description"])
    assert (await embedded.get(f"{here}/{alias}"))["value"] == "1"
    is_refused(await embedded.put(f"{here}/{alias}", {"key": "ALIAS", "value": "SHARED"}), 400)


async def test_an_autoscaling_policy_keeps_its_id_across_updates(embedded):
    app = await application(embedded, autoscaling=POLICY)
    first = (await embedded.get(app))["autoscaling"]
    assert first.keys() >= KEDA
    assert first["scalers"][0].keys() >= SCALER
    assert first["scalers"][0]["trigger_authentication"].keys() >= {
        "id",
        "created_at",
        "organization_id",
        "name",
    }
    assert (first["polling_interval_seconds"], first["cooldown_period_seconds"]) == (30, 300)
    embedded.clock.turn(5)
    changed = (await embedded.put(app, {"autoscaling": {**POLICY, "polling_interval_seconds": 60}}))[
        "autoscaling"
    ]
    assert (changed["id"], changed["created_at"]) == (first["id"], first["created_at"])
    assert changed["updated_at"] > first["updated_at"]
    assert changed["scalers"] == first["scalers"]
    assert "autoscaling" not in (await embedded.put(app, {})).json


@pytest.mark.parametrize("base", ["", "/compat"])
@pytest.mark.parametrize("mode", ["CONTAINER", "MANAGED"])
@pytest.mark.parametrize("accessibility", ["PRIVATE", "PUBLIC"])
async def test_a_database_shows_its_host_and_port_before_and_after_its_deployment(
    world, base, mode, accessibility
):
    path = f"/database/{await world.database(name='Orders', mode=mode, accessibility=accessibility)}"
    before = await world.get(base + path)
    await world.post(f"{path}/deploy")
    await world.settle()
    after = await world.get(base + path)
    assert before.body == after.body
    credentials = await world.get(f"{path}/masterCredentials")
    if accessibility == "PUBLIC":
        assert (before["host"], before["port"]) == (credentials["host"], credentials["port"])
    else:
        assert (before["host"], before["port"]) == (f"z{path.split('/')[-1][:8]}-orders", 5432)
    size = {"MANAGED": "standard", "CONTAINER": "aws-ebs-gp3-0" if base else None}[mode]
    assert before.json.get("instance_type") == size


async def test_a_database_made_public_shows_another_host_and_keeps_its_public_port(embedded):
    path = f"/database/{await embedded.database()}"
    inside = await embedded.get(path)
    public = await embedded.patch(path, {"accessibility": "PUBLIC"})
    assert (public["host"], public["port"]) != (inside["host"], inside["port"])
    assert (await embedded.patch(path, {"accessibility": "PRIVATE"}))["host"] == inside["host"]
    assert (await embedded.patch(path, {"accessibility": "PUBLIC"}))["port"] == public["port"]


@pytest.mark.parametrize(
    ("id", "value", "type"),
    [
        ("STATIC_IP", True, "BOOLEAN"),
        ("VPC_SUBNET", "10.0.0.0/16", "STRING"),
        ("NAT_GATEWAY", {"static_ips_count": 3}, "NAT_GATEWAY"),
        ("KARPENTER", {"spot_enabled": False}, "KARPENTER"),
        ("EXISTING_VPC", {"aws_vpc_eks_id": "vpc-1"}, "AWS_USER_PROVIDED_NETWORK"),
        ("EXISTING_VPC", {"vpc_name": "main"}, "GCP_USER_PROVIDED_NETWORK"),
    ],
)
async def test_a_cluster_feature_is_returned_with_its_value_and_type(embedded, id, value, type):
    clusters = f"/compat/organization/{embedded.org}/cluster"
    body = {"name": "aws", "region": "eu-west-3", "cloud_provider": "AWS"}
    made = await embedded.post(clusters, {**body, "features": [{"id": id, "value": value}]})
    expected = {"id": id, "value": value, "value_object": {"type": type, "value": value}}
    assert (made.status, made["features"]) == (201, [expected])
    again = await embedded.put(f"{clusters}/{made['id']}", made.json)
    assert (again.status, again["features"]) == (200, [expected])
    without_value = {"id": id, "value_object": expected["value_object"]}
    sent = await embedded.put(f"{clusters}/{made['id']}", {**made.json, "features": [without_value]})
    assert sent["features"] == [without_value]


# Bodies


async def test_optional_parts_left_out_of_an_application_are_removed(embedded):
    ports, storage = [PUBLIC], [VOLUME]
    app = await application(
        embedded, entrypoint="sh", docker_target_build_stage="x", arguments=["1"], description="d",
        ports=ports, storage=storage,
    )  # fmt: skip
    repository = {"url": "https://git.example/acme/front.git", "branch": "main"}
    after = await embedded.put(app, {"name": "a", "git_repository": repository, "healthchecks": {}})
    assert after.status == 200
    assert not {"entrypoint", "docker_target_build_stage"} & after.json.keys()
    assert [after[name] for name in ("arguments", "description", "ports", "storage")] == [[], "", [], []]


async def test_an_item_with_an_empty_id_is_created(embedded):
    app = await application(embedded, ports=[PUBLIC], storage=[VOLUME])
    before = await embedded.get(app)
    added = {
        "ports": [*before["ports"], {**INSIDE, "id": ""}],
        "storage": [*before["storage"], {**VOLUME, "id": "", "mount_point": "/other"}],
    }
    after = await embedded.put(app, added)
    assert after.status == 200
    for name in ("ports", "storage"):
        old, new = after[name]
        assert old == before[name][0]
        assert new["id"] not in {"", old["id"]}
    is_refused(await embedded.put(app.removeprefix("/compat"), {"ports": [{**INSIDE, "id": ""}]}), 400)


async def test_a_storage_item_is_matched_by_its_id_before_its_position(embedded):
    app = await application(embedded, storage=[VOLUME])
    [volume] = (await embedded.get(app))["storage"]
    moved = [{**volume, "mount_point": "/other"}, VOLUME]
    first, second = (await embedded.put(app, {"storage": moved}))["storage"]
    assert (first["id"], first["mount_point"]) == (volume["id"], "/other")
    assert second["id"] != volume["id"]


@pytest.mark.parametrize("field", ["ports", "storage"])
async def test_two_list_items_with_the_same_id_are_refused(embedded, field):
    app = await application(embedded, ports=[PUBLIC], storage=[VOLUME])
    [item] = (await embedded.get(app))[field]
    other = {**item, "internal_port": 81, "mount_point": "/other", "name": "other"}
    answer = await embedded.put(app, {field: [item, other]})
    is_refused(answer, 400)
    assert answer.message.startswith(f"{field}[1].id: ")


@pytest.mark.parametrize(("digit", "status"), [(7, 200), (8, 400)])
async def test_two_storage_ids_with_the_same_leading_digits_are_refused(embedded, digit, status):
    app = await application(embedded, storage=[VOLUME])
    [item] = (await embedded.get(app))["storage"]
    place = digit if item["id"][digit] != "-" else digit + 1
    changed = "0" if item["id"][place] != "0" else "1"
    twin = {**item, "id": item["id"][:place] + changed + item["id"][place + 1 :], "mount_point": "/other"}
    answer = await embedded.put(app, {"storage": [item, twin]})
    assert answer.status == status


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ([False], [False]),
        ([None], [True]),
        ([True], [True]),
        ([False, None], [False, True]),
        ([None, True], [False, True]),
        ([False, False], [False, False]),
    ],
)
async def test_the_default_port_is_the_one_marked_as_default_or_chosen_automatically(
    embedded, said, answered
):
    ports = [{**PUBLIC, "internal_port": 80 + n, "is_default": default} for n, default in enumerate(said)]
    app = await application(embedded, ports=ports)
    assert [port["is_default"] for port in (await embedded.get(app))["ports"]] == answered


async def test_unknown_and_read_only_fields_are_ignored_under_compat(embedded):
    foreign = {"id": "", "created_at": "x", "some_new_field": {"a": [1]}}
    projects = f"/organization/{embedded.org}/project"
    made = await embedded.post(f"/compat{projects}", {"name": "shop", **foreign})
    assert (made.status, made["name"]) == (200, "shop")
    app = await application(embedded)
    nested = {"git_repository": {"url": "https://a.example/b", "has_access": True, "new": 1}, **foreign}
    assert (await embedded.put(app, nested)).status == 200
    assert (await embedded.post(f"{app}/deploy", foreign)).status == 202
    is_refused(await embedded.post(projects, {"name": "other", **foreign}), 400)


@pytest.mark.parametrize("body", [{"name": 7}, {"name": "x", "ports": [{"id": ""}]}, ["name"], "name"])
async def test_known_fields_with_wrong_values_are_still_refused(embedded, body):
    is_refused(await embedded.put(await application(embedded), body), 400)


async def test_whole_numbers_with_a_fraction_are_integers_under_compat(world):
    environment = await world.environment()
    body = {"name": "web", "cpu": 250.0, "memory": 512.5, "image_name": "web", "tag": "1"}
    refused = await world.post(f"/compat/environment/{environment}/container", body)
    is_refused(refused, 400, "memory: must be an integer")
    made = await world.post(f"/compat/environment/{environment}/container", body | {"memory": 512.0})
    assert (made.status, made["cpu"], made["memory"]) == (201, 250, 512)
    at_the_root = await world.post(f"/environment/{environment}/container", body | {"memory": 512})
    is_refused(at_the_root, 400, "cpu: must be an integer")


async def test_fields_that_a_client_cannot_send_keep_their_value_on_put(embedded):
    home = f"/compat/organization/{embedded.org}"
    await embedded.patch(home, {"plan": "TEAM"})
    assert (await embedded.put(home, {"name": "Acme"}))["plan"] == "TEAM"
    secrets = f"/compat/application/{await embedded.application()}/secret"
    secret = await embedded.made(secrets, {"key": "FILE", "value": "x", "mount_path": "/x"})
    assert (await embedded.put(f"{secrets}/{secret}", {"key": "FILE", "value": "y"}))["mount_path"] == "/x"


@pytest.mark.parametrize(("base", "chosen"), [("/compat", False), ("", True)])
async def test_a_container_has_previews_by_default_but_for_clients_of_the_full_interface(
    embedded, base, chosen
):
    body = {"name": "cache", "image_name": "acme/cache", "tag": "1"}
    path = f"{base}/environment/{await embedded.environment()}/container"
    made = await embedded.post(path, body)
    own = f"{base}/container/{made['id']}"
    assert made["auto_preview"] is chosen
    assert (await embedded.put(own, body | {"auto_preview": not chosen}))["auto_preview"] is not chosen
    assert (await embedded.patch(own, {"tag": "2"}))["auto_preview"] is not chosen
    assert (await embedded.put(own, body))["auto_preview"] is chosen


@pytest.mark.parametrize("family", ["application", "container"])
async def test_the_internal_host_of_a_program_begins_with_app(embedded, family):
    environment = await embedded.environment()
    body = {"image_name": "acme/cache", "tag": "1"} if family == "container" else {}
    repository = {} if family == "container" else {"git_repository": {"url": "https://git.example/a/b.git"}}
    made = await embedded.post(
        f"/compat/environment/{environment}/{family}", {"name": "a", "branch": "main"} | body | repository
    )
    listed = (await embedded.get(f"/compat/{family}/{made['id']}/environmentVariable"))["results"]
    digits = made["id"][:8]
    key = f"QOVERY_{family.upper()}_Z{digits.upper()}_HOST_INTERNAL"
    assert {one["key"]: one["value"] for one in listed}[key] == f"app-z{digits}"


async def test_a_job_at_a_day_that_never_comes_is_taken_and_has_no_due_time(world):
    schedule = {"cronjob": {"scheduled_at": "0 0 31 2 *"}}
    body = {"name": "by hand", "source": {"image": {"image_name": "acme/job", "tag": "1"}}}
    environment = await world.environment()
    made = await world.post(f"/compat/environment/{environment}/job", body | {"schedule": schedule})
    assert (made.status, made["schedule"]["cronjob"]["scheduled_at"]) == (201, "0 0 31 2 *")
    assert (await world.get(f"/job/{made['id']}/dueTimes"))["due_at"] == []


async def test_a_variable_of_a_project_that_is_created_again_is_replaced(embedded):
    project = await embedded.project()
    path = f"/compat/project/{project}/environmentVariable"
    first = await embedded.post(path, {"key": "A", "value": "1", "description": "first"})
    again = await embedded.post(path, {"key": "A", "value": "2"})
    assert (again.status, again["id"], again["value"], again["description"]) == (201, first["id"], "2", "")
    listed = (await embedded.get(path))["results"]
    assert [one["value"] for one in listed if one["key"] == "A"] == ["2"]


async def test_a_variable_that_is_created_again_elsewhere_is_refused(embedded):
    environment = await embedded.environment()
    project = (await embedded.get(f"/environment/{environment}"))["project"]["id"]
    alias = {"key": "B"}
    paths = [f"/project/{project}", f"/compat/environment/{environment}"]
    for path in paths:
        body = {"key": "A", "value": "1"}
        made = await embedded.post(f"{path}/environmentVariable", body)
        is_refused(await embedded.post(f"{path}/environmentVariable", body), 409, "the key A here")
    whole = f"/compat/project/{project}/environmentVariable"
    of_project = next(one["id"] for one in (await embedded.get(whole))["results"] if one["key"] == "A")
    assert made["id"] != of_project
    assert (await embedded.post(f"{whole}/{of_project}/alias", alias)).status == 201
    is_refused(await embedded.post(whole, {"key": "B", "value": "2"}), 409, "the key B here")


# Operations that there are not yet


@pytest.mark.parametrize("path", LATER_LISTS)
async def test_a_list_of_a_family_that_is_not_there_yet_is_empty_for_those_who_may_read(embedded, path):
    holder = {"organization": embedded.org, "database": await embedded.database()}[LATER_LISTS[path]]
    there, elsewhere = (f"/compat{path}".replace("{}", id) for id in (holder, str(uuid.uuid4())))
    reader = await embedded.new_token("Read")
    for method in ("GET", "HEAD"):
        answer = await embedded.call(method, there, token=reader)
        assert (answer.status, answer.json["results"] if answer.body else []) == (200, [])
    assert (await embedded.get(there))["results"] == []
    _, stranger = await embedded.organization()
    missing = await embedded.get(elsewhere)
    assert missing.status == 404
    assert (await embedded.get(there, token=stranger)).body == missing.body
    assert (await embedded.get(there, token=None)).status == 401
    assert (await embedded.get(there.removeprefix("/compat"))).status == 404
    assert (await embedded.post(there, {})).status == 404


def test_lists_that_are_not_there_yet_are_none_of_the_operations():
    paths = {re.sub("{[^}]*}", "{}", operation.path) for operation in registry().operations}
    assert not paths & LATER_LISTS.keys(), "take what is there now out of LATER_LISTS"


@pytest.mark.parametrize(
    "path", ["/organization/{org}/webhook/status", "/environment/overview", "/application/status/x"]
)
@pytest.mark.parametrize("base", ["", "/compat"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_name_in_place_of_an_id_is_not_found_with_a_hint(embedded, base, path, method):
    answer = await embedded.call(method, base + path.format(org=embedded.org))
    is_refused(answer, 404)
    assert answer.message.startswith("There is nothing at this path: ")
    assert "ids, not names: GET /organization/{org_id}/services" in answer.message
