"""A service and an environment are copied, and an environment is exported, from their menus."""

from __future__ import annotations

import zipfile
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly


def test_a_service_and_its_environment_are_copied(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    environment = server.environment(project="Copied")
    app = server.application(environment, repository, "original")
    page = new_page(f"/application/{app}")
    copy(page)
    expect(page.get_by_role("heading", name="original-copy", level=1)).to_be_visible()
    expect(page.locator("main")).to_contain_text("It was never deployed.")
    page.goto(f"{server.url}/console/environment/{environment}")
    copy(page)
    expect(page.get_by_role("heading", name="production-copy", level=1)).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_an_environment_is_saved_as_terraform_files(server: Server, new_page: Callable[..., Page]) -> None:
    environment = server.environment(project="Saved")
    page = new_page(f"/environment/{environment}")
    page.locator("summary.icon-only").first.click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export as Terraform").click()
    assert saved.value.suggested_filename == "production-terraform.zip"
    with zipfile.ZipFile(saved.value.path()) as archive:
        assert "environment.tf" in archive.namelist()


def copy(page: Page) -> None:
    page.locator("summary.icon-only").first.click()
    page.get_by_role("button", name="Clone").click()
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text("no data")
    expect(dialog).not_to_contain_text("ID")
    dialog.get_by_role("button", name="Clone").click()
