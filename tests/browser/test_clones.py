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


def test_a_clone_shows_what_is_copied_before_it_is_made(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    environment = server.environment(project="Shown")
    app = server.application(environment, repository, "shown")
    server.call("POST", f"/application/{app}/environmentVariable", {"key": "COLOUR", "value": "red"})
    server.call(
        "PATCH", f"/application/{app}", {"storage": [{"type": "FAST_SSD", "size": 1, "mount_point": "/data"}]}
    )
    page = new_page(f"/environment/{environment}")
    page.locator("summary.icon-only").first.click()
    page.get_by_role("button", name="Clone").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_role("button", name="Show what is copied").click()
    for text in ("COLOUR", "default-applications", "/data", "Data is not copied"):
        expect(dialog).to_contain_text(text)
    services = server.call("GET", f"/environment/{environment}/services")["results"]
    assert [one["name"] for one in services] == ["shown"]


def test_the_history_of_a_variable_says_from_what_to_what(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    app = server.application(server.environment(project="Told"), repository, "told")
    path = f"/application/{app}/environmentVariable"
    variable = server.call("POST", path, {"key": "COLOUR", "value": "red"})["id"]
    server.call("PATCH", f"{path}/{variable}", {"value": "blue"})
    page = new_page(f"/application/{app}/variables")
    row = page.locator("tr", has_text="COLOUR")
    row.locator("summary").click()
    row.get_by_role("button", name="Who changed it").click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("tbody tr")).to_have_count(2)
    expect(dialog.locator("tbody tr").first).to_contain_text("red blue")
    expect(dialog).to_contain_text("operator")


def test_a_variable_says_which_services_use_it(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    environment = server.environment(project="Uses")
    app = server.application(environment, repository, "using")
    server.application(environment, repository, "beside")
    server.call("POST", f"/environment/{environment}/environmentVariable", {"key": "CITY", "value": "Oslo"})
    title = {"key": "TITLE", "value": "Shop of {{CITY}}"}
    server.call("POST", f"/application/{app}/environmentVariable", title)
    page = new_page(f"/application/{app}/variables")
    row = page.locator("tr", has=page.get_by_text("CITY", exact=True))
    row.locator("summary").click()
    row.get_by_role("button", name="Who uses it").click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("tbody tr")).to_have_count(2)
    expect(dialog.locator("tr", has_text="using")).to_contain_text("In TITLE")
    expect(dialog.locator("tr", has_text="beside")).to_contain_text("gets it")


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
