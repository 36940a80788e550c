"""Paths are served as families, actions and unions declare them."""

from __future__ import annotations

import json
import uuid

import click
import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator

from tests.families.made_up import EVERYTHING
from tests.tables import rows
from tests.world import make_world
from windlass.api.openapi import encoded_document
from windlass.cli.derived_commands import commands_of
from windlass.cli.options import options_of


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, families=EVERYTHING) as made:
        yield made


# Segments


async def test_two_families_may_use_the_same_path_segment_under_different_parents(world):
    project = await world.project()
    environment = await world.environment(project)
    first = await world.made(f"/project/{project}/rule", {"name": "night", "priority": 3})
    second = await world.made(f"/environment/{environment}/rule", {"name": "night", "wildcard": "feat/*"})
    [of_project] = (await world.get(f"/project/{project}/rule"))["results"]
    [of_environment] = (await world.get(f"/environment/{environment}/rule"))["results"]
    assert (of_project["id"], of_project["priority"]) == (first, 3)
    assert (of_environment["id"], of_environment["wildcard"]) == (second, "feat/*")


async def test_an_id_of_another_family_with_the_same_path_segment_is_not_found(world):
    project = await world.project()
    environment = await world.environment(project)
    rule = await world.made(f"/project/{project}/rule", {"name": "night"})
    assert (await world.get(f"/project/{project}/rule/{rule}")).status == 200
    assert (await world.get(f"/environment/{environment}/rule/{rule}")).status == 404


async def test_a_path_segment_may_have_several_words(world):
    path = f"/organization/{world.org}/tencent/credentials"
    id = await world.made(path, {"name": "acme"})
    assert (await world.get(f"{path}/{id}"))["name"] == "acme"
    assert (await world.delete(f"{path}/{id}")).status == 204


async def test_a_fixed_path_segment_takes_precedence_over_an_id(world):
    project = await world.project()
    rule = await world.made(f"/project/{project}/rule", {"name": "night"})
    path = f"/project/{project}/rule"
    assert (await world.put(f"{path}/order", {"first": rule})).status == 200
    assert (await world.put(f"{path}/{rule}", {"name": "day"}))["name"] == "day"


# Ids of actions


@pytest.mark.parametrize("kind", ["application", "database"])
async def test_an_action_receives_its_resource_and_the_other_resource_in_its_path(world, kind):
    environment = await world.environment()
    service = await getattr(world, kind)(environment)
    tier = await world.made(f"/environment/{environment}/tier", {"name": "first"})
    answer = await world.put(f"/tier/{tier}/service/{service}")
    assert (answer["id"], answer["note"]) == (tier, f"{kind} {service}")
    assert answer.headers["etag"]


async def test_an_action_may_return_a_list_of_its_family(world):
    environment = await world.environment()
    one, other = [
        await world.made(f"/environment/{environment}/tier", {"name": name}) for name in ("one", "other")
    ]
    answer = await world.put(f"/tier/{one}/moveBefore/{other}")
    assert [tier["id"] for tier in answer["results"]] == [one, other]


async def test_the_other_resource_of_an_action_is_of_the_declared_family(world):
    environment = await world.environment()
    tier = await world.made(f"/environment/{environment}/tier", {"name": "first"})
    for id in (environment, tier, str(uuid.uuid4())):
        answer = await world.put(f"/tier/{tier}/service/{id}")
        assert answer.status == 404
        assert answer.message.startswith("No service with this id was found")
    assert (await world.put(f"/tier/{tier}/moveBefore/{environment}")).status == 404


async def test_the_other_resource_of_an_action_belongs_to_the_caller(world):
    environment = await world.environment()
    tier = await world.made(f"/environment/{environment}/tier", {"name": "first"})
    org, stranger = await world.organization()
    project = await world.made(f"/organization/{org}/project", {"name": "theirs"}, token=stranger)
    theirs = await world.made(f"/project/{project}/environment", {"name": "theirs"}, token=stranger)
    body = {"name": "theirs", "type": "REDIS", "version": "7", "mode": "CONTAINER"}
    database = await world.made(f"/environment/{theirs}/database", body, token=stranger)
    assert (await world.put(f"/tier/{tier}/service/{database}")).status == 404
    assert (await world.put(f"/tier/{tier}/service/{database}", token=stranger)).status == 404


async def test_a_limited_token_cannot_use_a_second_resource_outside_its_limits(world):
    environment, elsewhere = await world.environment(), await world.environment()
    tier = await world.made(f"/environment/{environment}/tier", {"name": "first"})
    inside, outside = await world.application(environment), await world.application(elsewhere)
    token = await world.new_token("Write", limited_to=[environment])
    assert (await world.put(f"/tier/{tier}/service/{inside}", token=token)).status == 200
    assert (await world.put(f"/tier/{tier}/service/{outside}", token=token)).status == 404


async def test_a_path_parameter_may_be_a_string_of_limited_length(world):
    tier = await world.made(f"/environment/{await world.environment()}/tier", {"name": "first"})
    assert (await world.get(f"/tier/{tier}/region/eu-west-3"))["word"] == "eu-west-3"
    assert (await world.get(f"/tier/{tier}/region/{'x' * 256}")).status == 404
    assert (await world.get(f"/tier/{tier}/region/")).status == 404


async def test_a_word_in_place_of_an_id_is_not_found(world):
    assert (await world.get("/tier/eu-west-3/region/eu-west-3")).status == 404


# Any service


@pytest.mark.parametrize("kind", ["application", "database"])
async def test_an_operation_on_any_service_finds_services_of_every_family(world, kind):
    service = await getattr(world, kind)()
    answer = await world.get(f"/service/{service}/tier")
    assert (answer["id"], answer["family"]) == (service, kind)


