"""A person uses the pages of an environment, the audit and what is drawn from the API: what they do there is
done on the server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server
from tests.browser.test_newcomer import confirm, tab

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


class Town:
    """The service `shop` uses `search`, which uses `shop`: each has the address of the other."""

    def __init__(self, server: Server, repository: Repository) -> None:
        self.environment = server.environment(project="Town")
        self.path = f"/environment/{self.environment}"
        self.apps = {
            name: server.application(self.environment, repository, name)
            for name in ("shop", "search", "mail")
        }
        for app in self.apps.values():
            server.deploy(app)
        urls = {
            name: server.call("GET", f"/application/{app}/link")["results"][0]["url"]
            for name, app in self.apps.items()
        }
        for name, other in (("shop", "search"), ("search", "shop"), ("shop", "mail"), ("search", "mail")):
            variable = {"key": f"{other.upper()}_URL", "value": f"{urls[other]}/api"}
            server.call("POST", f"/application/{self.apps[name]}/environmentVariable", variable)

    def states(self, server: Server) -> dict[str, str]:
        query = f"/organization/{server.org}/services?environment_id={self.environment}"
        return {service["name"]: service["state"] for service in server.call("GET", query)["results"]}


@pytest.fixture(scope="module")
def town(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Town:
    return Town(server, Repository(tmp_path_factory.mktemp("town") / "repository"))


def wait_for(read: Callable[[], object], wanted: object) -> None:
    until = time.monotonic() + 60
    while (found := read()) != wanted:
        assert time.monotonic() < until, found
        time.sleep(0.1)


def test_the_graph_shows_which_services_use_each_other_and_links_to_each(
    server: Server, new_page: NewPage, town: Town
) -> None:
    page = new_page(town.path)
    page.get_by_role("button", name="Dependency graph").click()
    graph = page.get_by_role("group", name="Dependency graph")
    expect(graph.locator("path.use")).to_have_count(4)
    left = {
        name: graph.get_by_role("link", name=re.compile(f"^{name},")).locator("rect").get_attribute("x")
        for name in ("shop", "search", "mail")
    }
    assert len(set(left.values())) == 3  # each stands to the right of one that uses it
    assert max(left, key=lambda name: int(left[name] or 0)) == "mail"

    # An address that is gone since is not shown when the graph is opened again.
    page.get_by_role("button", name="List", exact=True).click()
    variables = server.call("GET", f"/application/{town.apps['search']}/environmentVariable")["results"]
    (mail,) = [variable["id"] for variable in variables if variable["key"] == "MAIL_URL"]
    server.call("DELETE", f"/application/{town.apps['search']}/environmentVariable/{mail}")
    page.get_by_role("button", name="Dependency graph").click()
    expect(graph.locator("path.use")).to_have_count(3)

    graph.get_by_role("link", name=re.compile("^search,")).click()
    expect(page.get_by_role("heading", name="search", level=1)).to_be_visible()


def test_a_dependency_graph_of_40_mutually_dependent_services_is_drawn(
    server: Server, new_page: NewPage
) -> None:
    """Ways through 40 such services cannot be counted, so that no drawing may follow each of them."""
    names = [f"s{number}" for number in range(40)]
    services = [
        {
            "id": f"00000000-0000-4000-8000-{number:012d}",
            "name": name,
            "state": "RUNNING",
            "service_type": "APPLICATION",
        }
        for number, name in enumerate(names)
    ]
    page = new_page("/")
    drawn = page.evaluate(
        """async (services) => {
          const { graph } = await import(new URL('pages/graph.js', document.querySelector('script').src));
          const uses = new Map(services.map(({ id }) => [id, new Set(services.map((other) => other.id))]));
          return graph(services, uses).querySelectorAll('a').length;
        }""",
        services,
    )
    assert drawn == len(names)


def test_chosen_services_are_stopped_and_all_are_deployed(
    server: Server, new_page: NewPage, town: Town
) -> None:
    page = new_page(town.path)
    page.get_by_label("Choose search").check()
    page.get_by_role("button", name="More").or_(page.locator(".head summary")).first.click()
    page.get_by_role("button", name="Stop 1").click()
    expect(page.locator("dialog[open] .order li")).to_have_text([re.compile("search")])
    confirm(page, "Stop 1")
    wait_for(lambda: town.states(server)["search"], "STOPPED")
    assert town.states(server)["shop"] == "RUNNING"
    expect(page.get_by_role("row", name=re.compile("search"))).to_contain_text("stopped")
    expect(page.get_by_label("Choose search")).not_to_be_checked()

    page.get_by_role("button", name="Deploy all").click()
    expect(page.locator("dialog[open] .order li")).to_have_count(3)
    confirm(page, "Deploy all")
    expect(page.locator(".pipeline > li > ul > li")).to_have_count(3)
    wait_for(lambda: set(town.states(server).values()), {"RUNNING"})
    expect(page.locator(".service-line")).to_contain_text("succeeded")


def test_the_audit_is_filtered_and_a_filter_is_a_link(server: Server, new_page: NewPage, town: Town) -> None:
    path = f"/application/{town.apps['shop']}"
    server.call("PATCH", path, {"description": "sells rope"})
    server.call("PATCH", path, {"description": "sells more rope"})
    page = new_page(f"/organization/{server.org}/audit", timezone_id="Asia/Tokyo")
    events = page.locator(".events li .event-line")
    page.get_by_label("All events").select_option("UPDATE")
    page.get_by_label("All things").select_option("APPLICATION")
    page.get_by_label("Who").fill("operator")
    page.get_by_label("Who").press("Enter")
    expect(events.first).to_contain_text("changed application shop")
    changed = page.locator(".events > li").first
    changed.locator("summary").click()
    expect(changed.locator("del")).to_have_text("sells rope")
    expect(changed.locator("ins")).to_have_text("sells more rope")

    page.get_by_label("From", exact=True).fill("2020-01-31T09:05")
    page.get_by_label("From", exact=True).press("Tab")
    expect(page).to_have_url(re.compile("fromTimestamp=2020-01-31T00"))
    expect(events.first).to_contain_text("changed application shop")
    page.reload()
    expect(page.get_by_label("All events")).to_have_value("UPDATE")
    expect(page.get_by_label("Who")).to_have_value("operator")
    expect(page.get_by_label("From", exact=True)).to_have_value("2020-01-31T09:05")
    expect(events.first).to_contain_text("changed application shop")

    page.get_by_label("To", exact=True).fill("2020-01-31T09:06")
    page.get_by_label("To", exact=True).press("Tab")
    expect(page.get_by_text("No event fits these filters.")).to_be_visible()


def test_the_activity_of_a_service_has_its_own_events_only(
    server: Server, new_page: NewPage, town: Town
) -> None:
    server.call("PATCH", f"/application/{town.apps['mail']}", {"description": "writes letters"})
    page = new_page(f"/application/{town.apps['mail']}")
    tab(page, "Activity")
    first = page.locator(".events > li").first
    expect(first).to_contain_text("changed application mail")
    first.locator("summary").click()
    expect(first.locator("li", has_text="description").locator("ins")).to_have_text("writes letters")
    expect(first.locator(".diff")).not_to_contain_text("{")  # a changed part shows its changed fields
    assert "shop" not in " ".join(page.locator(".event-line strong").all_inner_texts())


def test_a_derived_page_creates_changes_and_deletes_a_resource(server: Server, new_page: NewPage) -> None:
    family = f"/organization/{server.org}/webhook"
    page = new_page(family)
    page.get_by_role("button", name="New webhook").first.click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Address", exact=True).fill("https://hooks.example.com/one")
    expect(dialog.get_by_label("It succeeds")).to_be_checked()
    dialog.get_by_label("It succeeds").uncheck()
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("link", name="https://hooks.example.com/one").click()
    (made,) = server.call("GET", family)["results"]
    assert made["events"] == ["DEPLOYMENT_FAILED"]
    page.get_by_label("Description").fill("tells the chat")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    assert server.call("GET", f"{family}/{made['id']}")["description"] == "tells the chat"

    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.locator("dialog[open]")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.locator("input").fill("https://hooks.example.com/one")
    confirm(page, "Delete")
    expect(page.get_by_role("heading", name="Webhooks")).to_be_visible()
    assert server.call("GET", family)["results"] == []


def test_a_project_gets_an_environment_and_is_deleted_by_its_name(server: Server, new_page: NewPage) -> None:
    project = server.call("POST", f"/organization/{server.org}/project", {"name": "Fair"})["id"]
    page = new_page(f"/project/{project}")
    page.get_by_role("button", name="New environment").first.click()
    page.locator("dialog[open]").get_by_label("Name").fill("staging")
    confirm(page, "Create")
    expect(page.get_by_role("heading", name="staging", level=1)).to_be_visible()
    names = [one["name"] for one in server.call("GET", f"/project/{project}/environment")["results"]]
    assert names == ["staging"]

    page.goto(f"{server.url}/console/project/{project}")
    page.locator(".head summary").click()
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog[open] input").fill("Fair")
    confirm(page, "Delete")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert project not in [
        one["id"] for one in server.call("GET", f"/organization/{server.org}/project")["results"]
    ]


def test_the_usage_of_running_services_is_drawn(server: Server, new_page: NewPage, town: Town) -> None:
    app = town.apps["shop"]
    wait_for(lambda: bool(server.call("GET", f"/application/{app}/metrics")["instances"]), True)
    page = new_page(f"/application/{app}/metrics")
    memory = page.get_by_role("figure", name=re.compile(r"^Memory: .*\d"))
    expect(memory).to_be_visible()
    memory.locator("svg").hover()
    for time_pointed_at in page.locator(".pointed").all():
        expect(time_pointed_at).to_have_text(re.compile(r"\d\d:\d\d"))  # one cursor for all charts

    page.goto(f"{server.url}/console{town.path}")
    expect(page.get_by_role("row", name=re.compile("shop")).locator("td.usage").last).to_have_text(
        re.compile(r"\d.*B")
    )


def test_a_port_is_added_and_deleted_in_the_settings(server: Server, new_page: NewPage, town: Town) -> None:
    path = f"/application/{town.apps['mail']}"
    page = new_page(f"{path}/settings?section=ports")
    section = page.locator(".settings-section:not([hidden])")
    rows = section.locator(".item")
    before = rows.count()
    section.get_by_role("button", name="Add", exact=True).click()
    rows.last.get_by_label("Port", exact=True).fill("9095")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    ports = [port["internal_port"] for port in server.call("GET", path)["ports"]]
    assert 9095 in ports

    page.goto(f"{server.url}/console{path}/settings?section=ports")
    expect(rows).to_have_count(before + 1)
    rows.last.get_by_role("button", name="Delete", exact=True).click()
    expect(rows).to_have_count(before)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    assert 9095 not in [port["internal_port"] for port in server.call("GET", path)["ports"]]
