"""A page whose stream or subject ends says so, and begins nothing more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Watch
from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


def test_the_page_of_a_service_that_another_person_deletes_says_so(
    server: Server, new_page: NewPage, watch: Watch, repository: Repository
) -> None:
    watch.expected.append("status of 404")
    environment = server.environment(project="Deleted")
    app = server.application(environment, repository, "deleted")
    service, above = new_page(f"/application/{app}"), new_page(f"/environment/{environment}")
    server.call("DELETE", f"/application/{app}")
    expect(service.get_by_role("heading", name="There is nothing here")).to_be_visible()
    expect(service.get_by_role("alert")).to_be_visible()
    expect(above.locator(".empty")).to_be_visible()
    server.call("DELETE", f"/environment/{environment}")
    expect(above.get_by_role("heading", name="There is nothing here")).to_be_visible()
    above.locator("main").get_by_role("link", name="Overview").click()
    expect(above.get_by_role("heading", name="Overview", level=1)).to_be_visible()


def test_a_page_that_only_follows_a_stream_shows_the_sign_in_page_when_the_session_ends(
    server: Server, new_page: NewPage, watch: Watch
) -> None:
    watch.expected += ["status of 401", "ERR_INCOMPLETE"]
    made = server.call("POST", f"/organization/{server.org}/apiToken", {"name": "ends", "scopes": ["Read"]})
    page = new_page(signed_in=False)
    page.goto(server.link(made["token"]))
    page.wait_for_selector("main h1")
    server.call("DELETE", f"/organization/{server.org}/apiToken/{made['id']}")
    server.environment(project="Told by the stream")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_deployment_page_shows_when_its_stream_is_broken(
    server: Server, new_page: NewPage, watch: Watch, repository: Repository
) -> None:
    watch.expected.append("Failed to load")
    repository.commit({"Procfile": "web: python app.py\nrelease: sleep 600\n"}, "Waits")
    app = server.application(server.environment(project="Broken streams"), repository, "waits")
    server.call("POST", f"/application/{app}/deploy", {})
    (newest,) = server.call("GET", f"/application/{app}/deployment?page_size=1")["results"]
    page = new_page("/")
    page.route("**/stream", lambda route: route.abort())
    page.goto(f"{server.url}/console/application/{app}/deployments/{newest['id']}")
    expect(page.locator(".stale")).to_contain_text("Last seen")
    page.unroute("**/stream")
    expect(page.locator(".stale")).to_have_count(0)
    server.call("POST", f"/application/{app}/cancelDeployment")
    expect(page.locator(".service-line")).to_contain_text("cancelled")


def test_leaving_the_log_page_while_it_loads_starts_no_log_stream(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Left"), repository, "left")
    page = new_page("/")
    held: list[Route] = []
    page.route("**/log?tail=*", lambda route: held.append(route))
    followed: list[str] = []
    page.on("request", lambda request: followed.append(request.url) if "log?follow" in request.url else None)
    ended: list[str] = []
    page.on("requestfailed", lambda request: ended.append(request.url))
    page.goto(f"{server.url}/console/application/{app}/logs")
    page.wait_for_selector(".log")
    page.locator(".tabs").get_by_role("link", name="Settings").click()
    page.get_by_role("searchbox", name="Search settings").wait_for()
    (reading,) = held
    reading.continue_()
    page.wait_for_timeout(500)
    assert set(followed) <= set(ended), "the stream of the log goes on"