async def test_an_operation_on_any_service_finds_nothing_else(world):
    project = await world.project()
    for id in (project, world.org, str(uuid.uuid4())):
        answer = await world.get(f"/service/{id}/tier")
        assert answer.status == 404
        assert answer.message.startswith("No service with this id was found")


async def test_operations_on_any_service_answer_404_to_tokens_without_access(world):
    service = await world.application()
    _, stranger = await world.organization()
    limited = await world.new_token("Admin", limited_to=[await world.project()])
    assert (await world.get(f"/service/{service}/tier", token=stranger)).status == 404
    assert (await world.get(f"/service/{service}/tier", token=limited)).status == 404
    assert (await world.get(f"/service/{service}/tier", token=None)).status == 401


async def test_an_action_declared_in_another_module_may_omit_the_parent_from_its_path(world):
    [cluster] = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    assert (await world.get(f"/cluster/{cluster['id']}/seal"))["id"] == cluster["id"]
    _, stranger = await world.organization()
    assert (await world.get(f"/cluster/{cluster['id']}/seal", token=stranger)).status == 404


# Permission


@pytest.mark.parametrize(
    ("method", "path", "scope", "status"),
    [
        ("PUT", "service/{app}", "Read", 403),
        ("PUT", "service/{app}", "Deploy", 403),
        ("PUT", "service/{app}", "Write", 200),
        ("POST", "run", "Write", 403),
        ("POST", "run", "Deploy", 202),
        ("DELETE", "lock", "Deploy", 403),
        ("DELETE", "lock", "Admin", 204),
        ("GET", "region/eu", "Read", 200),
    ],
)
async def test_each_method_needs_the_scope_of_its_kind(world, method, path, scope, status):
    environment = await world.environment()
    app = await world.application(environment)
    tier = await world.made(f"/environment/{environment}/tier", {"name": "first"})
    token = await world.new_token(scope)
    answer = await world.call(method, f"/tier/{tier}/{path.format(app=app)}", token=token)
    assert answer.status == status


# The audit


async def test_audit_events_use_the_declared_name_of_a_family(world):
    created = await world.made(f"/organization/{world.org}/tencent/credentials", {"name": "acme"})
    path = f"/organization/{world.org}/events?subTargetType=CLOUD_PROVIDER_CREDENTIALS"
    [event] = (await world.get(path))["events"]
    assert (event["target_type"], event["target_id"]) == ("ORGANIZATION", world.org)
    assert event["sub_target_type"] == "CLOUD_PROVIDER_CREDENTIALS"
    assert created in event["change"]


async def test_the_audit_derives_a_word_from_the_name_of_a_family(world):
    tier = await world.made(f"/environment/{await world.environment()}/tier", {"name": "first"})
    events = (await world.get(f"/organization/{world.org}/events"))["events"]
    assert [event["target_type"] for event in events if event["target_id"] == tier] == ["TIER"]


# The document


def test_the_document_describes_every_parameter_of_every_path():
    document = json.loads(encoded_document(EVERYTHING))
    OpenAPIV30SpecValidator(document).validate()
    moving = document["paths"]["/tier/{tier_id}/service/{service_id}"]["put"]
    said = {parameter["name"]: parameter for parameter in moving["parameters"]}
    assert {name: said[name]["description"] for name in said} == {
        "tier_id": "Id of the tier",
        "service_id": "Id of the service",
    }
    word = document["paths"]["/tier/{tier_id}/region/{region}"]["get"]["parameters"][1]
    assert (word["description"], word["schema"]["type"]) == ("The region", "string")
    assert "format" not in word["schema"]


def test_families_with_the_same_path_segment_have_distinct_operation_ids():
    document = json.loads(encoded_document(EVERYTHING))
    ids = {
        path: document["paths"][path]["post"]["operationId"]
        for path in ("/project/{project_id}/rule", "/environment/{env_id}/rule")
    }
    assert list(ids.values()) == ["createProjectRule", "createEnvironmentRule"]


def test_the_openapi_document_has_a_paged_and_an_unpaged_list_schema_of_a_family():
    document = json.loads(encoded_document(EVERYTHING))
    whole = document["paths"]["/tier/{tier_id}/moveBefore/{other_id}"]["put"]["responses"]["200"]
    paged = document["paths"]["/environment/{env_id}/tier"]["get"]["responses"]["200"]
    names = [
        said["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2] for said in (whole, paged)
    ]
    assert names == ["TierResults", "TierList"]
    assert "pagination" not in document["components"]["schemas"]["TierResults"]["properties"]


# The command line


@rows(
    ("group", "word", "above", "subject"),
    [
        ("project-rule", "list", [("project", "project_id")], []),
        ("environment-rule", "get", [("environment", "env_id")], ["rule_id"]),
        ("tencent-credentials", "create", [("organization", "org_id")], []),
        ("project-rule", "order", [("project", "project_id")], []),
        ("tier", "add-service", [], ["tier_id", "service_id"]),
        ("tier", "move-before", [], ["tier_id", "other_id"]),
        ("tier", "region", [], ["tier_id", "region"]),
        ("service", "tier", [], ["service_id"]),
        ("cluster", "seal", [], ["cluster_id"]),
    ],
)
def test_each_operation_is_a_command_with_the_ids_of_its_path(group, word, above, subject):
    [way] = commands_of(EVERYTHING)[group][word].paths
    assert (list(way.above), [id.param for id in way.subject]) == (above, subject)


def test_a_command_takes_the_further_ids_of_its_path_as_arguments():
    options = options_of(EVERYTHING, commands_of(EVERYTHING)["tier"]["add-service"])
    arguments = [param for param in options.params if isinstance(param, click.Argument)]
    assert [argument.metavar for argument in arguments] == ["TIER", "SERVICE_ID"]
    assert "environment" in options.above
