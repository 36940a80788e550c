"""The keyboard alone does what the pointer does: in dialogs, menus, lists and the terminal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


def test_enter_in_a_dialog_does_what_its_main_button_does(server: Server, new_page: NewPage) -> None:
    """Browsers close a dialog with one field at Enter, and nothing would be done."""
    environment = server.environment(project="Typed")
    page = new_page(f"/environment/{environment}/variables")
    page.get_by_role("button", name="Add a variable").click()
    page.get_by_label("Name", exact=True).fill("GREETING")
    page.get_by_label("Name", exact=True).press("Enter")
    expect(page.locator(".pending")).to_contain_text("GREETING")

    page.goto(f"{server.url}/console/environment/{environment}")
    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Delete").click()
    typed = page.locator("dialog[open] input")
    typed.press("Enter")
    expect(page.locator("dialog[open]")).to_be_visible()  # the name is not typed yet
    typed.fill("production")
    typed.press("Enter")
    expect(page.locator("#notices")).to_contain_text("production is deleted.")


def test_enter_in_the_repository_address_field_reads_the_repository(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    server.environment(project="Looked at by Enter")
    page = new_page("/new")
    page.get_by_label("Repository").fill(repository.url)
    page.get_by_label("Repository").press("Enter")
    expect(page.get_by_role("button", name="Detect again")).to_be_visible()


def test_escape_closes_an_open_menu_before_it_leaves_the_page(server: Server, new_page: NewPage) -> None:
    page = new_page(f"/environment/{server.environment(project='Menus')}")
    page.get_by_label("More actions").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Delete")).to_be_hidden()
    expect(page.get_by_role("heading", name="production", level=1)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Menus", level=1)).to_be_visible()


def test_j_and_k_move_the_focus_between_table_rows(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    """A row may have several links, such as its address."""
    environment = server.environment(project="Rows")
    for name in ("first", "second"):
        server.deploy(server.application(environment, repository, name))
    page = new_page(f"/environment/{environment}")
    expect(page.locator("tbody tr", has_text="running")).to_have_count(2)
    for key, name in (("j", "first"), ("j", "second"), ("k", "first")):
        page.keyboard.press(key)
        expect(page.locator("tbody").get_by_role("link", name=name, exact=True)).to_be_focused()


def test_a_dialog_closes_when_its_page_is_left(server: Server, new_page: NewPage) -> None:
    """Otherwise it would act on a page that is not seen."""
    page = new_page("/")
    page.get_by_role("link", name="Account").first.click()
    page.get_by_role("heading", name="Account", level=1).wait_for()
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    expect(page.locator("dialog")).to_have_count(0)


def test_a_shortcut_typed_in_a_terminal_does_not_open_the_palette(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Shells"), repository, "shell")
    server.deploy(app)
    page = new_page(f"/application/{app}/terminal")
    page.get_by_role("button", name="Open a shell").click()
    expect(page.get_by_role("log", name="Terminal")).to_contain_text("$")
    page.keyboard.press("Control+k")  # shells delete the rest of the line with it
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+k")
    expect(page.locator("dialog.palette")).to_be_visible()
