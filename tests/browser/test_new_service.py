"""A new service is chosen, not typed: an application with a database along with it, a database, a job."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


def test_an_application_gets_its_branch_its_size_and_a_database_whose_address_it_knows(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    repository.git("branch", "next")
    environment = server.environment(project="Brought along")
    page = new_page(f"/new?environment={environment}")
    expect(page.locator(".steps")).to_contain_text("Paste a repository")
    page.get_by_label("Repository").fill(repository.url)
    page.get_by_role("button", name="Detect").click()
    expect(page.get_by_role("heading", name=re.compile("Found: .*Python"))).to_be_visible()
    page.get_by_label("Branch").select_option("next")
    page.get_by_label("Name", exact=True).fill("shop")
    expect(page.get_by_label("Deploy on every push")).to_be_checked()
    page.get_by_label("1 CPU 1 GB").check()
    page.get_by_label("PostgreSQL").check()
    page.get_by_role("button", name="Create only").click()
    expect(page.get_by_role("heading", name="shop", level=1)).to_be_visible()
    made = server.call("GET", page.url.replace(f"{server.url}/console", ""))
    assert (made["cpu"], made["memory"], made["auto_deploy"]) == (1000, 1024, True)
    assert made["git_repository"]["branch"] == "next"
    (database,) = server.call("GET", f"/environment/{environment}/database")["results"]
    assert (database["name"], database["type"]) == ("shop-db", "POSTGRESQL")
    (variable,) = [
        one
        for one in server.call("GET", f"/application/{made['id']}/environmentVariable")["results"]
        if one["key"] == "DATABASE_URL"
    ]
    assert variable["value"] == "{{SHOP_DB_URL}}"


def test_the_database_that_the_code_needs_is_chosen_and_its_variables_are_set(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    code = "import os\nfrom flask import Flask\napp = Flask(__name__)\nhost = os.environ['DB_HOST']\n"
    repository.commit({"app.py": code, "requirements.txt": "flask\npsycopg2-binary\n"}, "Keep orders")
    environment = server.environment(project="Needed")
    page = new_page(f"/new?environment={environment}")
    page.get_by_label("Repository").fill(repository.url)
    page.get_by_role("button", name="Detect").click()
    expect(page.get_by_text("app.py takes the access to a PostgreSQL database from DB_HOST.")).to_be_visible()
    expect(page.get_by_label("PostgreSQL")).to_be_checked()
    page.get_by_label("Name", exact=True).fill("shop")
    page.get_by_role("button", name="Create only").click()
    expect(page.get_by_role("heading", name="shop", level=1)).to_be_visible()
    made = server.call("GET", page.url.replace(f"{server.url}/console", ""))
    listed = server.call("GET", f"/application/{made['id']}/environmentVariable")["results"]
    assert {one["key"]: one["value"] for one in listed} == {"DB_HOST": "{{SHOP_DB_HOST}}"}


def test_a_database_is_chosen_by_its_kind_and_version(server: Server, new_page: NewPage) -> None:
    environment = server.environment(project="Kept data")
    page = new_page(f"/new?kind=database&environment={environment}")
    page.get_by_label("Redis").check()
    version = page.get_by_label("Version")
    expect(version.locator("option").first).to_be_attached()
    version.select_option(index=1)
    wanted = version.input_value()
    page.get_by_label("Name").fill("cache")
    page.get_by_role("button", name="Create only").click()
    expect(page.get_by_role("heading", name="cache", level=1)).to_be_visible()
    (made,) = server.call("GET", f"/environment/{environment}/database")["results"]
    assert (made["type"], made["version"], made["memory"]) == ("REDIS", wanted, 256)


def test_a_job_says_in_words_when_it_runs_and_lists_the_next_five_times(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    environment = server.environment(project="By the clock")
    page = new_page(f"/new?kind=job&environment={environment}", timezone_id="Asia/Tokyo")
    page.get_by_label("Repository", exact=True).fill(repository.url)
    page.get_by_label("Command").fill("python app.py")
    page.get_by_label("Name").fill("weekly")
    page.get_by_label("How often").select_option("week")
    page.get_by_label("Weekday").select_option("Friday")
    page.get_by_label("At", exact=True).fill("04:15")
    times = page.locator(".next-times")
    expect(times).to_contain_text("Every Friday at 04:15 (Asia/Tokyo)")
    expect(times.locator("li")).to_have_count(5)
    for line in times.locator("li").all():
        expect(line).to_contain_text("Fri")
    page.get_by_role("button", name="Create only").click()
    expect(page.get_by_role("heading", name="weekly", level=1)).to_be_visible()
    (made,) = server.call("GET", f"/environment/{environment}/job")["results"]
    timetable = made["schedule"]["cronjob"]
    assert (timetable["scheduled_at"], timetable["timezone"]) == ("15 4 * * 5", "Asia/Tokyo")
    assert timetable["entrypoint"] == "python app.py"


def test_a_container_is_made_from_a_pasted_image_with_its_port(server: Server, new_page: NewPage) -> None:
    environment = server.environment(project="Images")
    page = new_page(f"/new?kind=container&environment={environment}")
    page.get_by_label("Image", exact=True).fill("ghcr.io/acme/shop:1.4.2")
    page.get_by_label("Port", exact=True).fill("8080")
    expect(page.get_by_label("Tag")).to_have_value("1.4.2")
    expect(page.get_by_label("Public address")).to_be_checked()
    page.get_by_label("1 CPU 1 GB").check()
    page.get_by_role("button", name="Create only").click()
    expect(page.get_by_role("heading", name="shop", level=1)).to_be_visible()
    (made,) = server.call("GET", f"/environment/{environment}/container")["results"]
    assert (made["image_name"], made["tag"], made["memory"]) == ("ghcr.io/acme/shop", "1.4.2", 1024)
    assert [(port["internal_port"], port["publicly_accessible"]) for port in made["ports"]] == [(8080, True)]


CASES = {
    "30 2 * * *": ["2026-03-28T02:30", "2026-03-29T02:30"],
    "*/30 9-10 * * mon-fri": ["2026-03-30T09:00", "2026-03-30T09:30"],
    "0 0 29 feb *": ["2028-02-29T00:00", "2032-02-29T00:00"][:1],
    "0 12 1 * fri": ["2026-04-01T12:00", "2026-04-03T12:00"],
    "0 0 * * 7": ["2026-03-29T00:00", "2026-04-05T00:00"],
}
"""The next two times after noon of Friday, 27 March 2026, in UTC."""
WRONG = ("", "* * * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "a * * * *")


def test_the_next_times_of_a_timetable_are_those_of_cron(new_page: NewPage) -> None:
    page = new_page("/")
    found = page.evaluate(
        """async ([cases, wrong]) => {
          const own = document.querySelector('script').src;
          const { parseCron, nextTimes } = await import(new URL('cron.js', own));
          const from = new Date('2026-03-27T12:00:00Z');
          const times = cases.map((text) => nextTimes(parseCron(text), 'UTC', 2, from)
            .map((at) => at.toISOString().slice(0, 16)));
          return [times, wrong.map(parseCron)];
        }""",
        [list(CASES), list(WRONG)],
    )
    assert dict(zip(CASES, found[0], strict=True)) == CASES
    assert found[1] == [None] * len(WRONG)
