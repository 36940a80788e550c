"""Sign-in at a provider that is not ours: the npm package oidc-provider, with its own pages, in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.servers import Server
from tests.free_ports import free_port
from tests.real_provider import running_provider

pytestmark = pytest.mark.elsewhere


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


@pytest.mark.elsewhere
def test_a_stranger_of_a_real_provider_is_told_to_ask_for_an_invitation(
    chromium: Browser, provided: Server
) -> None:
    context = chromium.new_context()
    page = context.new_page()
    sign_in(page, provided, "eve")
    expect(page.get_by_role("alert")).to_contain_text("Ask an admin for an invitation")
    context.close()
