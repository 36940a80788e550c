"""The page of deployment stages: stages and services are moved by keyboard, and by dragging them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server
from tests.browser.test_everybody import findings

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


def order(server: Server, environment: str) -> list[str]:
    listed = server.call("GET", f"/environment/{environment}/deploymentStage")["results"]
    return [stage["name"] for stage in listed]


def test_stages_and_services_are_moved(server: Server, new_page: NewPage, repository: Repository) -> None:
    environment = server.environment(project="Staged")
    app = server.application(environment, repository, "web")
    page = new_page(f"/environment/{environment}/deploymentStage", bypass_csp=True, reduced_motion="reduce")
    later = page.get_by_role("button", name="Later").first
    later.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("default-databases is stage 2 now")
    assert order(server, environment) == ["default-jobs", "default-databases", "default-applications"]
    assert findings(page) == []
    page.get_by_label("Actions of web").click()
    page.get_by_role("button", name="Move to default-jobs").click()
    expect(page.locator("#notices")).to_contain_text("web is in default-jobs now")
    page.get_by_label("Actions of web").click()
    page.get_by_role("button", name="Leave out of deployments of all").click()
    expect(page.locator(".staged")).to_contain_text("skipped")
    stage = server.call("GET", f"/service/{app}/deploymentStage")
    assert (stage["name"], stage["services"][0]["is_skipped"]) == ("default-jobs", True)
    page.get_by_role("button", name="New stage").click()
    page.locator("dialog[open]").get_by_label("Name").fill("pages")
    page.locator("dialog[open]").get_by_role("button", name="Create").click()
    expect(page.locator(".stages")).to_contain_text("4. pages")


def drag(page: Page, name: str, onto: str, height: float) -> None:
    """Drags a stage or a service by its grip to a height of another stage, from 0 (its top) to 1."""
    named = page.locator("h2, .staged > li", has=page.get_by_text(name, exact=True))
    start = named.or_(page.locator("h2", has_text=name)).locator(".grip").bounding_box()
    end = page.locator(".stages > li", has=page.locator("h2", has_text=onto)).bounding_box()
    assert start
    assert end
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(end["x"] + 120, end["y"] + end["height"] * height, steps=5)


def test_stages_and_services_are_dragged(server: Server, new_page: NewPage, repository: Repository) -> None:
    environment = server.environment(project="Dragged")
    app = server.application(environment, repository, "web")
    page = new_page(f"/environment/{environment}/deploymentStage")
    before = ["default-databases", "default-jobs", "default-applications"]
    drag(page, "default-applications", "default-databases", 0.2)
    expect(page.locator(".drop-before")).to_have_count(1)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert order(server, environment) == before

    drag(page, "default-applications", "default-databases", 0.2)
    page.mouse.up()
    expect(page.locator("#notices")).to_contain_text("default-applications is stage 1 now")
    assert order(server, environment) == [before[2], *before[:2]]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#notices")).to_contain_text("It is as before.")
    assert order(server, environment) == before

    drag(page, "web", "default-jobs", 0.5)
    page.mouse.up()
    expect(page.locator("#notices")).to_contain_text("web is in default-jobs now")
    assert server.call("GET", f"/service/{app}/deploymentStage")["name"] == "default-jobs"


def test_a_deployment_of_an_environment_is_shown_by_stage_and_cancelled(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    environment = server.environment(project="Cancelled")
    server.application(environment, repository, "web")
    last = server.call("POST", f"/environment/{environment}/deploymentStage", {"name": "last"})["id"]
    mail = server.application(environment, repository, "mail")
    server.call("PUT", f"/deploymentStage/{last}/service/{mail}", {})
    page = new_page(f"/environment/{environment}", bypass_csp=True, reduced_motion="reduce")
    page.get_by_role("button", name="Deploy all").click()
    page.locator("dialog[open]").get_by_role("button", name="Deploy all").click()
    expect(page.locator(".pipeline h2")).to_have_text(["default-applications", "last"])
    page.get_by_role("button", name="Cancel deployment").click()
    page.locator("dialog[open]").get_by_role("button", name="Cancel deployment").click()
    expect(page.locator(".service-line")).to_contain_text("cancelled")
    assert findings(page) == []
    page.get_by_role("link", name="Deployments").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("cancelled")
