"""The path `/`: it leads browsers to the console."""

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
async def test_other_clients_still_get_404_at_the_root(embedded: World, accept: str):
    answer = await embedded.get("/", headers={"accept": accept} if accept else {})
    assert (answer.status, answer.json["error"]) == (404, "Not Found")
    assert "/openapi.json" in answer.message


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_the_root_path_accepts_no_write_method(embedded: World, method: str):
    assert (await embedded.call(method, "/", headers={"accept": BROWSER})).status == 404


@pytest.mark.parametrize("path", ["/nowhere", "/api/v1", "/compat", "/api/v1/"])
async def test_browsers_are_redirected_to_the_console_only_from_the_root_path(embedded: World, path: str):
    assert (await embedded.get(path, headers={"accept": BROWSER})).status == 404
