"""The page of previews: which pull requests get one, and the approval of a fork's commit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import DOCUMENT
from tests.browser.servers import Server
from tests.browser.test_everybody import findings

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]
EXAMPLE = DOCUMENT["paths"]["/environment/{env_id}/preview"]["get"]["responses"]["200"]["content"][
    "application/json"
]["example"]["results"][0]
COMMIT = "9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07"
FORK = {
    "pull_request": 12,
    "title": "Other colours",
    "url": "https://git.example.com/acme/shop/pulls/12",
    "state": "WAITING_FOR_APPROVAL",
    "is_fork": True,
    "author": "eve",
    "commit_id": COMMIT,
    "missing_secrets": ["PAYMENT_KEY"],
}


def test_the_rule_of_previews_is_chosen_and_saved_at_once(server: Server, new_page: NewPage) -> None:
    environment = server.environment(project="Previewed")
    page = new_page(f"/environment/{environment}/preview")
    expect(page.get_by_label("None only those made here by hand")).to_be_checked()
    page.get_by_label("Every one").check()
    expect(page.locator("#notices")).to_contain_text("Every pull request gets a preview")
    rule = server.call("GET", f"/environment/{environment}/deploymentRule")
    assert (rule["auto_preview"], rule["on_demand_preview"]) == (True, False)


def test_a_commit_of_a_fork_is_approved_after_a_warning(server: Server, new_page: NewPage) -> None:
    environment = server.environment(project="Forked")
    page = new_page("/", bypass_csp=True, reduced_motion="reduce")

    def answer(route: Route) -> None:
        body = {"results": [EXAMPLE | FORK]} if route.request.method == "GET" else EXAMPLE | FORK
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))

    page.route(re.compile(r":\d+/(environment/[^/]+/)?preview\b"), answer)
    page.goto(f"{server.url}/console/environment/{environment}/preview")
    expect(page.locator(".panel.domain")).to_contain_text("waits for your approval")
    assert findings(page) == []
    page.get_by_role("button", name="Approve 9f2c4e1b").click()
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text("It gets no secrets: PAYMENT_KEY")
    with page.expect_request(lambda request: request.url.endswith("/approve")) as sent:
        dialog.get_by_role("button", name="Approve 9f2c4e1b").click()
    assert sent.value.post_data_json == {"commit_id": COMMIT}


def test_a_preview_of_a_tag_is_asked_for_with_its_image(server: Server, new_page: NewPage) -> None:
    environment = server.environment(project="Tagged")
    page = new_page(f"/environment/{environment}/preview")
    page.get_by_role("button", name="New preview").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("A tag of an image").check()
    dialog.get_by_label("Image", exact=True).fill("acme/shop")
    dialog.get_by_label("Tag", exact=True).fill("pr-12")
    dialog.get_by_role("button", name="Create").click()
    expect(page.locator(".panel.domain")).to_contain_text("acme/shop:pr-12")
