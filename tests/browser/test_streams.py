"""Pages show what the server has: also after the server was unavailable, and while another person changes
things."""

from __future__ import annotations

import re
import urllib.request

import pytest
from playwright.sync_api import Route, expect

from tests.browser.many import fast_log
from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly


def test_a_page_says_that_it_is_outdated_during_an_outage_and_reconnects(
    server: Server, new_page, watch, repository: Repository
) -> None:
    watch.expected += ["ERR_CONNECTION", "Failed to load", "503", "ERR_INCOMPLETE", "ERR_EMPTY"]
    environment = server.environment(project="Away")
    app = server.application(environment, repository, "away")
    page = new_page(f"/environment/{environment}")
    expect(page.get_by_role("row", name="away")).to_contain_text("stopped")
    server.stop()
    expect(page.locator(".stale")).to_contain_text("Last seen")
    server.start()
    expect(page.locator(".stale")).to_have_count(0)
    server.deploy(app)
    expect(page.get_by_role("row", name="away")).to_contain_text("running")


def test_two_people_see_each_others_changes_without_a_reload(
    server: Server, new_page, repository: Repository
) -> None:
    environment = server.environment(project="Two")
    app = server.application(environment, repository, "shared")
    ann, bea = new_page(f"/application/{app}"), new_page(f"/application/{app}")
    ann.get_by_role("button", name="Deploy", exact=True).first.click()
    ann.locator("dialog[open]").get_by_role("button", name="Deploy", exact=True).click()
    expect(bea.locator(".service-line")).to_contain_text("running")
    overview = new_page("/")
    card = overview.locator(".card", has_text="Two")
    expect(card.get_by_role("img", name="shared: running")).to_be_visible()
    server.call("POST", f"/application/{app}/stop")
    expect(card.get_by_role("img", name="shared: stopped")).to_be_visible(timeout=20_000)
    expect(bea.locator(".service-line")).to_contain_text("stopped")


def test_no_event_is_lost_when_the_tab_that_holds_the_shared_stream_closes(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Tabs"), repository, "handed")
    first = new_page("/")
    expect(first.locator(".card", has_text="Tabs")).to_be_visible()
    second = first.context.new_page()
    held: list[Route] = []
    second.route("**/events/stream*", lambda route: held.append(route))
    second.goto(first.url)
    card = second.locator(".card", has_text="Tabs")
    expect(card.get_by_role("img", name="handed: stopped")).to_be_visible()
    first.close()
    while not held:
        second.wait_for_timeout(50)
    server.deploy(app)  # while no tab reads
    held[0].continue_()
    expect(card.get_by_role("img", name="handed: running")).to_be_visible()


def test_saving_settings_that_another_person_changed_shows_the_conflict_first(
    server: Server, new_page, watch, repository: Repository
) -> None:
    watch.expected.append("status of 412")
    app = server.application(server.environment(project="Settings"), repository, "both")
    page = new_page(f"/application/{app}/settings")
    description = page.get_by_label("Description").first
    description.fill("mine")
    server.call("PATCH", f"/application/{app}", {"description": "theirs"})
    page.get_by_role("button", name="Save", exact=True).click()
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text("theirs")
    assert server.call("GET", f"/application/{app}")["description"] == "theirs"
    dialog.get_by_role("button", name="Save mine").click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    assert server.call("GET", f"/application/{app}")["description"] == "mine"


def test_a_session_that_is_ended_elsewhere_leads_to_the_page_of_signing_in(
    server: Server, new_page, watch
) -> None:
    watch.expected.append("status of 401")
    other = new_page("/", user_agent="The other browser")
    page = new_page("/account")
    row = page.get_by_role("row", name="The other browser")
    row.get_by_role("button", name="End session").click()
    page.locator("dialog[open]").get_by_role("button", name="End session").click()
    expect(page.locator("#notices")).to_contain_text("ended")
    other.get_by_role("link", name="Audit").first.click()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(other.get_by_role("alert")).to_contain_text("Sign in again")


def test_a_terminal_runs_a_command_in_an_instance(server: Server, new_page, repository: Repository) -> None:
    app = server.application(server.environment(project="Terminal"), repository, "shell")
    server.deploy(app)
    page = new_page(f"/application/{app}/terminal")
    page.get_by_role("button", name="Open a shell").click()
    terminal = page.get_by_role("log", name="Terminal")
    expect(terminal).to_contain_text("$")
    page.keyboard.type("echo $((6 * 7))", delay=10)
    page.keyboard.press("Enter")
    expect(terminal).to_contain_text("\n42")


def test_logs_are_followed_searched_and_linked_to(server: Server, new_page, repository: Repository) -> None:
    app = server.application(server.environment(project="Logs"), repository, "logs")
    server.deploy(app)
    page = new_page(f"/application/{app}/logs")
    host = server.call("GET", f"/application/{app}/link")["results"][0]["url"].removeprefix("http://")

    def visit(path: str) -> None:
        url = f"http://127.0.0.1:{server.gateway}{path}"
        urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host}), timeout=10).close()

    visit("/one")
    expect(page.locator(".log-line", has_text="GET /one")).to_be_visible()
    visit("/two")
    visit("/two")
    expect(page.locator(".log-line", has_text="GET /two")).to_have_count(2)
    page.get_by_role("searchbox", name="Search these lines").fill("/two")
    expect(page.get_by_text("2 matches")).to_be_visible()
    page.get_by_label("only matches").check()
    expect(page.locator(".log-line", has_text="/one")).to_have_count(0)
    page.locator(".log-line .time").first.click()
    linked = page.evaluate("navigator.clipboard.readText()")
    other = new_page(linked.removeprefix(f"{server.url}/console"))
    expect(other.locator(".log-line.chosen")).to_contain_text("/two")


