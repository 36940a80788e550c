"""The settings of a service: found by a search, changed by choices, and saved from one bar."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

NewPage = Callable[..., Page]


def test_size_instances_and_branch_are_chosen_on_the_first_page_of_the_settings(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    repository.git("branch", "next")
    app = server.application(server.environment(project="Chosen sizes"), repository, "sized")
    page = new_page(f"/application/{app}/settings")
    bar = page.locator(".save-bar")
    expect(bar).to_contain_text("Nothing is changed yet")
    expect(page.get_by_label("½ CPU 512 MB")).to_be_checked()
    page.get_by_label("1 CPU 1 GB").check()
    page.get_by_label("Follow the load").check()
    page.get_by_label("Maximum instances").fill("3")
    page.get_by_label("Branch").focus()
    expect(page.locator("#branches-of-settings option[value=next]")).to_be_attached()
    page.get_by_label("Branch").fill("next")
    page.get_by_label("Deploy on every push").check()
    expect(bar).to_contain_text("5 changes")
    expect(bar).to_contain_text("Takes effect at the next deployment")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    saved = server.call("GET", f"/application/{app}")
    assert (saved["cpu"], saved["memory"]) == (1000, 1024)
    assert (saved["min_running_instances"], saved["max_running_instances"]) == (1, 3)
    assert (saved["git_repository"]["branch"], saved["auto_deploy"]) == ("next", True)

    # An own size, in the unit that one thinks in; and all is discarded again.
    page.get_by_label("Custom").check()
    page.get_by_label("CPU", exact=True).fill("1.5")
    page.get_by_label("Memory", exact=True).fill("3")
    page.get_by_label("Unit of the memory").select_option("GB")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("1 CPU 1 GB")).to_be_checked()
    expect(bar).to_contain_text("Nothing is changed yet")


def test_a_health_check_is_one_kind_with_its_fields_only(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Checked"), repository, "checked")
    page = new_page(f"/application/{app}/settings?section=probes")
    ready = page.locator("[data-field=readiness_probe]").first
    ready.get_by_label("HTTP", exact=True).check()
    ready.get_by_label("Path").fill("/healthz")
    ready.get_by_label("Port").locator("visible=true").fill("8080")
    ready.get_by_label("Command", exact=True).first.check()
    expect(ready.get_by_label("Path")).to_be_hidden()
    ready.get_by_role("textbox", name="Command").fill("test -f ready || exit 1")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    probes = server.call("GET", f"/application/{app}")["healthchecks"]
    assert probes["readiness_probe"]["type"] == {"exec": {"command": ["sh", "-c", "test -f ready || exit 1"]}}
    assert not probes.get("liveness_probe")

    ready.get_by_label("None").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices .notice")).to_have_count(2)
    assert not server.call("GET", f"/application/{app}")["healthchecks"].get("readiness_probe")


def test_the_search_of_settings_opens_the_matching_field(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Found"), repository, "found")
    page = new_page(f"/application/{app}/settings")
    page.get_by_label("Search settings").fill("release")
    page.get_by_role("button", name="Start › Release command").click()
    expect(page.get_by_label("Release command")).to_be_focused()
    expect(page.locator(".rail [aria-current]")).to_have_text("Start")
    page.get_by_label("Search settings").fill("nothing like it")
    expect(page.locator(".rail-page")).to_contain_text("No setting has these words")


def test_advanced_settings_are_found_changed_and_set_to_their_defaults(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Advanced"), repository, "advanced")
    page = new_page(f"/application/{app}/settings")
    page.get_by_label("Search settings").fill("request body")
    page.get_by_role("button", name="Requests › Largest request body").click()
    page.locator(".save-bar").get_by_text("Nothing is changed yet").wait_for()
    body = page.locator("[data-field='network.ingress.proxy_body_size_mb'] input")
    expect(body).to_have_attribute("placeholder", "0")
    body.fill("8")
    expect(page.locator(".save-bar")).to_contain_text("Takes effect at once")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    assert server.call("GET", f"/application/{app}")["advanced_settings"] == {
        "network.ingress.proxy_body_size_mb": 8
    }
    assert page.locator("[data-field='security.service_account_name']").count() == 0
    page.locator("[data-field='network.ingress.proxy_body_size_mb'] input").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices .notice")).to_have_count(2)
    assert "advanced_settings" not in server.call("GET", f"/application/{app}")


def test_a_health_check_is_tried_on_the_running_instances_before_it_is_saved(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Tried"), repository, "tried")
    server.deploy(app)
    page = new_page(f"/application/{app}/settings?section=probes")
    ready = page.locator("[data-field=readiness_probe]").first
    ready.get_by_label("HTTP", exact=True).check()
    ready.get_by_role("button", name="Try it now").click()
    expect(ready.locator(".outcome")).to_contain_text("1-0: passes")
    ready.get_by_label("TCP", exact=True).check()
    ready.get_by_label("Port").locator("visible=true").fill("1")
    ready.get_by_role("button", name="Try it now").click()
    expect(ready.locator(".outcome")).to_contain_text("1-0: fails: nothing listens on port 1")
    assert not server.call("GET", f"/application/{app}")["healthchecks"].get("readiness_probe")


def test_an_application_takes_pushes_and_its_page_shows_the_two_commands(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Pushed"), repository, "pushed")
    page = new_page(f"/application/{app}/settings")
    page.get_by_label("Pushed here").check()
    expect(page.get_by_label("Repository", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    saved = server.call("GET", f"/application/{app}")
    assert saved["git_repository"]["url"] == "windlass://push"
    page = new_page(f"/application/{app}")
    expect(page.get_by_text(f"git remote add windlass {saved['push_url']}")).to_be_visible()
    expect(page.get_by_text("git push windlass main")).to_be_visible()


def test_a_timetable_is_changed_in_words_and_shows_its_next_times(server: Server, new_page: NewPage) -> None:
    environment = server.environment(project="Other times")
    source = {"image": {"image_name": "docker.io/library/alpine", "tag": "3"}}
    schedule = {"cronjob": {"scheduled_at": "30 2 * * 1", "timezone": "Etc/UTC", "entrypoint": "true"}}
    body = {"name": "weekly", "source": source, "schedule": schedule}
    job = server.call("POST", f"/environment/{environment}/job", body)["id"]
    page = new_page(f"/job/{job}/settings?section=schedule")
    expect(page.get_by_label("How often")).to_have_value("week")
    expect(page.locator(".next-times")).to_contain_text("Every Monday at 02:30 (Etc/UTC)")
    page.get_by_label("How often").select_option("day")
    page.get_by_label("At", exact=True).fill("04:15")
    expect(page.locator(".next-times")).to_contain_text("Every day at 04:15")
    page.get_by_label("Ended after").fill("1.5")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    saved = server.call("GET", f"/job/{job}")
    assert saved["schedule"]["cronjob"]["scheduled_at"] == "15 4 * * *"
    assert saved["schedule"]["cronjob"]["entrypoint"] == "true"
    assert saved["max_duration_seconds"] == 90


def test_a_volume_is_added_with_its_folder_and_size(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Volumes"), repository, "kept")
    page = new_page(f"/application/{app}/settings?section=storage")
    section = page.locator(".settings-section:not([hidden])")
    expect(section).to_contain_text("No volume")
    section.get_by_role("button", name="Add", exact=True).click()
    section.get_by_label("Folder").fill("/data")
    section.get_by_label("Size").fill("5")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    (volume,) = server.call("GET", f"/application/{app}")["storage"]
    assert (volume["mount_point"], volume["size"]) == ("/data", 5)


def test_naming_a_port_ends_the_search_for_one_until_it_is_turned_on_again(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    app = server.application(server.environment(project="Followed"), repository, "followed")
    page = new_page(f"/application/{app}/settings?section=ports")
    section = page.locator(".settings-section:not([hidden])")
    expect(section.get_by_label("Find the port")).to_be_checked()
    section.get_by_role("button", name="Add", exact=True).click()
    expect(section.get_by_label("Find the port")).not_to_be_checked()
    section.get_by_label("Port", exact=True).fill("9000")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    saved = server.call("GET", f"/application/{app}")
    assert [port["internal_port"] for port in saved["ports"]] == [9000]
    assert not saved["automatic_port"]
    section.get_by_label("Find the port").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices .notice")).to_have_count(2)
    assert server.call("GET", f"/application/{app}")["automatic_port"] is True


def test_a_job_of_a_repository_becomes_one_of_an_image(
    server: Server, new_page: NewPage, repository: Repository
) -> None:
    environment = server.environment(project="Other sources")
    schedule = {"on_start": {"entrypoint": "true"}}
    source = {"docker": {"git_repository": {"url": repository.url, "branch": "main"}}}
    body = {"name": "moved", "source": source, "schedule": schedule}
    job = server.call("POST", f"/environment/{environment}/job", body)["id"]
    page = new_page(f"/job/{job}/settings")
    expect(page.get_by_label("Repository", exact=True)).to_have_value(repository.url)
    page.get_by_label("Container image").check()
    page.get_by_label("Image", exact=True).fill("docker.io/library/alpine")
    page.get_by_label("Tag", exact=True).fill("3")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    saved = server.call("GET", f"/job/{job}")["source"]
    assert saved["image"]["image_name"] == "docker.io/library/alpine"
    assert not saved.get("docker")
