"""The page Domains of a service: each state of a domain, with what to do. Answers are made up, since name
servers and authorities are elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import DOCUMENT
from tests.browser.servers import Repository, Server
from tests.browser.test_everybody import findings

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]
EXAMPLE = DOCUMENT["paths"]["/application/{app_id}/customDomain"]["get"]["responses"]["200"]["content"][
    "application/json"
]["example"]["results"][0]
NOTHING = {"proof_lost_at": None, "next_try_at": None, "problem": "", "use_cdn": False}
LIVE = {"state": "PROVED", "certificate_state": "LIVE", "certificate_expires_at": "2099-01-01T00:00:00.000Z"}
NO_ID = "00000000-0000-0000-0000-"
SAID = "CAA record for shop.example.com prevents issuance"
CHECK = {
    "domain": "shop.example.com",
    "validation_domain": "w3.apps.example.com",
    "expected_addresses": ["192.0.2.10"],
    "resolvers": [{"server": "192.0.2.53", "addresses": ["192.0.2.99"], "aliases": [], "texts": []}],
    "caa": ["0 issue other.example"],
    "authority_message": SAID,
    "findings": [
        {"good": True, "message": "Its CNAME record proves it."},
        {"good": False, "message": "Port 80 of it does not answer."},
        {"good": False, "message": f"The authority said: {SAID}"},
    ],
}
STATES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "unproved": ({"state": "UNPROVED"}, "waiting for DNS"),
    "apex": ({"state": "UNPROVED", "domain": "example.com"}, "the address of this machine"),
    "wildcard": ({"state": "UNPROVED", "domain": "*.example.com"}, "Make these records"),
    "ordered": ({"state": "PROVED", "certificate_state": "ORDERED"}, "certificate is ordered"),
    "live": (LIVE | {"certificate_origin": "ACME"}, "live with HTTPS"),
    "failed": ({"state": "PROVED", "certificate_state": "FAILED", "problem": SAID}, SAID),
    "plain": ({"state": "PROVED", "certificate_state": "NONE", "generate_certificate": False}, "over HTTP"),
    "lost": (LIVE | {"proof_lost_at": "2026-01-01T00:00:00.000Z"}, "the record is gone"),
    "ending": (
        LIVE | {"certificate_origin": "UPLOADED", "certificate_expires_at": "2026-01-02T00:00:00.000Z"},
        "certificate ends soon",
    ),
}


def shows(page: Page, rows: list[Mapping[str, Any]]) -> None:
    """Answers for the domains of all services."""

    def answer(route: Route) -> None:
        body: Any = CHECK if route.request.url.endswith("/check") else {"results": rows}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))

    page.route(re.compile(r":\d+/application/[^/]+/customDomain"), answer)


@pytest.fixture(scope="module")
def app(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    repository = Repository(tmp_path_factory.mktemp("domains") / "repository")
    return server.application(server.environment(project="Named"), repository, "named")


def test_each_state_of_a_domain_says_what_it_is_and_what_to_do(
    server: Server, new_page: NewPage, app: str
) -> None:
    rows = [
        EXAMPLE | NOTHING | {"id": f"{NO_ID}{index:012}", "domain": f"{name}.example.org"} | more
        for index, (name, (more, _)) in enumerate(STATES.items())
    ]
    page = new_page("/", bypass_csp=True, reduced_motion="reduce")
    shows(page, rows)
    page.goto(f"{server.url}/console/application/{app}/domains")
    cards = page.locator(".panel.domain")
    expect(cards).to_have_count(len(STATES))
    for index, (_, words) in enumerate(STATES.values()):
        expect(cards.nth(index)).to_contain_text(words)
    expect(cards.first).to_contain_text(EXAMPLE["validation_domain"])
    assert findings(page) == []


def test_the_diagnosis_puts_what_is_wrong_first_and_quotes_the_authority(
    server: Server, new_page: NewPage, app: str
) -> None:
    page = new_page("/")
    shows(page, [EXAMPLE | NOTHING | {"state": "PROVED", "certificate_state": "FAILED"}])
    page.goto(f"{server.url}/console/application/{app}/domains")
    page.get_by_role("button", name="Check now").click()
    lines = page.locator(".findings li")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("Port 80 of it does not answer")
    expect(page.locator("blockquote")).to_contain_text(SAID)
    page.get_by_text("What each name server answers").click()
    expect(page.get_by_role("row", name="192.0.2.53")).to_contain_text("192.0.2.99")


def test_a_pasted_address_is_added_as_a_domain(server: Server, new_page: NewPage, app: str) -> None:
    page = new_page("/")
    shows(page, [])
    page.goto(f"{server.url}/console/application/{app}/domains")
    expect(page.locator(".empty")).to_contain_text("under a name of your own")
    page.get_by_role("button", name="Add a domain").click()
    page.get_by_label("Domain", exact=True).fill("https://shop.example.com/basket")
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.locator("dialog[open]").get_by_role("button", name="Add a domain").click()
    body = {"domain": "shop.example.com", "generate_certificate": True, "use_cdn": False}
    assert sent.value.post_data_json == body


def test_a_domain_redirects_to_another_one_of_the_service(
    server: Server, new_page: NewPage, app: str
) -> None:
    shop = EXAMPLE | NOTHING | LIVE | {"redirect_to": ""}
    rows = [shop, shop | {"id": f"{NO_ID}1", "domain": "*.example.com"}]
    page = new_page("/")
    shows(
        page,
        [*rows, shop | {"id": f"{NO_ID}2", "domain": "old.example.com", "redirect_to": "shop.example.com"}],
    )
    page.goto(f"{server.url}/console/application/{app}/domains")
    expect(page.locator(".panel.domain").nth(2)).to_contain_text("redirects to shop.example.com")
    page.get_by_role("button", name="Add a domain").click()
    page.get_by_label("Domain", exact=True).fill("www.example.com")
    choice = page.get_by_label("Redirect visitors to")
    expect(choice.locator("option")).to_have_text(["nowhere: the service answers here", "shop.example.com"])
    choice.select_option("shop.example.com")
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.locator("dialog[open]").get_by_role("button", name="Add a domain").click()
    assert (sent.value.post_data_json or {}).get("redirect_to") == "shop.example.com"
