"""A newcomer's way: from signing in to an address, through a failure that is understood, and back."""

from __future__ import annotations

import re
import urllib.request

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import PROGRAM, Repository, Server

pytestmark = pytest.mark.slow


def text_at(server: Server, host: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{server.gateway}/", headers={"Host": host})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def confirm(page: Page, words: str) -> None:
    page.locator("dialog[open]").get_by_role("button", name=words, exact=True).click()


def tab(page: Page, name: str) -> None:
    page.locator(".tabs").get_by_role("link", name=name).click()


def test_a_new_user_signs_in_deploys_and_recovers_from_a_failed_deployment(
    server: Server, new_page, watch, repository: Repository
) -> None:
    page = new_page(signed_in=False)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(server.link())
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert "code=" not in page.url

    # A service from a repository: what was found is shown before anything is created.
    page.get_by_role("link", name="New service").first.click()
    expect(page.get_by_label("Environment")).to_have_value("First project / production")
    page.get_by_label("Repository").fill(repository.url)
    page.get_by_role("button", name="Detect").click()
    expect(page.get_by_role("heading", name=re.compile("Found: .*Python"))).to_be_visible()
    expect(page.get_by_label("Start command")).to_have_value("python app.py")
    page.get_by_label("Name", exact=True).fill("shop")
    page.get_by_label("Deploy on every push").uncheck()  # this story deploys by hand
    page.get_by_role("button", name="Create and deploy").click()

    # It comes up, stage by stage, and is opened.
    expect(page.locator(".service-line")).to_contain_text("succeeded")
    expect(page.locator(".stale")).to_have_count(0)
    for stage in ("Fetch", "Build", "Start and switch"):
        expect(page.locator(".story summary", has_text=stage)).to_be_visible()
    address = page.locator(".service-line a[target=_blank]").last
    host = (address.get_attribute("href") or "").removeprefix("http://")
    assert text_at(server, host) == "Hello world"

    # A variable, with the difference before it is saved.
    page.locator(".crumbs").get_by_role("link", name="shop", exact=True).click()
    tab(page, "Variables")
    page.get_by_role("button", name="Add a variable").click()
    page.get_by_label("Name", exact=True).fill("GREETING")
    page.get_by_label("Value", exact=True).fill("Ann")
    page.get_by_role("button", name="Add to the changes").click()
    expect(page.locator(".diff ins")).to_have_text("Ann")
    page.get_by_role("button", name="Save and deploy").click()
    expect(page.locator(".service-line")).to_contain_text("succeeded")
    assert text_at(server, host) == "Hello Ann"

    # A commit that breaks it: the page says why, and what serves goes on.
    repository.commit({"app.py": "raise SystemExit('no more rope')\n"}, "Breaks it")
    page.locator(".crumbs").get_by_role("link", name="shop", exact=True).click()
    page.get_by_role("button", name="Deploy", exact=True).click()
    confirm(page, "Deploy")
    failure = page.locator("section.failure")
    expect(failure).to_contain_text("no more rope")
    expect(page.locator(".story > li.bad summary")).to_contain_text("Start and switch")
    assert text_at(server, host) == "Hello Ann"

    # Another version, and back to the first by a roll-back.
    repository.commit({"app.py": PROGRAM.replace('VERSION = ""', 'VERSION = "!"')}, "Mends it")
    failure.get_by_role("button", name="Try again").click()
    expect(page.locator(".service-line")).to_contain_text("Mends it")
    expect(page.locator(".service-line")).to_contain_text("succeeded")
    assert text_at(server, host) == "Hello Ann!"
    page.locator(".crumbs").get_by_role("link", name="Deployments").click()
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)  # that is for jobs
    page.get_by_role("row", name=re.compile("v2 ")).get_by_role("button", name="Roll back to this").click()
    confirm(page, "Roll back")
    expect(page.locator(".service-line")).to_contain_text("succeeded")
    assert text_at(server, host) == "Hello Ann"

    # Who did it.
    page.locator(".crumbs").get_by_role("link", name="shop", exact=True).click()
    tab(page, "Activity")
    expect(page.locator(".events li").first).to_contain_text("operator")

    # A token that is shown once, an invitation, and the end.
    page.get_by_role("link", name="Organization").first.click()
    page.get_by_role("link", name="API tokens").click()
    page.get_by_role("button", name="New API token").click()
    page.get_by_label("Name").fill("deployments from CI")
    page.get_by_label("Deploy").check()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator("dialog[open] .code-line")).to_contain_text("wdl_")
    confirm(page, "I have kept it")
    expect(page.get_by_role("link", name="deployments from CI")).to_be_visible()
    page.goto(f"{server.url}/console/organization/{server.org}/member")
    page.get_by_role("button", name="Invite").first.click()
    page.get_by_label("E-mail").fill("bea@example.com")
    page.locator("dialog[open]").get_by_role("button", name="Invite").click()
    expect(page.locator("dialog[open] .code-line")).to_contain_text("/console/invitation/")
    confirm(page, "Done")
    expect(page.get_by_role("cell", name="bea@example.com")).to_be_visible()

    app = next(one for one in server.call("GET", f"/organization/{server.org}/services")["results"])
    page.goto(f"{server.url}/console/application/{app['id']}")
    page.locator(".head summary").click()
    page.locator(".menu-list").get_by_role("button", name="Delete").click()
    delete = page.locator("dialog[open]").get_by_role("button", name="Delete")
    expect(delete).to_be_disabled()
    page.locator("dialog[open] input").fill("shop")
    delete.click()
    expect(page.get_by_role("heading", name="production")).to_be_visible()
    expect(page.get_by_text("Nothing runs in this environment")).to_be_visible(timeout=20_000)
    assert server.call("GET", f"/organization/{server.org}/services")["results"] == []
