"""The served document is valid OpenAPI 3.0.3, says what the registry says, and its examples are true."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import msgspec
import pytest
from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator
from openapi_spec_validator import OpenAPIV30SpecValidator
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError
from referencing.exceptions import Unresolvable

from tests.documented import (
    ACCOUNT,
    DOCUMENT,
    Document,
    answers,
    body,
    complaints,
    operations,
    parameters,
    parts,
    resolved,
    said,
    schema,
    success,
    within,
)
from tests.fakes.engine import FakeEngine
from tests.tables import rows
from tests.world import World, make_world
from windlass.api.openapi import document, encoded_document
from windlass.core.declare.registry import Operation
from windlass.families import registry
from windlass.families.organization import organization

EVERYWHERE = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id"}
CONTRACT = [
    ("GET", "/aws/region"),
    ("GET", "/organization"),
    ("GET", "/organization/{org_id}/project"),
    ("POST", "/organization/{org_id}/project"),
    ("POST", "/project/{project_id}/environment"),
    ("POST", "/environment/{env_id}/application"),
    ("POST", "/application/{app_id}/deploy"),
    ("GET", "/application/{app_id}/status"),
    ("POST", "/application/{app_id}/environmentVariable"),
    ("GET", "/application/{app_id}/environmentVariable"),
    ("POST", "/application/{app_id}/secret"),
    ("GET", "/application/{app_id}/log"),
    ("POST", "/environment/{env_id}/database"),
    ("POST", "/database/{db_id}/deploy"),
    ("POST", "/organization/{org_id}/webhook"),
]


# The document


def test_the_document_is_valid_openapi_3_0() -> None:
    assert OpenAPIV30SpecValidator(copy.deepcopy(DOCUMENT)).is_valid()


def no_answers(broken: Document) -> None:
    broken["paths"]["/aws/region"]["get"].pop("responses")


def null_as_a_type(broken: Document) -> None:
    broken["components"]["schemas"]["Region"]["properties"]["city"]["type"] = ["string", "null"]


def a_dangling_reference(broken: Document) -> None:
    broken["components"]["schemas"].pop("Pagination")


def twins(broken: Document) -> None:
    broken["paths"]["/gcp/region"]["get"]["operationId"] = "listAWSRegions"


def an_undeclared_parameter(broken: Document) -> None:
    broken["paths"]["/project/{project_id}"]["get"].pop("parameters")


@pytest.mark.parametrize(
    "damage", [no_answers, null_as_a_type, a_dangling_reference, twins, an_undeclared_parameter]
)
@pytest.mark.slow
def test_the_validator_refuses_a_broken_document(damage: Callable[[Document], None]) -> None:
    broken = copy.deepcopy(DOCUMENT)
    damage(broken)
    with pytest.raises((OpenAPIValidationError, Unresolvable)):
        OpenAPIV30SpecValidator(broken).validate()


def test_the_document_carries_the_version_of_the_contract() -> None:
    assert DOCUMENT["openapi"] == "3.0.3"
    assert DOCUMENT["info"]["version"] == "1.0.4"
    assert [server["url"] for server in DOCUMENT["servers"]] == ["/", "/api/v1"]


def test_the_document_is_the_same_each_time() -> None:
    again = msgspec.json.encode(document(registry()))
    assert again == encoded_document(registry())
    assert encoded_document(registry()) is encoded_document(registry())


def test_every_schema_reference_can_be_resolved() -> None:
    references = [thing["$ref"] for thing in within(DOCUMENT) if isinstance(thing.get("$ref"), str)]
    assert references
    for reference in references:
        kind, name = reference.removeprefix("#/components/").split("/")
        assert name in DOCUMENT["components"][kind]


def test_every_component_of_the_document_is_used() -> None:
    used = {thing["$ref"] for thing in within(DOCUMENT) if isinstance(thing.get("$ref"), str)}
    for kind in ("schemas", "responses", "parameters", "headers"):
        assert {f"#/components/{kind}/{name}" for name in DOCUMENT["components"][kind]} <= used


def test_no_schema_uses_keywords_newer_than_openapi_3_0() -> None:
    younger = {"const", "examples", "prefixItems", "$defs", "propertyNames", "patternProperties", "title"}
    for whole in DOCUMENT["components"]["schemas"].values():
        for part in parts(whole):
            assert not younger & part.keys()
            assert part.get("type", "string") in {"string", "integer", "number", "boolean", "array", "object"}
            assert isinstance(part.get("exclusiveMinimum", False), bool)
            assert isinstance(part.get("exclusiveMaximum", False), bool)
            assert "$ref" not in part or part.keys() == {"$ref"}


def test_patterns_use_no_python_only_end_anchor() -> None:
    patterns = [part["pattern"] for part in within(DOCUMENT) if isinstance(part.get("pattern"), str)]
    assert patterns
    assert not [pattern for pattern in patterns if "\\Z" in pattern]


# Its operations


def test_every_operation_is_in_the_document_and_nothing_else() -> None:
    listed = {
        (method.upper(), path, operation["operationId"], *operation["tags"])
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert listed == ACCOUNT | {(one.method, one.path, one.id, one.group) for one in registry().operations}


@rows(("method", "path"), CONTRACT)
def test_every_endpoint_of_the_contract_is_in_the_document(method: str, path: str) -> None:
    assert method.lower() in DOCUMENT["paths"][path]


def test_the_regions_of_aws_are_described_as_in_the_contract() -> None:
    operation = registry().operation("listAWSRegions")
    assert (operation.method, operation.path, operation.group) == ("GET", "/aws/region", "Cloud Provider")
    assert {200, 401, 403, 404} <= answers(operation).keys() <= {200, 401, 403, 404, 429, 500, 503}
    region = schema("Region")
    assert set(region["required"]) == {"name", "country_code", "country", "city"}
    assert set(region["properties"]) == {*region["required"], "arm_supported", "zones"}
    assert set(schema("RegionList")["properties"]) == {"results"}


def test_groups_come_in_the_order_of_the_contract_and_each_is_described() -> None:
    names = [tag["name"] for tag in DOCUMENT["tags"]]
    assert names[:5] == ["Organizations", "Projects", "Environments", "Applications", "Databases"]
    assert set(names) == {operation.group for operation in registry().operations}
    assert all(tag["description"].endswith(".") for tag in DOCUMENT["tags"])


def test_every_operation_requires_a_token_or_a_jwt() -> None:
    assert DOCUMENT["security"] == [{"Token": []}, {"Bearer": []}]
    assert not [operation.id for operation in registry().operations if "security" in said(operation)]
    token, bearer = (DOCUMENT["components"]["securitySchemes"][name] for name in ("Token", "Bearer"))
    assert (token["type"], token["in"], token["name"]) == ("apiKey", "header", "Authorization")
    assert (bearer["type"], bearer["scheme"], bearer["bearerFormat"]) == ("http", "bearer", "JWT")


@operations()
def test_an_operation_says_which_scope_it_needs(operation: Operation) -> None:
    assert said(operation)["x-scope"] == operation.need.word


@operations()
def test_an_operation_lists_its_parameters(operation: Operation) -> None:
    wanted = set(operation.params)
    wanted |= (
        {field.encode_name for field in msgspec.structs.fields(operation.query)} if operation.query else set()
    )
    wanted |= {"Idempotency-Key"} if operation.is_repeatable else set()
    wanted |= {"If-Match"} if operation.conditional else set()
    assert parameters(operation).keys() == wanted
    assert all(parameters(operation)[name]["required"] for name in operation.params)
    assert all(parameter["description"] for parameter in parameters(operation).values())


def test_page_parameters_start_at_one_with_default_and_maximum_size() -> None:
    page, size = (parameters(registry().operation("listProjects"))[name] for name in ("page", "page_size"))
    assert page["schema"] == {
        "type": "integer", "format": "int32", "minimum": 1, "maximum": 2**31 - 1, "default": 1
    }  # fmt: skip
    assert (size["schema"]["default"], size["schema"]["maximum"], size["required"]) == (100, 1000, False)


# Its answers


@operations()
def test_every_answer_carries_the_headers(operation: Operation) -> None:
    for status, answer in answers(operation).items():
        wanted = set(EVERYWHERE)
        wanted |= {"ETag"} if operation.tagged and status < 400 else set()
        wanted |= {"Idempotency-Replayed"} if operation.is_repeatable and status < 400 else set()
        wanted |= {401: {"WWW-Authenticate"}, 429: {"Retry-After"}}.get(status, set())
        assert answer["headers"].keys() == wanted
        assert all(resolved(header)["description"] for header in answer["headers"].values())


@pytest.mark.parametrize(
    "name", ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"]
)
def test_rate_limit_headers_are_documented_as_integers(name: str) -> None:
    assert DOCUMENT["components"]["headers"][name]["schema"]["type"] == "integer"


@operations()
def test_an_operation_documents_exactly_its_possible_error_statuses(operation: Operation) -> None:
    refused = {status for status in answers(operation) if status >= 400}
    sends = operation.method == "POST" or operation.body is not None
    wanted = {401, 403, 404, 429, 500, 503}
    wanted |= {400} if sends or operation.query or operation.conditional else set()
    wanted |= {409} if operation.writes or 409 in operation.also else set()
    wanted |= {412} if operation.conditional else set()
    wanted |= {413} if sends else set()
    wanted |= {422} & {*operation.also}
    assert refused == wanted


@operations()
def test_a_success_status_is_documented_with_its_schema_or_without_content(operation: Operation) -> None:
    others = [status for status in operation.also if status < 400]
    assert [status for status in answers(operation) if status < 400] == [operation.status, *others]
    has_content = operation.answer is not None or bool(operation.media_type)
    assert ("content" in answers(operation)[operation.status]) == has_content
    assert not any("content" in answers(operation)[status] for status in others)


def test_every_error_answer_has_the_error_schema() -> None:
    error = schema("Error")
    assert set(error["required"]) == set(error["properties"]) == {"status", "error", "message", "detail"}
    for answer in DOCUMENT["components"]["responses"].values():
        assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


@operations(lambda one: one.is_array)
def test_an_operation_that_returns_an_array_documents_an_array(operation: Operation) -> None:
    listed = success(operation)
    assert listed["schema"]["type"] == "array"
    assert isinstance(listed["example"], list)
    assert resolved(listed["schema"]["items"])["properties"]


@operations(lambda one: one.listing and not one.is_array)
def test_a_list_is_documented_with_results_and_pagination(operation: Operation) -> None:
    listed = resolved(success(operation)["schema"])
    envelope = listed["allOf"][1] if "allOf" in listed else listed
    assert envelope["properties"]["results"]["type"] == "array"
    assert ("pagination" in envelope["properties"]) == (operation.paged or operation.pages_if_asked)
    assert set(envelope["required"]) == {"results", *(["pagination"] if operation.paged else [])}


def test_the_pagination_object_has_four_integers() -> None:
    fields = schema("Pagination")["properties"]
    assert list(fields) == ["page", "page_size", "total_count", "total_pages"]
    assert {field["type"] for field in fields.values()} == {"integer"}


def test_the_organization_list_extends_the_organization_schema() -> None:
    one, many = schema("OrganizationList")["allOf"]
    assert one == {"$ref": "#/components/schemas/Organization"}
    assert set(many["properties"]) == {"results", "pagination"}


# Its examples


@operations(lambda one: one.body)
def test_the_example_of_a_request_body_matches_its_schema(operation: Operation) -> None:
    assert operation.body
    assert complaints(body(operation), OAS30WriteValidator) == []
    msgspec.convert(body(operation)["example"], operation.body)


@operations(lambda one: one.answer and not one.streams)
def test_the_example_of_an_answer_matches_its_schema(operation: Operation) -> None:
    assert complaints(success(operation), OAS30ReadValidator) == []


@operations(lambda one: one.streams)
def test_the_example_of_a_stream_is_an_event_with_data_as_described(operation: Operation) -> None:
    [(kind, media)] = answers(operation)[operation.status]["content"].items()
    assert kind == "text/event-stream"
    assert complaints(media, OAS30ReadValidator) == []
    told = {"schema": media["x-data"], "example": msgspec.json.decode(media["example"]["data"])}
    assert complaints(told, OAS30ReadValidator) == []


@rows("answer", DOCUMENT["components"]["responses"].values(), ids=DOCUMENT["components"]["responses"])
def test_the_example_of_an_error_matches_its_schema(answer: Document) -> None:
    assert complaints(answer["content"]["application/json"], OAS30ReadValidator) == []


@pytest.fixture
async def world(database_url: str):
    """With an engine that runs images, as some services need."""
    async with make_world(database_url, engine=FakeEngine("image")) as made:
        yield made


async def test_example_bodies_of_creations_are_accepted_and_their_answers_match_the_schema(
    world: World,
) -> None:
    ids = {organization.param: world.org}
    for creation in creations():
        answer = await world.post(creation.path.format_map(ids), body(creation)["example"])
        assert answer.status == creation.status, answer
        assert complaints({**success(creation), "example": answer.json}, OAS30ReadValidator) == []
        assert {name.lower() for name in EVERYWHERE} < answer.headers.keys()
        assert creation.family
        ids[creation.family.param] = answer["id"]


def creations() -> Iterator[Operation]:
    """Operations that make a resource below an organization, parents before their children."""
    known = {organization.param}
    waiting = [
        one for one in registry().operations if one.parent and one.family and one.body is one.family.spec
    ]
    while waiting:
        found = next(one for one in waiting if known.issuperset(one.params))
        assert found.family
        known.add(found.family.param)
        waiting.remove(found)
        yield found


@operations(lambda one: one.family and one.body in {one.family.edit, one.family.patch})
def test_the_example_of_an_edit_omits_fields_that_cannot_be_changed(operation: Operation) -> None:
    assert operation.family
    assert not operation.family.fixed & body(operation)["example"].keys()


def test_the_example_check_notices_a_wrong_example() -> None:
    media = body(registry().operation("createProject"))
    for wrong in ({}, {"name": 1}, {"name": " "}, {"name": "shop", "color": "red"}):
        assert complaints({**media, "example": wrong}, OAS30WriteValidator)


def test_examples_look_like_something_a_person_would_write() -> None:
    sent = body(registry().operation("createApplication"))["example"]
    project = success(registry().operation("getProject"))["example"]
    assert sent["name"] == "web"
    assert sent["git_repository"]["url"] == "https://github.com/acme/shop.git"
    assert sent["ports"][0]["internal_port"] == 8080
    assert project["name"] == "shop"


@rows(
    ("told", "field", "read"),
    [
        ("deployApplication", "application_id", "getApplication"),
        ("deployApplication", "service_id", "getApplication"),
        ("deployDatabase", "service_id", "getDatabase"),
        ("getApplicationDeployment", "service_id", "getApplication"),
        ("getApplicationDeployment", "id", "deployApplication"),
        ("getApplicationDeployment", "deployment_request_id", "deployApplication"),
        ("getApplicationStatus", "id", "getApplication"),
        ("getEnvironmentStatus", "id", "getEnvironment"),
        ("getEnvironment", "cluster_id", "getCluster"),
    ],
)
def test_a_resource_has_the_same_id_in_all_examples(told: str, field: str, read: str) -> None:
    there, here = (success(registry().operation(one))["example"] for one in (told, read))
    assert there[field] == here["id"]


def test_the_example_of_deploying_a_database_has_no_application_id() -> None:
    assert "application_id" not in success(registry().operation("deployDatabase"))["example"]
