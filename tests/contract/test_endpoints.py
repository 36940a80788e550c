"""Section 4: the 15 endpoints, called by a client that knows nothing but the contract; its rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.contract import (
    APPLICATION,
    COMMIT,
    CREATIONS,
    DATABASE,
    ENDPOINTS,
    KINDS,
    NOWHERE,
    Endpoint,
    filled,
    first_cluster,
    is_refused,
    names,
    stocked,
    without,
)
from tests.contract.rows import row
from tests.tables import rows

REQUIRED = {
    4: ["name"],
    5: ["name"],
    6: ["name", "git_repository", "git_repository.url", "ports.internal_port"],
    9: ["key"],
    11: ["key"],
    13: ["name", "type", "version", "mode"],
    15: ["target_url", "events"],
}
EACH = [pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}") for endpoint in ENDPOINTS]
BELOW = ENDPOINTS[2:]
IDS = ("org_id", "project_id", "env_id", "app_id", "db_id")
CREATES = [pytest.param(endpoint, id=endpoint.path.rsplit("/", 1)[1]) for endpoint in CREATIONS]


# The endpoints


@row("4.1", "4.1.200")
async def test_the_regions_of_aws_are_listed(world) -> None:
    answer = await world.call("GET", "/aws/region")
    assert answer.status == 200
    assert {"us-east-1", "eu-west-3"} <= set(names(answer))


@row("4.2")
async def test_the_organization_of_the_caller_is_answered(world) -> None:
    answer = await world.call("GET", "/organization")
    assert answer.status == 200
    assert {"id", "name", "created_at"} <= answer.json.keys()
    assert [one["id"] for one in answer["results"]] == [answer["id"]]


async def test_a_token_sees_only_its_own_organization(world) -> None:
    other, token = await world.organization()
    answer = await world.call("GET", "/organization", token=token)
    assert answer["id"] == other
    assert [one["id"] for one in answer["results"]] == [other]


@row("4.3")
async def test_the_projects_of_an_organization_are_listed(world) -> None:
    assert (await world.get(f"/organization/{world.org}/project"))["results"] == []
    await world.post(f"/organization/{world.org}/project", {"name": "shop", "description": "Sells things"})
    await world.post(f"/organization/{world.org}/project", {"name": "blog"})
    answer = await world.call("GET", f"/organization/{world.org}/project")
    assert answer.status == 200
    assert [(one["name"], one["description"]) for one in answer["results"]] == [
        ("shop", "Sells things"),
        ("blog", ""),
    ]


@row("4.4")
async def test_a_project_is_created(world) -> None:
    body = {"name": "shop", "description": "Sells things"}
    answer = await world.call("POST", f"/organization/{world.org}/project", body)
    assert answer.status in {200, 201}
    assert isinstance(answer["id"], str)
    assert (answer["name"], answer["description"]) == ("shop", "Sells things")


@row("4.5")
async def test_an_environment_is_created(world) -> None:
    body = {"name": "blue", "mode": "PRODUCTION", "cluster_id": await first_cluster(world)}
    answer = await world.call("POST", f"/project/{await world.project()}/environment", body)
    assert answer.status == 201
    assert isinstance(answer["id"], str)
    assert {name: answer[name] for name in body} == body


@row("4.6")
async def test_an_application_is_created(world) -> None:
    answer = await world.call("POST", f"/environment/{await world.environment()}/application", APPLICATION)
    assert answer.status == 201
    assert isinstance(answer["id"], str)
    assert answer["git_repository"]["url"] == "https://git.example/acme/front.git"
    assert answer["ports"][0]["internal_port"] == 3000


@row("4.7", "4.rule 2")
@pytest.mark.parametrize(
    ("raw", "commit"),
    [
        (b"", None),
        (b"null", None),
        (b"{}", None),
        (b'{"git_commit_id": null}', None),
        (b'{"git_commit_id": ""}', None),
        (b'{"git_commit_id": "%s"}' % COMMIT.encode(), COMMIT),
    ],
)
async def test_an_application_is_deployed_with_or_without_a_commit(
    embedded, raw: bytes, commit: str | None
) -> None:
    application = await embedded.application()
    answer = await embedded.call(
        "POST", f"/application/{application}/deploy", raw=raw, headers={"Content-Type": "application/json"}
    )
    assert answer.status == 202
    assert isinstance(answer["id"], str)
    assert (answer["status"], answer["application_id"]) == ("QUEUED", application)
    assert answer["git_commit_id"] == commit
    await embedded.settle()
    assert [work.service for work in embedded.engine.applied] == [application]


@row("4.8")
async def test_the_status_of_an_application_is_read(world) -> None:
    application = await world.application()
    answer = await world.call("GET", f"/application/{application}/status")
    assert answer.status == 200
    assert {"id", "state", "service_deployment_status"} <= answer.json.keys()
    assert answer["id"] == application


@row("4.9")
async def test_a_variable_is_created(world) -> None:
    body = {"key": "COLOUR", "value": "teal"}
    answer = await world.call("POST", f"/application/{await world.application()}/environmentVariable", body)
    assert answer.status == 201
    assert {name: answer[name] for name in body} == body


@row("4.10")
async def test_the_variables_of_an_application_are_listed(world) -> None:
    variables = f"/application/{await world.application()}/environmentVariable"
    for key, value in (("COLOUR", "teal"), ("EMPTY", "")):
        await world.post(variables, {"key": key, "value": value})
    answer = await world.call("GET", variables)
    assert answer.status == 200
    assert [(one["key"], one["value"]) for one in answer["results"]] == [("COLOUR", "teal"), ("EMPTY", "")]


@row("4.11")
async def test_a_secret_is_created(world) -> None:
    body = {"key": "PASSWORD", "value": "correct horse battery staple"}
    answer = await world.call("POST", f"/application/{await world.application()}/secret", body)
    assert answer.status == 201
    assert answer["key"] == "PASSWORD"
    assert isinstance(answer["id"], str)


@row("4.12")
async def test_tail_returns_that_many_of_the_newest_log_lines_oldest_first(world) -> None:
    application = await world.application()
    said(world, application, *(f"line {number}" for number in range(1, 21)))
    for tail, first in ((1, 20), (3, 18), (20, 1), (10_000, 1)):
        answer = await world.call("GET", f"/application/{application}/log?tail={tail}")
        assert answer.status == 200
        assert messages(answer) == [f"line {number}" for number in range(first, 21)]


async def test_without_a_tail_the_log_is_its_last_thousand_lines(embedded) -> None:
    application = await embedded.application()
    said(embedded, application, *(f"line {number}" for number in range(1, 1002)))
    answer = await embedded.get(f"/application/{application}/log")
    assert messages(answer) == [f"line {number}" for number in range(2, 1002)]


async def test_the_log_of_a_service_that_never_ran_is_empty(embedded) -> None:
    answer = await embedded.get(f"/application/{await embedded.application()}/log?tail=5")
    assert (answer.status, answer["results"]) == (200, [])


@pytest.mark.parametrize("tail", ["0", "-1", "10001", "ten", "1.5", "", "%20", "1&tail=2"])
async def test_an_invalid_tail_is_refused_by_parameter_name(embedded, tail: str) -> None:
    application = await embedded.application()
    is_refused(await embedded.get(f"/application/{application}/log?tail={tail}"), 400, "tail: ")


async def test_the_reason_of_a_failed_deployment_is_in_the_log(world) -> None:
    world.engine.broken = "the image has no command to run"
    application = await world.application()
    await world.post(f"/application/{application}/deploy")
    await world.settle()
    assert (
        "the image has no command to run" in messages(await world.get(f"/application/{application}/log"))[-1]
    )


def said(world, service: str, *lines: str) -> None:
    """Writes output of a service into its log."""
    world.installation.ctx.logs.write(service, world.clock.now(), *lines)


def messages(answer: Any) -> list[str]:
    return [line["message"] for line in answer["results"]]


@row("4.13")
async def test_a_database_is_created(world) -> None:
    answer = await world.call("POST", f"/environment/{await world.environment()}/database", DATABASE)
    assert answer.status == 201
    assert isinstance(answer["id"], str)
    assert {name: answer[name] for name in DATABASE} == DATABASE


@row("4.14")
@pytest.mark.parametrize("raw", [b"", b"null", b"{}"])
async def test_a_database_is_deployed(embedded, raw: bytes) -> None:
    database = await embedded.database()
    answer = await embedded.call("POST", f"/database/{database}/deploy", raw=raw)
    assert answer.status == 202
    assert (answer["status"], answer["service_id"]) == ("QUEUED", database)
    assert "application_id" not in answer.json
    await embedded.settle()
    assert await embedded.state(f"/database/{database}") == "RUNNING"


@row("4.15")
async def test_a_webhook_is_created(world) -> None:
    body = {"target_url": "https://hooks.example/deployments", "events": KINDS, "enabled": True}
    answer = await world.call("POST", f"/organization/{world.org}/webhook", body)
    assert answer.status == 201
    assert isinstance(answer["id"], str)
    assert {name: answer[name] for name in body} == body


# Refused callers and missing resources


@row("4.authentication", "4.1.401")
@rows("endpoint", EACH)
async def test_every_endpoint_requires_credentials(embedded, endpoint: Endpoint) -> None:
    ids = await stocked(embedded)
    is_refused(await endpoint.call(embedded, ids, token=None), 401, "Authorization")
    is_refused(await endpoint.call(embedded, ids, token="wdl_" + "x" * 49), 401)
    assert (await endpoint.call(embedded, ids)).status < 300


@row("4.1.403")
@rows("endpoint", EACH)
async def test_every_write_endpoint_refuses_a_read_token(embedded, endpoint: Endpoint) -> None:
    ids, token = await stocked(embedded), await embedded.new_token("Read")
    answer = await endpoint.call(embedded, ids, token=token)
    if endpoint.need == "Read":
        assert answer.status == 200
    else:
        is_refused(answer, 403, endpoint.need)


@row("4.1.404")
async def test_an_unknown_path_below_the_regions_is_not_found(embedded) -> None:
    for path in ("/aws/region/eu-west-3", "/aws/regions", "/aws", "/aws/region/", "/nimbus/region"):
        is_refused(await embedded.get(path), 404)


async def test_a_resource_id_of_any_form_without_a_resource_is_not_found(world) -> None:
    cluster = {"cluster_id": await first_cluster(world)}
    odd = (NOWHERE, NOWHERE.upper(), "1", "%", "é", "a b", "'; DROP TABLE resource; --", "x" * 5000, "\x00")
    for endpoint in BELOW:
        for id in odd:
            is_refused(await endpoint.call(world, cluster | dict.fromkeys(IDS, id)), 404)


async def test_resources_of_another_organization_are_not_found(world) -> None:
    ids = await stocked(world)
    _, token = await world.organization()
    for endpoint in BELOW:
        foreign = await endpoint.call(world, ids, token=token)
        absent = await endpoint.call(world, ids | dict.fromkeys(IDS, NOWHERE), token=token)
        is_refused(foreign, 404)
        assert foreign.body == absent.body
        assert (await endpoint.call(world, ids)).status < 300


# Rules


@row("4.rule 1", "1.json")
async def test_bodies_are_json_in_both_directions(embedded) -> None:
    ids = await stocked(embedded)
    for endpoint in ENDPOINTS:
        answer = await endpoint.call(embedded, ids, headers={"Content-Type": "application/json"})
        assert answer.status < 300
        assert answer.headers["content-type"] == "application/json"
        assert isinstance(answer.json, dict)


async def test_a_json_content_type_may_declare_the_utf_8_charset(embedded) -> None:
    projects = f"/organization/{embedded.org}/project"
    for place, kind in enumerate(("application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"')):
        answer = await embedded.post(projects, {"name": f"p{place}"}, headers={"Content-Type": kind})
        assert answer.status == 200


@row("4.rule 3")
@rows(
    ("endpoint", "path"),
    [
        pytest.param(endpoint, path, id=f"{endpoint.path.rsplit('/', 1)[1]}-{path}")
        for endpoint in CREATIONS
        for path in REQUIRED[endpoint.number]
    ],
)
async def test_a_required_field_that_is_missing_is_named(embedded, endpoint: Endpoint, path: str) -> None:
    ids = await stocked(embedded)
    body = without(filled(endpoint.body, ids), path)
    answer = await embedded.post(endpoint.path.format(**ids), body)
    is_refused(answer, 400, path.replace("ports.", "ports[0].") + ": is required")


@pytest.mark.parametrize("endpoint", CREATES)
async def test_an_empty_body_misses_the_first_required_field(embedded, endpoint: Endpoint) -> None:
    ids = await stocked(embedded)
    answers = [
        await embedded.call("POST", endpoint.path.format(**ids), raw=raw) for raw in (b"", b"null", b"{}")
    ]
    for answer in answers:
        is_refused(answer, 400, ": is required")
    assert len({answer.body for answer in answers}) == 1


@pytest.mark.parametrize("endpoint", CREATES)
async def test_a_refused_creation_leaves_the_collection_unchanged(embedded, endpoint: Endpoint) -> None:
    ids = await stocked(embedded)
    collection = endpoint.path.format(**ids)
    before = (await embedded.get(collection)).body
    assert (await embedded.post(collection, {"nonsense": 1})).status == 400
    assert (await endpoint.call(embedded, ids, token=await embedded.new_token("Deploy"))).status == 403
    assert (await embedded.get(collection)).body == before
