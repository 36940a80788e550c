"""An error of a form stands next to the field that it names, and typed text is not lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]
NUMBERS = itertools.count()


@pytest.fixture
def environment(server: Server) -> str:
    return server.environment(project=f"Errors {next(NUMBERS)}")


def error_at(field: Locator, text: str) -> None:
    """Expects the error at the field, the focus in it, and no notice elsewhere."""
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    page = field.page
    expect(field.locator("xpath=ancestor::*[@data-field][1]").locator(".field-error")).to_have_text(text)
    expect(page.locator(".field-error")).to_have_count(1)
    expect(page.locator(".notice.bad")).to_have_count(0)


@pytest.mark.parametrize("family", ["apiToken", "gitToken", "containerRegistry", "cluster"])
def test_a_form_that_is_drawn_from_the_document_shows_errors_at_the_field(
    server: Server, new_page: NewPage, watch: Watch, family: str
) -> None:
    watch.expected.append("status of 400")
    page = new_page(f"/organization/{server.org}/{family}")
    page.locator("main .button.main").first.click()
    page.locator("dialog[open] .dialog-actions .main").click()
    name = page.locator("dialog[open] [data-field=name] input")
    error_at(name, "Name is required")
    name.press_sequentially("x")
    expect(page.locator(".field-error")).to_have_count(0)


def test_an_error_in_a_row_of_a_list_opens_its_section_and_stands_in_that_row(
    server: Server, new_page: NewPage, watch: Watch, environment: str, repository: Repository
) -> None:
    watch.expected.append("status of 400")
    app = server.application(environment, repository, "rows")
    page = new_page(f"/application/{app}/settings?section=ports")
    section = page.locator(".settings-section:not([hidden])")
    for row in range(2):
        section.get_by_role("button", name="Add", exact=True).first.click()
        section.locator("[data-field=internal_port] input").nth(row).fill(["8080", "99999"][row])
    page.get_by_role("button", name="Save", exact=True).click()
    error_at(section.locator("[data-field=internal_port] input").nth(1), "Port must be at most 65535")


def test_a_new_application_shows_errors_at_the_field(
    new_page: NewPage, watch: Watch, environment: str, repository: Repository
) -> None:
    watch.expected.append("status of 400")
    page = new_page(f"/new?environment={environment}")
    url, look = page.get_by_label("Repository"), page.get_by_role("button", name="Detect")
    look.click()
    error_at(url, "Paste the address of a repository.")
    url.fill("/srv/shop")
    look.click()
    error_at(url, "Repository must be an address such as https://host/owner/repository.git")
    url.fill(repository.url)
    look.click()
    create = page.get_by_role("button", name="Create only")
    wrong = [
        ("Name", "", "Name must not be empty"),
        ("Public port", "99999", "Public port must be at most 65535"),
    ]
    for label, value, text in [*wrong, ("Variables", "GREETING", "Line 1: write it as KEY=value.")]:
        field = page.get_by_label(label)
        before = field.input_value()
        field.fill(value)
        create.click()
        error_at(field, text)
        field.fill(before)


def test_the_variable_dialog_refuses_missing_malformed_and_duplicate_names(
    server: Server, new_page: NewPage, environment: str, repository: Repository
) -> None:
    page = new_page(f"/application/{server.application(environment, repository, 'names')}/variables")
    page.get_by_role("button", name="Add a variable").click()
    dialog = page.locator("dialog[open]")
    name, done = dialog.get_by_label("Name"), dialog.get_by_role("button", name="Add to the changes")
    done.click()
    error_at(name, "Name it, such as GREETING.")
    name.fill("1 fine day")
    done.click()
    expect(dialog.locator(".field-error")).to_contain_text("Begin it with a letter")
    for key in ("GREETING", "NAME"):
        name.fill(key)
        done.click()
        if key == "GREETING":
            page.get_by_role("button", name="Add a variable").click()
    page.get_by_role("button", name="Paste a .env file").click()
    dialog.get_by_role("textbox").fill("A=1\nbroken")
    done.click()
    error_at(dialog.get_by_role("textbox"), "Line 2: write it as KEY=value.")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_title("Discard the change of NAME").click()
    expect(page.locator(".pending .key")).to_have_text(["GREETING"])


def test_text_that_is_typed_in_a_dialog_is_not_lost_without_a_question(
    server: Server, new_page: NewPage, environment: str, repository: Repository
) -> None:
    page = new_page(f"/application/{server.application(environment, repository, 'typed')}/variables")
    dialogs = page.locator("dialog[open]")
    for leave in (lambda: page.keyboard.press("Escape"), lambda: page.mouse.click(5, 5)):
        page.get_by_role("button", name="Add a variable").click()
        dialogs.get_by_label("Name").fill("GREETING")
        leave()
        question = page.locator("dialog[open]", has_text="Leave without saving?")
        question.get_by_role("button", name="Cancel").click()
        expect(dialogs.get_by_label("Name")).to_have_value("GREETING")
        leave()
        question.get_by_role("button", name="Leave").click()
        expect(dialogs).to_have_count(0)
    page.get_by_role("button", name="Add a variable").click()  # nothing is typed: no question
    page.keyboard.press("Escape")
    expect(dialogs).to_have_count(0)


def test_a_filled_in_new_service_form_asks_before_leaving(new_page: NewPage, environment: str) -> None:
    page = new_page(f"/new?environment={environment}&kind=database")
    page.get_by_label("Name").fill("orders")
    page.get_by_role("button", name="Job", exact=True).click()
    page.get_by_role("button", name="Database", exact=True).click()
    expect(page.get_by_label("Name")).to_have_value("orders")
    page.get_by_role("link", name="Overview").first.click()
    page.locator("dialog[open]").get_by_role("button", name="Cancel").click()
    expect(page.get_by_label("Name")).to_have_value("orders")
    page.get_by_role("button", name="Create only").click()
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()
