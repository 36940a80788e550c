"""Sections 1 and 4 as HTTP has it: methods, HEAD, OPTIONS, other origins, and the name of a request."""

from __future__ import annotations

import re

import pytest

from tests.contract.contract import ENDPOINTS, NOWHERE, Endpoint, is_refused, says_its_limits, stocked
from tests.contract.rows import row
from tests.world import make_world

PAGES = ["/openapi.json", "/docs", "/healthz", "/readyz"]
CONSOLE = "https://console.example.com"
READS = [pytest.param(one, id=one.path) for one in ENDPOINTS if one.method == "GET"]


async def methods_by_path(world) -> dict[str, set[str]]:
    """Returns the operations of the document by path, with the ids of no resource."""
    paths = (await world.get("/openapi.json"))["paths"]
    filled = {re.sub(r"{\w+}", NOWHERE, path): methods for path, methods in paths.items()}
    return {path: {method.upper() for method in methods} for path, methods in filled.items()}


def allow(methods: set[str]) -> str:
    return ", ".join(sorted(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())))


@row("1.style")
async def test_a_resource_supports_get_put_and_delete_at_its_path(world) -> None:
    made = await world.call("POST", f"/organization/{world.org}/project", {"name": "shop"})
    item = f"/project/{made['id']}"
    assert (await world.call("GET", item))["name"] == "shop"
    assert (await world.call("PUT", item, {"name": "store"}))["name"] == "store"
    assert (await world.call("DELETE", item)).status == 204
    assert (await world.call("GET", item)).status == 404
    assert (await world.call("DELETE", item)).status == 404


async def test_another_method_is_refused_with_all_that_are_allowed(embedded) -> None:
    for path, methods in (await methods_by_path(embedded)).items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"} - methods:
            answer = await embedded.call(method, path, token=None)
            is_refused(answer, 405, method, "Allow")
            assert answer.headers["allow"] == allow(methods), (method, path)


@pytest.mark.parametrize("path", PAGES)
async def test_documentation_pages_accept_only_get_head_and_options(embedded, path: str) -> None:
    answer = await embedded.call("POST", path, {})
    is_refused(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("endpoint", READS)
async def test_head_is_get_without_the_body(embedded, endpoint: Endpoint) -> None:
    path = endpoint.path.format(**await stocked(embedded))
    whole, head = await embedded.get(path), await embedded.call("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    for name in ("content-length", "content-type"):
        assert head.headers[name] == whole.headers[name]
    assert int(head.headers["content-length"]) == len(whole.body)


async def test_head_is_refused_with_the_same_status_as_get(embedded) -> None:
    for path, status in (("/organization", 401), ("/nowhere", 404)):
        answer = await embedded.call("HEAD", path, token=None)
        assert (answer.status, answer.body) == (status, b"")
        says_its_limits(answer)


async def test_options_lists_the_methods_without_credentials(embedded) -> None:
    for path, methods in (await methods_by_path(embedded)).items():
        answer = await embedded.call("OPTIONS", path, token=None)
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["allow"] == allow(methods)


async def test_options_on_an_unknown_path_is_not_found(embedded) -> None:
    is_refused(await embedded.call("OPTIONS", "/nowhere", token=None), 404)


# Other origins


@pytest.fixture
async def shared():
    async with make_world(cors_origins=(CONSOLE, "https://other.example")) as world:
        yield world


async def test_a_preflight_from_a_configured_origin_is_allowed(shared) -> None:
    asked = {
        "Origin": CONSOLE,
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "if-match",
    }
    answer = await shared.call("OPTIONS", f"/project/{NOWHERE}", token=None, headers=asked)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == CONSOLE
    assert listed(answer, "allow-methods") == {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "PUT"}
    needed = {"authorization", "content-type", "idempotency-key", "if-match", "x-request-id"}
    assert needed <= listed(answer, "allow-headers")
    assert answer.headers["vary"] == "origin"


async def test_a_page_of_a_configured_origin_reads_the_answer_and_its_headers(shared) -> None:
    for path, status in (("/organization", 200), ("/nowhere", 404), ("/openapi.json", 200)):
        answer = await shared.get(path, headers={"Origin": CONSOLE})
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] in {CONSOLE, "*"}
        exposed = {"etag", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
        assert exposed <= listed(answer, "expose-headers")
        assert answer.headers["vary"] == "origin"


async def test_an_error_answer_has_cors_headers_for_a_configured_origin(shared) -> None:
    answer = await shared.get("/organization", token=None, headers={"Origin": CONSOLE})
    is_refused(answer, 401)
    assert answer.headers["access-control-allow-origin"] == CONSOLE


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", CONSOLE + ".evil.example", CONSOLE.upper(), "", "*"]
)
async def test_another_origin_gets_no_cors_headers(shared, origin: str) -> None:
    for method in ("OPTIONS", "GET"):
        answer = await shared.call(method, "/organization", headers={"Origin": origin})
        assert answer.status < 300
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert answer.headers["vary"] == "origin"


async def test_without_configured_origins_no_answer_has_cors_headers(embedded) -> None:
    for method in ("OPTIONS", "GET"):
        answer = await embedded.call(method, "/organization", headers={"Origin": CONSOLE})
        assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_cors_answers_never_allow_browser_credentials(shared) -> None:
    answer = await shared.get("/organization", headers={"Origin": CONSOLE})
    assert "access-control-allow-credentials" not in answer.headers


def listed(answer, name: str) -> set[str]:
    return set(answer.headers[f"access-control-{name}"].split(", "))


# The name of a request


@pytest.mark.parametrize("name", ["a", "req-42_B", "x" * 64])
async def test_a_request_id_sent_by_the_caller_is_returned(embedded, name: str) -> None:
    for path in ("/organization", "/nowhere"):
        answer = await embedded.get(path, headers={"X-Request-Id": name})
        assert answer.headers["x-request-id"] == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a\tb", 'a"', "<a>", "a;b", "é", "a\r\nb"])
async def test_an_unsafe_request_id_is_replaced(embedded, name: str) -> None:
    answer = await embedded.get("/organization", headers={"X-Request-Id": name})
    assert answer.status == 200
    assert answer.headers["x-request-id"] not in {name, ""}


async def test_every_request_has_a_unique_id(embedded) -> None:
    given = [(await embedded.get("/aws/region")).headers["x-request-id"] for _ in range(50)]
    assert len(set(given)) == 50


async def test_answers_forbid_caching_and_content_sniffing(embedded) -> None:
    for path in ("/organization", "/nowhere", "/openapi.json"):
        answer = await embedded.get(path)
        kept = {"/openapi.json": "no-cache"}  # it has no secrets, and is asked for again each time
        assert answer.headers["cache-control"] == kept.get(path, "no-store")
        assert answer.headers["x-content-type-options"] == "nosniff"
