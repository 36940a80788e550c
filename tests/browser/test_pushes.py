"""Push webhooks in the browser: their state, address and account, and repositories that git tokens see."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.servers import Repository, Server
from tests.pushes.deliveries import github, push

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


def deliver(url: str, secret: str, body: bytes) -> int:
    request = urllib.request.Request(url, body, headers=github(secret, body), method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_a_webhook_is_set_up_by_hand_and_its_deliveries_are_listed(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Told pushes"), repository, "told")
    page = new_page(f"/application/{app}/settings")
    expect(page.get_by_text("Not set up")).to_be_visible()
    page.get_by_role("button", name="Enter by hand").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("git-webhook/")
    url, secret = dialog.locator("code").all_inner_texts()
    dialog.get_by_role("button", name="I have kept it").click()
    expect(page.get_by_text("Cannot be verified")).to_be_visible()
    assert deliver(url, "another secret", push("f" * 40)) == 401
    assert deliver(url, secret, push("f" * 40, "next")) == 202
    page.reload()
    expect(page.get_by_text("The git server sends pushes")).to_be_visible()
    account = page.get_by_role("list", name="Recent pushes")
    expect(account).to_contain_text("the signature does not match")
    expect(account).to_contain_text("auto_deploy is off")


def test_a_repository_that_a_git_token_sees_is_chosen_with_its_token(
    server: Server, new_page: NewPage
) -> None:
    environment = server.environment(project="Seen repositories")
    body = {"name": "ours", "type": "GITHUB", "token": "t0ken"}
    token = server.call("POST", f"/organization/{server.org}/gitToken", body)["id"]
    url = "https://github.com/acme/shop.git"

    def answer(route: Route) -> None:
        found = [{"id": "1", "name": "acme/shop", "url": url}]
        route.fulfill(content_type="application/json", body=json.dumps({"results": found}))

    page = new_page("/")
    page.route(re.compile(r".*/account/github/repository.*"), answer)
    page.goto(f"{server.url}/console/new?environment={environment}")
    page.get_by_label("Repository").focus()
    expect(page.locator("#repositories option")).to_have_attribute("value", url)
    page.get_by_label("Repository").fill(url)
    expect(page.locator("#token")).to_have_value(token)
