"""Sections 1 and 2: every field of every resource is taken, given back as it was sent, and of its type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.contract import (
    APPLICATION,
    CREATIONS,
    ENDPOINTS,
    ENVIRONMENT,
    KINDS,
    SECRET,
    Endpoint,
    changed,
    filled,
    first_cluster,
    found,
    instant,
    read_back,
    stocked,
    times,
    without,
)
from tests.contract.rows import row

BY_NUMBER = {endpoint.number: endpoint for endpoint in ENDPOINTS}
STRING: list[Any] = [7, True, ["a"], {"a": 1}]
WORD: list[Any] = [*STRING, "", "SOMETHING_ELSE"]
INTEGER: list[Any] = ["7", 1.5, True, [], -5]
BOOLEAN: list[Any] = ["true", 1, []]


def field(section: str, number: int, path: str, value: Any, wrong: list[Any]) -> Any:
    """One field of a payload: a value that is not its default, and values that it must refuse."""
    return pytest.param(
        BY_NUMBER[number], path, value, wrong, marks=row(f"{section}.{path}"), id=f"{section}-{path}"
    )


FIELDS = [
    field("2.3", 4, "name", "Café «10»", [*STRING, "", None, "a\nb"]),
    field("2.3", 4, "description", "Two\nlines, and ünïcode ✓", STRING),
    field("2.4", 5, "name", "green", [*STRING, "", None]),
    field("2.4", 5, "mode", "PRODUCTION", WORD),
    field("2.5", 6, "name", "back", [*STRING, "", None]),
    field("2.5", 6, "git_repository", {"url": "https://git.example/a/b", "branch": "next"}, ["x", [], None]),
    field("2.5", 6, "git_repository.url", "https://git.example/acme/other", [*STRING, "", "front", None]),
    field("2.5", 6, "git_repository.branch", "feature/basket", [*STRING, "", "a b", "-x"]),
    field("2.5", 6, "build_mode", "DOCKER", WORD),
    field("2.5", 6, "dockerfile_path", "deploy/Dockerfile.prod", STRING),
    field("2.5", 6, "cpu", 750, [*INTEGER, 0]),
    field("2.5", 6, "memory", 2048, [*INTEGER, 0]),
    field("2.5", 6, "min_running_instances", 2, INTEGER),
    field("2.5", 6, "max_running_instances", 7, INTEGER),
    field("2.5", 6, "ports", [], ["3000", {}, 7, [3000]]),
    field("2.5", 6, "ports.internal_port", 8080, [*INTEGER, 0, 65_536]),
    field("2.5", 6, "ports.external_port", 8443, [*INTEGER, 0, 65_536]),
    field("2.5", 6, "ports.protocol", "HTTP", WORD),
    field("2.5", 6, "ports.publicly_accessible", False, BOOLEAN),
    field("2.8", 9, "key", "A_LONGER_NAME", [*STRING, "", "two words", "A=B", None]),
    field("2.8", 9, "value", "a=b \"c\" 'd' $E\n\t✓", STRING),
    field("2.9", 13, "name", "journal", [*STRING, "", None]),
    field("2.9", 13, "type", "POSTGRESQL", WORD),
    field("2.9", 13, "version", "15", [15, True, None]),
    field("2.9", 13, "mode", "MANAGED", WORD),
    field("2.9", 13, "cpu", 750, [*INTEGER, 0]),
    field("2.9", 13, "memory", 512, [*INTEGER, 0]),
    field("2.9", 13, "storage", 50, [*INTEGER, 0]),
    field("2.10", 15, "target_url", "http://hooks.example:8080/a?b=c", [*STRING, "", "a.example", "ftp://a"]),
    field("2.10", 15, "events", ["DEPLOYMENT_FAILED"], ["DEPLOYMENT_FAILED", 7, [7], ["SOMETHING"], None]),
    field("2.10", 15, "enabled", False, BOOLEAN),
]  # fmt: skip
PAYLOADS = [pytest.param(endpoint, id=endpoint.path.rsplit("/", 1)[1]) for endpoint in CREATIONS]


@pytest.mark.parametrize(("endpoint", "path", "value", "wrong"), FIELDS)
async def test_every_field_is_returned_as_it_was_sent(
    embedded, endpoint: Endpoint, path: str, value: Any, wrong: list[Any]
) -> None:
    ids = await stocked(embedded)
    body = filled(changed(endpoint.body or {}, path, value), ids)
    created = await embedded.post(endpoint.path.format(**ids), body)
    assert created.status in {200, 201}, created
    read = await read_back(embedded, endpoint, ids, created["id"])
    for answer in (created, read):
        assert same(found(answer.json, path), value)


def same(given: Any, sent: Any) -> bool:
    """Equal, and of one type; what is nested may have grown by what the server adds."""
    if isinstance(sent, dict):
        return isinstance(given, dict) and all(same(given[name], value) for name, value in sent.items())
    if isinstance(sent, list):
        return len(given) == len(sent) and all(same(*pair) for pair in zip(given, sent, strict=True))
    return type(given) is type(sent) and bool(given == sent)


def test_values_of_different_types_are_compared_as_different() -> None:
    assert same({"a": [1, {"b": "c"}], "d": None}, {"a": [1, {"b": "c"}]})
    assert not same(1.0, 1)
    assert not same(1, True)
    assert not same([1], [1, 2])


@pytest.mark.parametrize(("endpoint", "path", "value", "wrong"), FIELDS)
async def test_a_wrong_value_is_refused_and_the_message_names_the_field(
    embedded, endpoint: Endpoint, path: str, value: Any, wrong: list[Any]
) -> None:
    ids = await stocked(embedded)
    for bad in wrong:
        body = filled(changed(endpoint.body or {}, path, bad), ids)
        answer = await embedded.post(endpoint.path.format(**ids), body)
        assert answer.status == 400, (bad, answer)
        assert answer.message.startswith(path.replace("ports.", "ports[0].")), (bad, answer)


@row("2.2.id", "2.2.created_at", "2.2.updated_at")
@row("2.3.id", "2.3.created_at", "2.3.updated_at", "2.4.id", "2.4.created_at")
@pytest.mark.parametrize("endpoint", PAYLOADS)
async def test_a_created_resource_has_an_id_timestamps_and_all_sent_fields(world, endpoint: Endpoint) -> None:
    ids, now = await stocked(world), world.clock.now() / 1000
    created = await endpoint.call(world, ids)
    assert isinstance(created["id"], str)
    assert abs(instant(created["created_at"]).timestamp() - now) < 0.1
    assert created["updated_at"] == created["created_at"]
    read = await read_back(world, endpoint, ids, created["id"])
    assert read.json == created.json
    sent = filled(endpoint.body, ids)
    assert same(read.json, sent if endpoint.body is not SECRET else without(sent, "value"))


async def test_an_update_changes_updated_at_and_not_created_at(world) -> None:
    project = await world.project()
    before = await world.get(f"/project/{project}")
    world.clock.turn(5)
    await world.put(f"/project/{project}", {"description": "New"})
    after = await world.get(f"/project/{project}")
    assert after["created_at"] == before["created_at"]
    assert (instant(after["updated_at"]) - instant(before["updated_at"])).total_seconds() == 5


@row("1.timestamps")
async def test_every_time_is_iso_8601_in_utc_with_milliseconds(embedded) -> None:
    ids = await stocked(embedded)
    embedded.clock.turn(0.007)
    seen: set[str] = set()
    for endpoint in ENDPOINTS:
        seen |= check_times((await endpoint.call(embedded, ids)).json)
    await embedded.settle()
    for path in (
        "/application/{app_id}/status",
        "/application/{app_id}/log",
        "/organization/{org_id}/apiToken",
    ):
        seen |= check_times((await embedded.get(path.format(**ids))).json)
    for path in (
        "/project/{project_id}",
        "/environment/{env_id}",
        "/application/{app_id}",
        "/database/{db_id}",
    ):
        seen |= check_times((await embedded.get(path.format(**ids))).json)
    assert {"created_at", "updated_at", "last_deployment_date"} <= seen


def check_times(document: Any) -> set[str]:
    """The names of the times in a document, each of which is one."""
    seen = list(times(document))
    for _, value in seen:
        instant(value)
    return {name for name, _ in seen}


# 2.1


@row("2.1.name", "2.1.country_code", "2.1.country", "2.1.city", "2.1.arm_supported", "2.1.zones")
async def test_a_region_has_six_fields_of_their_types(embedded) -> None:
    regions = (await embedded.get("/aws/region"))["results"]
    assert len(regions) >= 30
    for region in regions:
        assert region.keys() == {"name", "country_code", "country", "city", "arm_supported", "zones"}
        assert all(isinstance(region[name], str) for name in ("name", "country_code", "country", "city"))
        assert type(region["arm_supported"]) is bool
        assert isinstance(region["zones"], list)
        assert all(isinstance(zone, str) for zone in region["zones"])


@row("2.1.results")
async def test_the_list_of_regions_is_an_object_with_results_and_nothing_else(embedded) -> None:
    regions = await embedded.get("/aws/region")
    assert regions.json.keys() == {"results"}
    paris = next(region for region in regions["results"] if region["name"] == "eu-west-3")
    assert paris == {
        "name": "eu-west-3",
        "country_code": "FR",
        "country": "France",
        "city": "Paris",
        "arm_supported": True,
        "zones": ["eu-west-3a", "eu-west-3b", "eu-west-3c"],
    }


# 2.3 to 2.5


async def test_a_project_needs_no_more_than_a_name(world) -> None:
    answer = await world.post(f"/organization/{world.org}/project", {"name": "bare"})
    assert (answer["name"], answer["description"]) == ("bare", "")


@row("2.4.cluster_id")
async def test_an_environment_runs_on_the_cluster_it_names(world) -> None:
    project = await world.project()
    second = await world.made(f"/organization/{world.org}/cluster", {"name": "second"})
    for cluster in (await first_cluster(world), second):
        body = dict(ENVIRONMENT) | {"name": world.name("env"), "cluster_id": cluster}
        answer = await world.post(f"/project/{project}/environment", body)
        assert answer["cluster_id"] == cluster
        assert (await world.get(f"/environment/{answer['id']}"))["cluster_id"] == cluster


async def test_an_environment_that_names_no_cluster_runs_on_the_first(world) -> None:
    answer = await world.post(f"/project/{await world.project()}/environment", {"name": "blue"})
    assert answer["cluster_id"] == await first_cluster(world)


@pytest.mark.parametrize("cluster", ["00000000-0000-4000-8000-000000000000", "local", 7])
async def test_a_missing_cluster_is_refused_by_name(embedded, cluster: Any) -> None:
    body = {"name": "blue", "cluster_id": cluster}
    answer = await embedded.post(f"/project/{await embedded.project()}/environment", body)
    assert answer.status == 400
    assert answer.message.startswith("cluster_id: ")


@pytest.mark.parametrize("mode", ["STAGING", "PRODUCTION"])
async def test_both_modes_of_the_contract_are_taken(embedded, mode: str) -> None:
    environment = await embedded.environment(mode=mode)
    assert (await embedded.get(f"/environment/{environment}"))["mode"] == mode


async def test_an_application_defaults_to_one_small_instance_without_ports(embedded) -> None:
    body = {"name": "front", "git_repository": {"url": "https://git.example/acme/front.git"}}
    answer = await embedded.post(f"/environment/{await embedded.environment()}/application", body)
    assert answer.status == 201
    assert (answer["cpu"], answer["memory"], answer["build_mode"], answer["ports"]) == (
        500,
        512,
        "DOCKER",
        [],
    )
    assert (answer["min_running_instances"], answer["max_running_instances"]) == (1, 1)


async def test_several_ports_keep_their_order(world) -> None:
    ports = [{"internal_port": port, "protocol": "HTTP"} for port in (3000, 80, 8080)]
    application = await world.application(ports=ports)
    read = await world.get(f"/application/{application}")
    assert [port["internal_port"] for port in read["ports"]] == [3000, 80, 8080]


async def test_min_running_instances_above_max_running_instances_is_refused(embedded) -> None:
    body = dict(APPLICATION) | {"min_running_instances": 3, "max_running_instances": 2}
    answer = await embedded.post(f"/environment/{await embedded.environment()}/application", body)
    assert answer.status == 400
    assert answer.message.startswith("max_running_instances: ")


# 2.6 and 2.7 are with the states and the endpoints


@row("2.6.id", "2.6.state", "2.6.service_deployment_status", "2.6.last_deployment_date")
async def test_a_status_has_the_four_fields_of_the_contract(world) -> None:
    application = await world.application()
    await world.post(f"/application/{application}/deploy")
    await world.settle()
    status = await world.get(f"/application/{application}/status")
    assert status["id"] == application
    assert isinstance(status["state"], str)
    assert isinstance(status["service_deployment_status"], str)
    assert instant(status["last_deployment_date"]).timestamp() == world.clock.now() / 1000


@row("2.7.id", "2.7.status", "2.7.application_id", "2.7.created_at")
async def test_a_deployment_has_the_four_fields_of_the_contract(world) -> None:
    application = await world.application()
    first, second = [await world.post(f"/application/{application}/deploy") for _ in range(2)]
    assert isinstance(first["id"], str)
    assert len({first["id"], second["id"], application}) == 3
    assert first["status"] == "QUEUED"
    assert first["application_id"] == application
    assert instant(first["created_at"]).timestamp() == world.clock.now() / 1000


# 2.8


@row("2.8.secret")
async def test_a_secret_is_sent_like_a_variable_and_its_value_never_comes_back(world) -> None:
    secrets = f"/application/{await world.application()}/secret"
    created = await world.post(secrets, SECRET)
    assert created["key"] == "PASSWORD"
    for answer in (created, await world.get(secrets), await world.get(f"{secrets}/{created['id']}")):
        assert answer.status in {200, 201}
        assert b"PASSWORD" in answer.body
        assert b"correct horse" not in answer.body


async def test_values_of_secrets_are_stored_encrypted_and_values_of_variables_are_not(embedded) -> None:
    application = f"/application/{await embedded.application()}"
    await embedded.post(f"{application}/secret", SECRET, headers={"Idempotency-Key": "once"})
    await embedded.post(
        f"{application}/environmentVariable", {"key": "PLAIN", "value": "one_line_errors to be seen"}
    )
    disk = b"".join(file.read_bytes() for file in embedded.folder.rglob("*") if file.is_file())
    assert b"one_line_errors to be seen" in disk
    assert b"correct horse" not in disk


async def test_variables_and_secrets_are_listed_separately(world) -> None:
    application = f"/application/{await world.application()}"
    await world.post(f"{application}/environmentVariable", {"key": "COLOUR", "value": "teal"})
    await world.post(f"{application}/secret", SECRET)
    variables = await world.get(f"{application}/environmentVariable")
    secrets = await world.get(f"{application}/secret")
    assert [one["key"] for one in variables["results"]] == ["COLOUR"]
    assert [one["key"] for one in secrets["results"]] == ["PASSWORD"]


@pytest.mark.parametrize("kind", ["environmentVariable", "secret"])
async def test_variables_and_secrets_of_a_service_have_unique_keys(world, kind: str) -> None:
    application = f"/application/{await world.application()}"
    await world.post(f"{application}/{kind}", {"key": "A", "value": "1"})
    for other in ("environmentVariable", "secret"):
        answer = await world.post(f"{application}/{other}", {"key": "A", "value": "2"})
        assert answer.status == 409
        assert answer.message.startswith("key: ")


# 2.10 and 2.11


async def test_a_webhook_is_enabled_by_default(embedded) -> None:
    body = {"target_url": "https://hooks.example/", "events": KINDS}
    assert (await embedded.post(f"/organization/{embedded.org}/webhook", body))["enabled"] is True


@row("2.11.id", "2.11.name", "2.11.created_at")
async def test_an_organization_has_id_name_and_created_at(world) -> None:
    organization = await world.get("/organization")
    assert organization["id"] == world.org
    assert isinstance(organization["name"], str)
    assert organization["name"]
    instant(organization["created_at"])


@pytest.mark.parametrize("collection", ["project", "environment", "application", "database"])
async def test_names_are_unique_among_siblings_ignoring_case(world, collection: str) -> None:
    ids = await stocked(world)
    endpoint = next(one for one in CREATIONS if one.path.endswith(f"/{collection}"))
    body = filled(endpoint.body, ids)
    assert (await endpoint.call(world, ids)).status in {200, 201}
    answer = await world.post(endpoint.path.format(**ids), body | {"name": body["name"].upper()})
    assert answer.status == 409
    assert answer.message.startswith("name: ")


async def test_a_name_may_be_reused_under_another_parent_or_after_a_deletion(world) -> None:
    one, other = await world.project(name="shop"), await world.project()
    await world.environment(one, name="blue")
    await world.environment(other, name="blue")
    await world.delete(f"/project/{one}")
    another = await world.project(name="Shop")
    assert (await world.get(f"/project/{another}"))["name"] == "Shop"
