"""An address of the console that another person has made up leads to no other request than the page says."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server
from tests.marks import nightly

pytestmark = pytest.mark.slow

NewPage = Callable[..., Page]


@pytest.mark.parametrize("name", ["constructor", *nightly("toString")])
def test_a_page_path_named_like_an_object_prototype_property_is_not_found(
    server: Server, new_page: NewPage, watch, name: str
) -> None:
    watch.expected += ["status of 404", "not in the OpenAPI document"]
    page = new_page(f"/organization/{server.org}/{name}")
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()


@pytest.mark.parametrize("kind", ["constructor", *nightly("__proto__", "nothing", "../project")])
def test_an_unknown_kind_in_the_address_selects_the_default_kind(
    server: Server, new_page: NewPage, kind: str
) -> None:
    page = new_page(f"/new?{urlencode({'kind': kind})}")
    expect(page.locator(".kinds [aria-pressed=true]")).to_have_text("Application from git")


def test_a_service_is_created_in_the_environment_selected_on_the_page_even_with_a_crafted_address(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    server.environment(project="Crafted")
    crafted = f"../organization/{server.org}/apiToken?"
    page = new_page(f"/new?{urlencode({'environment': crafted, 'url': repository.url})}")
    first = page.get_by_label("Environment").input_value()
    page.get_by_role("button", name="Detect").click()
    page.get_by_label("Name", exact=True).fill("crafted")
    with page.expect_request(
        lambda request: request.method == "POST" and "detect" not in request.url
    ) as sent:
        page.get_by_role("button", name="Create only").click()
    assert sent.value.url == f"{server.url}/environment/{first}/application"


def test_a_crafted_id_in_the_address_cannot_change_the_request_path(
    server: Server, new_page: NewPage, watch
) -> None:
    watch.expected += ["status of 404", "not in the OpenAPI document"]
    made = server.call("POST", f"/organization/{server.org}/project", {"name": "Stays"})
    crafted = {"app_id": f"../project/{made['id']}?", "org_id": "00000000-0000-4000-8000-000000000000"}
    page = new_page(f"/do/deleteApplication?{urlencode(crafted)}")
    with page.expect_response(lambda answer: answer.request.method == "DELETE") as answered:
        page.locator("main").get_by_role("button", name="Delete").first.click()
    assert answered.value.status == 404
    assert server.call("GET", f"/project/{made['id']}")["name"] == "Stays"
    page = new_page(f"/do/createProject?{urlencode(crafted)}")
    expect(page.locator("pre").first).to_contain_text(f"/organization/{server.org}/project")
