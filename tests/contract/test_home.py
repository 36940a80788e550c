"""The path `/`: it leads browsers to the console, and programs to what there is."""

from __future__ import annotations

import pytest

from tests.world import World

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_browser_is_led_to_the_console(embedded: World, method: str):
    answer = await embedded.call(method, "/", token=None, headers={"accept": BROWSER})
    assert (answer.status, answer.headers["location"], answer.body) == (302, "/console/", b"")
    assert answer.headers["vary"] == "accept"
    assert "x-ratelimit-limit" in answer.headers


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "application/json, */*", "text/html;q=0, */*"]
)
async def test_the_root_path_answers_programs_with_json_and_working_links(embedded: World, accept: str):
    answer = await embedded.call("GET", "/", token=None, headers={"accept": accept} if accept else {})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["message"].startswith("This is Windlass.")
    for link in answer.json["links"].values():
        assert (await embedded.call("GET", link, token=None)).status == 200, link


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
async def test_a_script_that_waits_for_the_server_uses_no_requests_of_its_address(embedded: World, path: str):
    answers = [await embedded.call("GET", path, token=None) for _ in range(3)]
    assert len({answer.headers["x-ratelimit-remaining"] for answer in answers}) == 1
    other = [await embedded.call("GET", "/nowhere", token=None) for _ in range(2)]  # it is counted
    assert len({answer.headers["x-ratelimit-remaining"] for answer in other}) == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_the_root_path_accepts_no_write_method(embedded: World, method: str):
    assert (await embedded.call(method, "/", headers={"accept": BROWSER})).status == 404


@pytest.mark.parametrize("path", ["/nowhere", "/api/v1", "/compat", "/api/v1/"])
async def test_browsers_are_redirected_to_the_console_only_from_the_root_path(embedded: World, path: str):
    assert (await embedded.get(path, headers={"accept": BROWSER})).status == 404