def test_a_link_does_not_replace_the_session_of_a_browser(server: Server, new_page) -> None:
    """Otherwise a link of another person would sign a browser in as that person."""
    page = new_page("/account")
    made = server.call("POST", f"/organization/{server.org}/apiToken", {"name": "other", "scopes": ["Read"]})
    page.goto(server.link(made["token"]))
    expect(page.locator("#notices")).to_contain_text("signed in already")
    page.goto(f"{server.url}/console/account")
    expect(page.locator(".facts").first).to_contain_text("operator")


def test_signing_out_and_in_with_a_token(server: Server, new_page) -> None:
    page = new_page("/account")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    made = server.call("POST", f"/organization/{server.org}/apiToken", {"name": "reader", "scopes": ["Read"]})
    page.get_by_text("With an API token").click()
    page.get_by_label("API token", exact=True).fill(made["token"])
    page.locator("details form").get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".who")).to_have_text("reader")


def test_lines_of_a_log_keep_their_nodes_and_their_order(
    server: Server, new_page, repository: Repository
) -> None:
    app = server.application(server.environment(project="Fast"), repository, "fast")
    page = new_page("/")
    page.add_init_script(fast_log(1, 300))
    page.goto(f"{server.url}/console/application/{app}/logs")
    expect(page.locator(".log .tools")).to_contain_text(re.compile(r"[1-9]\d{2} lines"))
    page.get_by_role("button", name="Pause").click()
    shown = [int(text.split()[1]) for text in page.locator(".log-line .text").all_inner_texts()]
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    box, node = page.locator(".log-box"), page.locator(".log-line").first.element_handle()
    box.evaluate("box => { box.scrollTop -= 60; }")
    page.wait_for_timeout(200)
    assert node.evaluate("node => node.isConnected")
    tops = page.locator(".log-line").evaluate_all("lines => lines.map((line) => line.offsetTop)")
    assert tops == sorted(set(tops))


def test_a_log_on_a_hidden_page_keeps_no_endless_backlog(
    server: Server, new_page, repository: Repository
) -> None:
    """A hidden page draws nothing, but its lines come in all the same."""
    app = server.application(server.environment(project="Hidden"), repository, "hidden")
    page = new_page("/")
    page.add_init_script("window.requestAnimationFrame = () => 0;")
    page.add_init_script(fast_log(1, 5000))
    page.goto(f"{server.url}/console/application/{app}/logs")
    expect(page.locator(".log .tools")).to_contain_text(re.compile(r"[2-9],\d{3} lines"))
