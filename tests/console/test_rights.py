"""Actions that a role forbids are shown as such, with the right that they need. The server decides."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.servers import Repository, Server

pytestmark = pytest.mark.elsewhere


def token(server: Server, *scopes: str, **more: object) -> str:
    body = {"name": "-".join([*scopes, *more]), "scopes": list(scopes), **more}
    return str(server.call("POST", f"/organization/{server.org}/apiToken", body)["token"])


def test_a_reader_sees_which_right_each_action_needs(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Rights"), repository, "seen")
    page = new_page(signed_in=False)
    page.goto(server.link(token(server, "Read")))
    page.wait_for_selector("main h1")
    page.goto(f"{server.url}/console/application/{app}")
    deploy = page.get_by_role("button", name="Deploy", exact=True).first
    expect(deploy).to_be_disabled()
    expect(deploy).to_have_attribute(
        "title", "You may not do this: it needs the right Deploy or Admin. Ask an admin of the organization."
    )
    deploy.click(force=True)
    expect(page.locator("#notices")).to_contain_text("it needs the right Deploy")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.goto(f"{server.url}/console/application/{app}/variables")
    expect(page.get_by_role("button", name="Add a variable")).to_be_disabled()
    page.goto(f"{server.url}/console/organization/{server.org}/webhook")
    expect(page.get_by_role("button", name="New webhook").first).to_be_disabled()


def test_a_role_with_the_right_finds_the_action_enabled(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Deployers"), repository, "brought")
    page = new_page(signed_in=False)
    page.goto(server.link(token(server, "Deploy")))
    page.wait_for_selector("main h1")
    page.goto(f"{server.url}/console/application/{app}")
    expect(page.get_by_role("button", name="Deploy", exact=True).first).to_be_enabled()
    page.goto(f"{server.url}/console/application/{app}/settings")
    expect(page.get_by_role("button", name="Save", exact=True).first).to_be_disabled()


def test_the_refusal_of_the_server_is_shown_where_a_right_does_not_hold_everywhere(
    server: Server, new_page, watch, repository: Repository
) -> None:
    """A token that is limited to one environment may deploy there; elsewhere the server refuses."""
    watch.expected.append("status of 403")
    watch.expected.append("status of 404")
    within, outside = (server.environment(project=name) for name in ("Within", "Outside"))
    one, other = server.application(within, repository), server.application(outside, repository)
    made = token(server, "Deploy", limited_to=[within])
    page = new_page(signed_in=False)
    page.goto(server.link(made))
    page.wait_for_selector("main h1")
    account = page.evaluate(
        "fetch('/account', { headers: { 'X-Windlass-Page-Key': localStorage.getItem('windlass.page-key') } })"
        ".then((answer) => answer.json())"
    )
    assert "Deploy" in account["organizations"][0]["scopes_of_parts"]
    assert "Deploy" not in account["organizations"][0]["scopes"]
    page.goto(f"{server.url}/console/application/{one}")
    expect(page.get_by_role("button", name="Deploy", exact=True).first).to_be_enabled()
    page.goto(f"{server.url}/console/application/{other}")
    expect(page.get_by_role("alert")).to_be_visible()
