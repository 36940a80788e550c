"""A page that is drawn again keeps what the reader typed and chose."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.servers import Repository, Server
from windlass.console.files import ROOT

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]
NO_CLIPBOARD = "Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })"


def test_the_search_field_of_an_environment_keeps_its_text_when_the_page_is_redrawn(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    environment = server.environment(project="Searched")
    for number in range(11):
        server.application(environment, repository, f"part-{number}")
    page = new_page(f"/environment/{environment}")
    search = page.get_by_role("searchbox", name="Search by name")
    search.fill("Part-1")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Choose part-10").check()  # draws the page again, and takes the focus
    expect(search).to_have_value("Part-1")
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_new_service_keeps_the_chosen_token(
    server: Server, new_page: NewPage, watch: Watch, repository: Repository
) -> None:
    watch.expected.append("status of 409")  # there is no such folder
    server.environment(project="Tokens")
    body = {"name": "ours", "type": "GITHUB", "token": "canary", "git_api_url": "https://api.github.com"}
    server.call("POST", f"/organization/{server.org}/gitToken", body)
    page = new_page("/new")
    page.get_by_label("Token for a private one").select_option(label="ours")
    page.get_by_label("Folder").fill("/nowhere")
    page.get_by_label("Repository").fill(repository.url)
    page.get_by_role("button", name="Detect").click()
    expect(page.locator("#detected [role=alert]")).to_be_visible()
    expect(page.get_by_label("Token for a private one").locator("option:checked")).to_have_text("ours")


def test_edits_of_all_settings_sections_are_kept_and_saved_together(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Sections"), repository, "edited")
    page = new_page(f"/application/{app}/settings?section=start")
    command = page.get_by_label("Release command")
    command.fill("python migrate.py")
    page.locator(".rail").get_by_role("link", name="General").click()
    page.get_by_label("Description").fill("sells rope")
    expect(page.locator(".save-bar")).to_contain_text("2 changes: Description, Release command")
    page.locator(".rail").get_by_role("link", name="Start").click()
    expect(command).to_have_value("python migrate.py")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    expect(page.locator(".save-bar")).to_contain_text("Nothing is changed yet")
    saved = server.call("GET", f"/application/{app}")
    assert (saved["description"], saved["release_command"]) == ("sells rope", "python migrate.py")


def test_unsaved_variables_survive_a_visit_to_another_tab(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Unsaved"), repository, "unsaved")
    page = new_page(f"/application/{app}/variables?add=GREETING")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value("GREETING")
    dialog.get_by_label("Value").fill("hello")
    dialog.get_by_role("button", name="Add to the changes").click()
    expect(page.locator(".pending")).to_contain_text("GREETING")
    page.locator(".tabs").get_by_role("link", name="Deployments").click()
    expect(page.locator(".pending")).to_have_count(0)
    page.locator(".tabs").get_by_role("link", name="Variables").click()
    expect(page.locator(".pending")).to_contain_text("hello")
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".pending")).to_have_count(0)
    found = server.call("GET", f"/application/{app}/environmentVariable")["results"]
    assert [row["value"] for row in found if row["key"] == "GREETING"] == ["hello"]


def test_a_settings_conflict_is_detected_against_the_version_at_the_start_of_the_edit(
    server: Server, new_page: NewPage, watch: Watch, repository: Repository
) -> None:
    """The page reads the service again when its state changes; the edit began with what was there before."""
    watch.expected.append("status of 412")
    app = server.application(server.environment(project="Compared"), repository, "compared")
    page = new_page(f"/application/{app}/settings")
    description = page.get_by_label("Description").first
    description.fill("mine")
    server.call("PATCH", f"/application/{app}", {"description": "theirs"})
    server.deploy(app)
    expect(page.locator(".service-line")).to_contain_text("running")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("dialog[open]")).to_contain_text("theirs")


def test_the_copy_button_works_without_https(server: Server, new_page: NewPage) -> None:
    """Browsers offer the clipboard over https only."""
    page = new_page("/")
    page.add_init_script(NO_CLIPBOARD)
    page.goto(f"{server.url}/console/organization/{server.org}/apiToken")
    page.get_by_text("The same with the API").click()
    page.evaluate("addEventListener('copy', () => (window.copied = String(document.activeElement.value)))")
    page.get_by_role("button", name=re.compile("^Copy: windlass api GET")).click()
    copy = page.get_by_role("button", name=re.compile("^Copy: windlass api GET"))
    expect(copy.locator("use")).to_have_attribute("href", "#icon-check")
    expect(page.locator("#live")).to_have_text("Copied")
    assert page.evaluate("window.copied") == f"windlass api GET /organization/{server.org}/apiToken"


def test_only_parts_js_uses_the_clipboard() -> None:
    assert uses_of_the_clipboard(ROOT / "js") == ["parts.js"]


def test_the_search_for_clipboard_use_finds_a_call_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text("navigator.clipboard.writeText('rope');\n")
    assert uses_of_the_clipboard(tmp_path) == ["page.js"]


def uses_of_the_clipboard(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.js") if "navigator.clipboard" in path.read_text())


def test_a_refused_variable_of_a_new_service_leads_to_the_variables_page_of_that_service(
    server: Server, new_page: NewPage, watch: Watch, repository: Repository
) -> None:
    """The service is there, and is not made again: what was typed on the former page would be lost on it."""
    watch.expected.append("status of 400")
    environment = server.environment(project="Refused")
    page = new_page(f"/new?environment={environment}")
    page.get_by_label("Repository").fill(repository.url)
    page.get_by_role("button", name="Detect").click()
    page.get_by_label("Variables").fill(f"GREETING=hello\n{'K' * 300}=x\n")
    page.get_by_role("button", name="Create and deploy").click()
    page.wait_for_url("**/application/*/variables")
    expect(page.locator("#notices [role=alert]")).to_contain_text("key:")
    expect(page.locator("main")).to_contain_text("GREETING")
    created = server.call("GET", f"/environment/{environment}/application")["results"]
    assert len(created) == 1
