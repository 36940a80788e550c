"""Sign-in at a provider that is not ours: the npm package oidc-provider, with its own pages, in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.servers import TOKEN, Server
from tests.browser.test_newcomer import confirm
from tests.free_ports import free_port
from tests.real_provider import running_provider

pytestmark = pytest.mark.nightly


@pytest.fixture
def provided(tmp_path: Path) -> Iterator[Server]:
    port = free_port()
    come_back = f"http://127.0.0.1:{port}/account/signInProvider/acme/answer"
    (tmp_path / "provider").mkdir()
    (tmp_path / "server").mkdir()
    with running_provider(tmp_path / "provider", come_back) as provider:
        settings = {
            "name": "acme",
            "title": "Acme",
            "issuer": provider.issuer,
            "client_id": "console",
            "client_secret": "secret",
        }
        more = {
            "WINDLASS_OIDC_PROVIDERS": json.dumps([settings]),
            "WINDLASS_OUTBOUND_ALLOW": "127.0.0.0/8",
        }
        server = Server(tmp_path / "server", port, more)
        yield server
        server.end()


def sign_in(page: Page, server: Server, name: str) -> None:
    page.goto(f"{server.url}/console/")
    page.get_by_role("link", name="Sign in with Acme").click()
    page.fill("input[name=login]", name)
    page.fill("input[name=password]", "any")
    page.click("button[type=submit]")
    page.click("button[type=submit]")  # the consent


def test_a_person_signs_in_at_a_real_provider(chromium: Browser, provided: Server) -> None:
    roles = provided.call("GET", f"/organization/{provided.org}/availableRole")["results"]
    (write,) = [role["id"] for role in roles if role["name"] == "Write"]
    invitation = {"email": "ada@example.com", "role_id": write}
    provided.call("POST", f"/organization/{provided.org}/inviteMember", invitation)
    context = chromium.new_context()
    page = context.new_page()
    sign_in(page, provided, "ada")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".who")).to_have_text("ada@example.com")
    assert "key=" not in page.url
    context.close()


@pytest.mark.slow
def test_a_person_who_is_not_a_member_is_told_to_request_an_invitation(
    chromium: Browser, provided: Server
) -> None:
    context = chromium.new_context()
    page = context.new_page()
    sign_in(page, provided, "eve")
    expect(page.get_by_role("alert")).to_contain_text("Ask an admin for an invitation")
    context.close()


def test_admins_edit_roles_of_members(chromium: Browser, provided: Server) -> None:
    members = f"/organization/{provided.org}/member"
    roles = {
        role["name"]: role["id"] for role in provided.call("GET", f"{members[:-7]}/availableRole")["results"]
    }
    invitation = {"email": "ada@example.com", "role_id": roles["Write"]}
    provided.call("POST", f"{members[:-7]}/inviteMember", invitation)
    ada, admin = (chromium.new_context().new_page() for _ in range(2))
    sign_in(ada, provided, "ada")
    expect(ada.get_by_role("heading", name="Overview")).to_be_visible()
    ada.goto(f"{provided.url}/console{members}")

    def role_in(page: Page) -> Locator:
        return page.get_by_label("Role of ada@example.com")

    # Who is no admin reads the roles.
    expect(role_in(ada)).to_have_value(roles["Write"])
    expect(role_in(ada)).to_be_disabled()
    expect(role_in(ada)).to_have_attribute("title", re.compile("needs the right Admin"))
    expect(ada.get_by_role("button", name="Invite").first).to_be_disabled()

    # What is not confirmed is not changed.
    admin.goto(provided.link())
    admin.wait_for_selector("main h1")
    admin.goto(f"{provided.url}/console{members}")
    role_in(admin).select_option("Read")
    confirm(admin, "Cancel")
    expect(role_in(admin)).to_have_value(roles["Write"])

    role_in(admin).select_option("Read")
    confirm(admin, "Change the role")
    expect(admin.locator("#notices")).to_contain_text("ada@example.com now has the role Read.")
    expect(role_in(admin)).to_have_value(roles["Read"])
    (member,) = provided.call("GET", members)["results"]
    assert member["role_name"] == "Read"
    ada.goto(f"{provided.url}/console/")
    expect(ada.locator("main").get_by_role("button", name="New service").first).to_be_disabled()

    row = admin.get_by_role("row", name="ada@example.com")
    row.locator("summary").click()
    row.get_by_role("button", name="Remove", exact=True).click()
    confirm(admin, "Remove")
    expect(admin.get_by_text("Invite people: until then")).to_be_visible()
    assert provided.call("GET", members)["results"] == []
    for page in (ada, admin):
        page.context.close()


def test_a_link_into_another_organization_of_the_person_shows_its_resources(
    chromium: Browser, provided: Server
) -> None:
    """Otherwise its pages would be read from the organization that was open before, and be empty."""
    second = provided.call("POST", "/organization", {"name": "Second"})
    tokens = {provided.org: TOKEN, second["id"]: second["admin_token"]}
    services, pages = {}, {}
    for org, token in tokens.items():
        roles = provided.call("GET", f"/organization/{org}/availableRole", token=token)["results"]
        (write,) = [role["id"] for role in roles if role["name"] == "Write"]
        invitation = {"email": "ada@example.com", "role_id": write}
        provided.call("POST", f"/organization/{org}/inviteMember", invitation, token)
        project = provided.call("POST", f"/organization/{org}/project", {"name": "Shop"}, token)["id"]
        path = f"/project/{project}/environment"
        environment = provided.call("POST", path, {"name": "production"}, token)["id"]
        body = {"name": "web", "git_repository": {"url": "https://example.com/shop.git", "branch": "main"}}
        app = provided.call("POST", f"/environment/{environment}/application", body, token)["id"]
        provided.call("POST", f"/application/{app}/deploy", {}, token)
        deployed = provided.call("GET", f"/application/{app}/deployment", token=token)["results"][0]["id"]
        services[org] = environment
        pages[org] = [f"application/{app}/deployments/{deployed}", f"application/{app}/deploymentRestriction"]
    page = chromium.new_context(viewport={"width": 1280, "height": 860}).new_page()
    sign_in(page, provided, "ada")
    chosen = page.get_by_role("combobox", name="Organization")
    for org, environment in [*services.items(), *services.items()]:
        page.goto(f"{provided.url}/console/environment/{environment}")
        expect(page.get_by_role("row", name="web")).to_be_visible()
        expect(chosen).to_have_value(org)
    for address, org in sorted((address, org) for org, found in pages.items() for address in found):
        page.goto(f"{provided.url}/console/{address}")
        page.wait_for_selector("main h1")
        expect(chosen).to_have_value(org)

    # On phones, the page of the account has the choice.
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{provided.url}/console/account")
    page.get_by_role("button", name="Switch to it").click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.goto(f"{provided.url}/console/account")
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(chosen).to_have_value(next(other for other in services if other != org))
