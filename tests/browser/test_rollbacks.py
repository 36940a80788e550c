"""The console shows what a rollback changes before it goes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly


def test_a_rollback_shows_the_difference_of_settings_and_secrets(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    environment = server.environment(project="Back")
    app = server.application(environment, repository, "back")
    secret = server.call("POST", f"/application/{app}/secret", {"key": "TOKEN", "value": "first value"})["id"]
    server.deploy(app)
    server.call("PATCH", f"/application/{app}", {"memory": 768})
    server.call("PATCH", f"/application/{app}/secret/{secret}", {"value": "second value"})
    server.call("POST", f"/application/{app}/environmentVariable", {"key": "COLOUR", "value": "blue"})
    repository.commit({"more.txt": "more"}, "A change")
    server.deploy(app)
    page = new_page(f"/application/{app}/deployments")
    page.get_by_role("button", name="Roll back to this").first.click()
    dialog = page.locator("dialog[open]")
    for text in ("memory", "768", "TOKEN", "changed", "COLOUR", "blue"):
        expect(dialog).to_contain_text(text)
    expect(dialog).not_to_contain_text("value")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Roll back")
    assert server.call("GET", f"/application/{app}")["memory"] == 512
    expect(page.locator(".service-line")).to_contain_text("succeeded")
    page.goto(f"{server.url}/console/environment/{environment}")
    page.locator("summary.icon-only").first.click()
    page.get_by_role("button", name="Roll back").click()
    page.locator("dialog[open] button.choice").last.click()
    expect(page.locator("dialog[open]")).to_contain_text("It runs as it did then.")
