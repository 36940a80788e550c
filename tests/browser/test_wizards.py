"""Tokens, git tokens and clusters are made in forms that say how, and tried before they are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


def test_the_limits_of_a_token_are_picked_from_the_tree_of_the_organization(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    environment = server.environment(project="Picked")
    app = server.application(environment, repository, "picked-shop")
    page = new_page(f"/organization/{server.org}/apiToken")
    page.get_by_role("button", name="New API token").first.click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Name").fill("only the shop")
    dialog.get_by_label("Deploy can trigger").check()
    dialog.get_by_label("30 days").check()
    dialog.get_by_label("Only chosen parts").check()
    dialog.get_by_label("Picked", exact=True).check()
    expect(dialog.get_by_label("picked-shop")).to_be_disabled()  # it is within the project
    dialog.get_by_label("Picked", exact=True).uncheck()
    dialog.get_by_label("picked-shop").check()
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator("dialog[open] .code-line")).to_contain_text("wdl_")
    made = [
        one
        for one in server.call("GET", f"/organization/{server.org}/apiToken")["results"]
        if one["name"] == "only the shop"
    ]
    assert [one["limited_to"] for one in made] == [[app]]
    assert made[0]["expires_at"]


def test_a_git_token_that_does_not_read_its_repository_is_not_kept(
    server: Server, new_page: NewPage, watch: Watch, repository: Repository
) -> None:
    watch.expected.append("status of 4")
    page = new_page(f"/organization/{server.org}/gitToken")
    page.get_by_role("button", name="New git token").first.click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator(".how")).to_contain_text("read-only")
    dialog.get_by_label("Gitea, Forgejo").check()
    expect(dialog.get_by_label("Address of its API")).to_be_visible()
    dialog.get_by_label("Bitbucket").check()
    expect(dialog.get_by_label("Workspace")).to_be_visible()
    dialog.get_by_label("GitLab").check()
    expect(dialog.locator(".how")).to_contain_text("read_repository")
    dialog.get_by_label("Name").fill("ours")
    dialog.get_by_label("Token", exact=True).fill("glpat-of-the-test")
    dialog.get_by_label("Try it on a private repository").fill(f"{repository.url}-that-is-not-there")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(dialog.locator(".field-error")).to_contain_text("The token is not kept")
    assert server.call("GET", f"/organization/{server.org}/gitToken")["results"] == []
    dialog.get_by_label("Try it on a private repository").fill(repository.url)
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("link", name="ours")).to_be_visible()
