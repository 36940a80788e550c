"""Actions that a role forbids are shown as such, with the right that they need. The server decides."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.servers import Repository, Server
from windlass.core.declare.resource import Verb
from windlass.families import registry

pytestmark = pytest.mark.nightly


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


def test_an_action_outside_a_tokens_limits_shows_the_servers_refusal(
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


NEEDS_DEPLOY = "You may not do this: it needs the right Deploy or Admin. Ask an admin of the organization."


def test_save_and_deploy_requires_both_the_write_and_the_deploy_right(
    server: Server, new_page, repository: Repository
) -> None:
    """Else the first would be done, and the second refused."""
    app = server.application(server.environment(project="Writers"), repository, "written")
    page = new_page(signed_in=False)
    page.goto(server.link(token(server, "Read", "Write")))
    page.wait_for_selector("main h1")
    page.goto(f"{server.url}/console/application/{app}/settings?section=ports")
    expect(page.get_by_role("button", name="Save and deploy")).to_have_attribute("title", NEEDS_DEPLOY)
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_enabled()
    page.goto(f"{server.url}/console/application/{app}/variables")
    page.get_by_role("button", name="Add a variable").click()
    page.get_by_role("dialog").get_by_label("Name").fill("GREETING")
    page.get_by_role("dialog").get_by_role("button", name="Add to the changes").click()
    expect(page.get_by_role("button", name="Save and deploy")).to_have_attribute("title", NEEDS_DEPLOY)
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_enabled()
    page.goto(f"{server.url}/console/new?kind=database")
    expect(page.get_by_role("button", name="Create and deploy")).to_have_attribute("title", NEEDS_DEPLOY)
    expect(page.get_by_role("button", name="Create only", exact=True)).to_be_enabled()


def test_the_shell_operation_requires_the_same_right_as_restart_which_its_button_checks() -> None:
    """The document has no websockets: the button asks for the right of another operation."""
    needs = {operation.handler: operation.need for operation in (*registry().operations, *registry().raw)}
    shells = [handler for handler in needs if handler.endswith(".exec")]
    assert shells
    assert [needs[handler] for handler in shells] == [
        needs[handler.replace(".exec", ".restart-service")] for handler in shells
    ]


def test_creating_any_kind_of_service_requires_the_same_right() -> None:
    """The pages do not know the kind yet, and ask for the right to create an application."""
    creations = [
        operation
        for operation in registry().operations
        if operation.verb is Verb.CREATE and operation.own_family in registry().services
    ]
    assert len(creations) == len(registry().services)
    assert len({operation.need for operation in creations}) == 1


NEW_SERVICE = "You may not do this: it needs the right Write or Admin. Ask an admin of the organization."


def test_a_read_only_user_sees_all_write_actions_disabled(
    server: Server, new_page, repository: Repository
) -> None:
    environment = server.environment(project="Looked at")
    app = server.application(environment, repository, "running")
    server.deploy(app)
    page = new_page(signed_in=False)
    page.goto(server.link(token(server, "Read", name="looks at all pages")))
    page.wait_for_selector("main h1")

    # Ways to a new service, on the pages that have one.
    for place in ("/", f"/environment/{environment}", f"/environment/{server.environment(project='Bare')}"):
        page.goto(f"{server.url}/console{place}")
        new = page.locator("main").get_by_role("button", name="New service")
        expect(new.first).to_be_disabled()
        for one in new.all():
            expect(one).to_have_attribute("title", NEW_SERVICE)
        expect(page.locator("main").get_by_role("link", name="New service")).to_have_count(0)
    page.goto(f"{server.url}/console/new")
    expect(page.locator("main [role=status]")).to_have_text(NEW_SERVICE)
    page.get_by_role("button", name="Database").click()
    expect(page.get_by_role("button", name="Create and deploy")).to_be_disabled()

    page.goto(f"{server.url}/console/application/{app}/terminal")
    expect(page.get_by_role("button", name="Open a shell")).to_be_disabled()

    # The palette lists no operation that would be refused.
    page.keyboard.press("Control+k")
    page.keyboard.type("webhook")
    expect(page.get_by_role("option", name="Webhooks")).to_be_visible()
    expect(page.get_by_role("option", name="Create a webhook")).to_have_count(0)
    page.keyboard.press("Escape")


def test_an_admin_sees_the_actions_enabled_that_a_reader_sees_disabled(
    server: Server, new_page, repository: Repository
) -> None:
    environment = server.environment(project="Administered")
    app = server.application(environment, repository, "administered")
    server.deploy(app)
    page = new_page("/")
    expect(page.locator("main").get_by_role("link", name="New service")).to_be_visible()
    page.goto(f"{server.url}/console/application/{app}/terminal")
    expect(page.get_by_role("button", name="Open a shell")).to_be_enabled()
    page.keyboard.press("Control+k")
    page.keyboard.type("webhook")
    expect(page.get_by_role("option", name="Create a webhook")).to_be_visible()
    page.keyboard.press("Escape")
