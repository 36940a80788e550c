"""A service that runs, but answers most requests with errors, needs attention on the overview."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize(
    ("share", "is_told"), [(0.97, True), (0.5, True), (0.49, False), (0.0, False), (None, False)]
)
def test_a_service_whose_requests_mostly_fail_shows_a_warning(
    server: Server, new_page: Callable[..., Page], repository: Repository, share: float | None, is_told: bool
) -> None:
    project = f"Share {share}"
    server.deploy(server.application(server.environment(project=project), repository, "sick"))
    page = new_page("/")

    def measured(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        for service in document["results"]:
            service["error_share"] = share if service["project_name"] == project else None
        route.fulfill(response=answer, json=document)

    page.route("**/organization/*/services*", measured)
    page.reload()
    expect(page.locator(".card", has_text=project)).to_be_visible()
    expect(page.locator(".attention li", has_text=project)).to_have_count(int(is_told))
    expect(page.get_by_text("all is well")).to_have_count(int(not is_told))
    if is_told and share:
        told = f"{round(share * 100)} % of its requests in the last 5 minutes"
        expect(page.locator(".attention li", has_text=project)).to_contain_text(told)


def test_a_running_service_without_a_port_shows_a_warning_and_what_to_do(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    project = "Unreached"
    server.deploy(server.application(server.environment(project=project), repository, "mute"))
    page = new_page("/")

    def without_port(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        for service in document["results"]:
            service["lacks_port"] = service["project_name"] == project
        route.fulfill(response=answer, json=document)

    page.route("**/organization/*/services*", without_port)
    page.reload()
    told = page.locator(".attention li", has_text=project)
    expect(told).to_contain_text("running, without an address")
    expect(told).to_contain_text("add the port on which it listens")


def test_the_overview_polls_for_failing_requests(server: Server, new_page: Callable[..., Page]) -> None:
    page = new_page("/")
    page.clock.install()
    page.reload()
    expect(page.locator(".card").first).to_be_visible()
    with page.expect_request("**/organization/*/services*"):
        page.clock.fast_forward("01:10")
    expect(page.locator(".age")).to_have_count(0)
