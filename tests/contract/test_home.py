"""The page at `/`: for browsers, the same for everybody, and with nothing of anybody in it."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from tests.world import World

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_a_browser_is_shown_a_page(embedded: World):
    answer = await embedded.get("/", token=None, headers={"accept": BROWSER})
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["vary"] == "accept"
    assert "x-ratelimit-limit" in answer.headers
    for word in (b"/docs", b"windlass demo", b"WINDLASS_URL", b"API token"):
        assert word in answer.body


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "application/json, */*", "text/html;q=0, */*"]
)
async def test_every_other_client_hears_as_before_that_nothing_is_there(embedded: World, accept: str):
    answer = await embedded.get("/", headers={"accept": accept} if accept else {})
    assert (answer.status, answer.json["error"]) == (404, "Not Found")
    assert "/openapi.json" in answer.message


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_the_page_is_only_read(embedded: World, method: str):
    assert (await embedded.call(method, "/", headers={"accept": BROWSER})).status == 404


@pytest.mark.parametrize("path", ["/nowhere", "/api/v1", "/compat", "/api/v1/"])
async def test_the_page_is_at_one_path(embedded: World, path: str):
    assert (await embedded.get(path, headers={"accept": BROWSER})).status == 404


async def test_a_head_has_the_head_of_the_page_and_no_body(embedded: World):
    page = await embedded.get("/", headers={"accept": BROWSER})
    head = await embedded.call("HEAD", "/", headers={"accept": BROWSER})
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(page.body))
    assert head.headers["content-security-policy"] == page.headers["content-security-policy"]


async def test_the_page_is_the_same_for_every_caller(embedded: World):
    project = await embedded.project(name="very-own-name")
    _, other = await embedded.organization()
    callers = [None, embedded.token, other, "not-a-token"]
    pages = {(await embedded.get("/", token=one, headers={"accept": BROWSER})).body for one in callers}
    (page,) = pages
    for word in ("very-own-name", project, embedded.org, str(embedded.folder)):
        assert word.encode() not in page


async def test_only_the_pages_own_script_and_style_run_and_no_other_host_is_reached(embedded: World):
    answer = await embedded.get("/", headers={"accept": BROWSER})
    page, policy = answer.body.decode(), answer.headers["content-security-policy"]
    for tag in ("style", "script"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashed = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{hashed}'" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert not re.findall(r'\s(?:style|on[a-z]+)=["\']', page)
    assert not re.findall(r'(?:src|href)="(?!/|data:)', page)
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page)
