"""Section 7: one test for each status, and the error body that never says too much."""

from __future__ import annotations

import pytest

from tests.contract.contract import ENDPOINTS, NOWHERE, is_refused
from tests.contract.rows import row
from tests.world import Answer, World


@row("7.200")
async def test_a_successful_read_is_answered_with_200(world) -> None:
    assert (await world.get(f"/organization/{world.org}/project")).status == 200


@row("7.201")
async def test_a_creation_is_answered_with_201(world) -> None:
    path = f"/project/{await world.project()}/environment"
    assert (await world.post(path, {"name": "blue"})).status == 201


@row("7.204")
async def test_204_has_neither_a_body_nor_content_headers(world) -> None:
    project = await world.project()
    answer = await world.delete(f"/project/{project}")
    assert (answer.status, answer.body) == (204, b"")
    assert "content-type" not in answer.headers
    assert "content-length" not in answer.headers
    assert (await world.get(f"/project/{project}")).status == 404


@row("7.400")
async def test_400_is_invalid_input_and_the_message_names_the_field(world) -> None:
    answer = await world.post(f"/organization/{world.org}/project", {"description": "No name"})
    is_refused(answer, 400)
    assert answer.message == "name: is required"


@row("7.401")
async def test_401_is_a_token_that_is_missing_or_invalid(world) -> None:
    is_refused(await world.get("/organization", token=None), 401)
    is_refused(await world.get("/organization", token="wdl_not-a-token"), 401)


@row("7.403")
async def test_403_is_a_token_that_lacks_permissions(world) -> None:
    token = await world.new_token("Read")
    path = f"/organization/{world.org}/project"
    is_refused(await world.post(path, {"name": "shop"}, token=token), 403, "Write")


@row("7.404")
async def test_404_is_a_resource_that_does_not_exist(world) -> None:
    is_refused(await world.get(f"/application/{NOWHERE}/status"), 404, "application")


@row("7.429")
async def test_an_exceeded_rate_limit_is_answered_with_429(world) -> None:
    token = await world.new_token("Read", rate_limit=1)
    assert (await world.get("/organization", token=token)).status == 200
    is_refused(await world.get("/organization", token=token), 429, "1 request", "3600 seconds")


@row("7.500")
async def test_500_reveals_no_internals_and_points_to_the_request_id(world) -> None:
    answer = await broken(world)
    is_refused(answer, 500)
    assert answer.message == "Something went wrong here; the log has the request id of this answer"
    assert answer.headers["x-request-id"]


async def test_requests_after_a_500_are_served(world) -> None:
    assert (await broken(world)).status == 500
    project = await world.project(name="next")
    assert (await world.get(f"/project/{project}")).status == 200


async def broken(world: World) -> Answer:
    """Damages a record in the database, then changes its resource."""
    project = await world.project()
    await world.installation.ctx.store.write(lambda tx: tx.resources.rewrite(project, b"{half a docu"))
    return await world.put(f"/project/{project}", {"description": "New"})


# The body


@row("7.status", "7.error", "7.message")
async def test_an_error_body_has_status_error_and_message(world) -> None:
    answer = await world.get(f"/project/{NOWHERE}")
    assert answer.json == {
        "status": 404,
        "error": "Not Found",
        "message": "No project with this id was found: check the id, and the organization of the token",
        "detail": "No project with this id was found: check the id, and the organization of the token",
    }


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"])
@pytest.mark.parametrize(
    "path", ["//", "/nowhere", "/application", "/project/", "/api", "/api/v1", "/é", "/%"]
)
async def test_an_unknown_path_is_answered_with_the_usual_error(embedded, method: str, path: str) -> None:
    is_refused(await embedded.call(method, path), 404, "/openapi.json")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "BREW"])
async def test_only_get_is_answered_at_the_root(embedded, method: str) -> None:
    is_refused(await embedded.call(method, "/"), 404, "/openapi.json")


async def test_a_409_names_the_conflicting_field_and_resource(world) -> None:
    await world.project(name="shop")
    answer = await world.post(f"/organization/{world.org}/project", {"name": "Shop"})
    is_refused(answer, 409, "name: ", "Shop", "change it, or choose another name")


async def test_no_error_message_echoes_tokens_paths_or_sql(embedded) -> None:
    """A token in the wrong place, a path of this machine, a piece of SQL: none of it is said back."""
    token = await embedded.new_token("Read")
    for endpoint in ENDPOINTS[2:]:
        path = endpoint.path
        for name in ("org_id", "project_id", "env_id", "app_id", "db_id"):
            path = path.replace("{" + name + "}", "SELECT secret FROM resource")
        answer = await embedded.call(endpoint.method, path, {"name": "x"}, token=f"Token {token}")
        assert answer.status in {403, 404}
        for word in (token, "SELECT", "resource", str(embedded.folder), "Traceback", "windlass.db"):
            assert word not in answer.message
