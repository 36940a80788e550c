"""Section 9: the same interface with and without the version in its path, described by one document."""

from __future__ import annotations

import pytest

from tests.contract.contract import ENDPOINTS, Endpoint, is_refused, stocked
from tests.contract.rows import row
from tests.tables import rows

EACH = [pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}") for endpoint in ENDPOINTS]


@row("1.base", "9.paths")
@rows("endpoint", EACH)
async def test_an_endpoint_answers_alike_at_the_root_and_under_api_v1(embedded, endpoint: Endpoint) -> None:
    ids, answers = await stocked(embedded), []
    for base in ("", "/api/v1"):
        again = endpoint._replace(path=base + endpoint.path, body=_renamed(endpoint, base))
        answers.append(await again.call(embedded, ids))
    plain, versioned = answers
    assert plain.status == versioned.status < 300
    if endpoint.method == "GET":
        assert plain.body == versioned.body
    else:
        assert plain.json.keys() == versioned.json.keys()


def _renamed(endpoint: Endpoint, base: str):
    """Names and keys are taken once, so the second twin has another."""
    body = dict(endpoint.body) if endpoint.body is not None else None
    for name in ("name", "key"):
        if body and base and name in body:
            body[name] += "_2"
    return body


async def test_a_resource_made_under_one_base_path_exists_under_the_other(world) -> None:
    made = await world.post(f"/api/v1/organization/{world.org}/project", {"name": "shop"})
    plain = await world.get(f"/project/{made['id']}")
    versioned = await world.get(f"/api/v1/project/{made['id']}")
    assert plain.body == versioned.body == made.body
    listed = await world.get(f"/api/v1/organization/{world.org}/project")
    assert listed["results"] == [made.json]


async def test_error_answers_under_api_v1_equal_those_at_the_root(embedded) -> None:
    for path in ("/nowhere", "/project/1", "/organization?page=0"):
        plain, versioned = await embedded.get(path), await embedded.get(f"/api/v1{path}")
        assert (plain.status, plain.body) == (versioned.status, versioned.body)
        assert plain.status >= 400


@row("9.1.0.4")
@pytest.mark.parametrize("base", ["", "/api/v1"])
async def test_the_document_is_openapi_3_0_and_carries_version_1_0_4(embedded, base: str) -> None:
    answer = await embedded.get(f"{base}/openapi.json", token=None)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer["openapi"].startswith("3.0.")
    assert answer["info"]["version"] == "1.0.4"


async def test_the_document_describes_the_15_endpoints_at_the_paths_of_the_contract(embedded) -> None:
    paths = (await embedded.get("/openapi.json"))["paths"]
    assert [one for one in ENDPOINTS if one.method.lower() not in paths.get(one.path, {})] == []
    assert not [path for path in paths if path.startswith(("/api", "/v1"))]


async def test_the_regions_are_named_and_grouped_in_the_document_as_in_the_contract(embedded) -> None:
    operation = (await embedded.get("/openapi.json"))["paths"]["/aws/region"]["get"]
    assert (operation["operationId"], operation["tags"]) == ("listAWSRegions", ["Cloud Provider"])
    assert {"200", "401", "403", "404"} <= operation["responses"].keys()


@row("9.major version")
@pytest.mark.parametrize("base", ["/v1", "/v2", "/api/v2", "/api/v0", "/api/v10", "/api"])
async def test_only_api_v1_exists_as_a_version(embedded, base: str) -> None:
    is_refused(await embedded.get(f"{base}/organization"), 404)
    assert (await embedded.get("/api/v1/organization")).status == 200
