"""Forms show the fields of the choice that was made, as the document of the API names the choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import DOCUMENT, Watch
from tests.browser.servers import Repository, Server

pytestmark = pytest.mark.nightly

SCHEMAS = DOCUMENT["components"]["schemas"]


def marked(mark: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], Any]]:
    """Yields the schema that has a marked property, the schema of the property, and the mark."""
    for schema in SCHEMAS.values():
        for field in schema.get("properties", {}).values():
            if mark in field:
                inner = SCHEMAS[field["allOf"][0]["$ref"].rpartition("/")[2]]
                yield schema, inner, field[mark]


def test_alternatives_of_a_form_name_distinct_existing_fields() -> None:
    found = list(marked("x-alternatives"))
    assert found
    for _, inner, choices in found:
        names = [name for fields in choices.values() for name in fields]
        assert len(choices) > 1
        assert len(names) == len(set(names))
        assert set(names) <= set(inner["properties"])


def test_a_field_that_selects_other_fields_covers_all_of_its_enum_values() -> None:
    found = list(marked("x-fields-by"))
    assert found
    for schema, inner, rule in found:
        decider = schema["properties"].get(rule["field"])
        assert decider is None or set(rule["values"]) == set(decider["enum"])
        assert {name for fields in rule["values"].values() for name in fields} <= set(inner["properties"])


def test_the_job_form_shows_only_the_fields_of_the_chosen_source_and_schedule(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    environment = server.environment(project="Forms of jobs")
    page = new_page(f"/do/createJob?env_id={environment}")
    form = page.locator("main .panel").first
    form.get_by_label("Name").first.fill("nightly")
    expect(form.get_by_label("URL")).to_be_visible()
    expect(form.get_by_label("Image name")).to_be_hidden()
    form.get_by_label("An image").check()
    expect(form.get_by_label("URL")).to_be_hidden()
    expect(form.get_by_label("Image name")).to_be_visible()
    form.get_by_label("A git repository").check()
    form.get_by_label("URL").fill(repository.url)
    form.get_by_label("At events of the environment").check()
    expect(form.get_by_label("Timetable (cron)")).to_be_hidden()
    form.get_by_label("On start").check()
    form.get_by_label("Entrypoint").locator("visible=true").fill("python -V")
    page.locator("main .button.main").click()
    expect(page.locator("main")).to_contain_text("Answer")
    (made,) = server.call("GET", f"/environment/{environment}/job")["results"]
    job = server.call("GET", f"/job/{made['id']}")
    assert job["job_type"] == "LIFECYCLE"
    assert job["schedule"]["on_start"]["entrypoint"] == "python -V"
    assert not job["schedule"].get("cronjob")

    # Another event takes its place, and the first one is gone.
    page.goto(f"{server.url}/console/job/{job['id']}/settings?section=schedule")
    page.get_by_label("When the job is deployed").uncheck()
    page.get_by_label("When it is stopped").check()
    page.get_by_label("Command", exact=True).fill("python -c pass")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    schedule = server.call("GET", f"/job/{job['id']}")["schedule"]
    assert schedule["on_stop"]["entrypoint"] == "python -c pass"
    assert not schedule.get("on_start")


def test_the_container_registry_form_shows_only_the_fields_of_its_kind(
    server: Server, new_page: Callable[..., Page], watch: Watch
) -> None:
    watch.expected.append("409 (Conflict)")  # the images of a registry that is out of reach
    page = new_page(f"/organization/{server.org}/containerRegistry")
    page.get_by_role("button", name="New container registry").first.click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator(".how")).to_contain_text("Personal access tokens")
    expect(dialog.get_by_label("Password")).to_be_visible()
    dialog.get_by_label("AWS ECR").check()
    expect(dialog.get_by_label("Secret access key")).to_be_visible()
    expect(dialog.get_by_label("Password")).to_be_hidden()
    dialog.get_by_label("Region").fill("eu-central-1")
    dialog.get_by_label("Docker Hub").check()
    dialog.get_by_label("Name").first.fill("images")
    expect(dialog.get_by_label("Password")).to_be_visible()
    expect(dialog.get_by_label("Region")).to_be_hidden()
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("link", name="images")).to_be_visible()
    (made,) = server.call("GET", f"/organization/{server.org}/containerRegistry")["results"]
    assert made["kind"] == "DOCKER_HUB"
    assert not made["config"].get("region")

    # What exists keeps its provider, and has the same fields.
    page.get_by_role("link", name="images").click()
    expect(page.get_by_text("A password or key that is left empty stays")).to_be_visible()
    expect(page.get_by_label("Region")).to_have_count(0)
    page.get_by_label("Name", exact=True).fill("images of the shop")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved")
    (changed,) = server.call("GET", f"/organization/{server.org}/containerRegistry")["results"]
    assert changed["name"] == "images of the shop"


def test_a_restriction_says_which_commits_deploy(
    server: Server, repository: Repository, new_page: Callable[..., Page]
) -> None:
    app = server.application(server.environment(project="Restrictions"), repository)
    page = new_page(f"/application/{app}/deploymentRestriction")
    page.get_by_role("button", name="New deployment restriction").first.click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Only those that change this path").check()
    dialog.get_by_label("Path", exact=True).fill("src/**")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator("main")).to_contain_text("src/**")
    expect(page.locator("main")).to_contain_text("Only those that change this path")
    (made,) = server.call("GET", f"/application/{app}/deploymentRestriction")["results"]
    assert (made["mode"], made["type"], made["value"]) == ("MATCH", "PATH", "src/**")


def test_a_terraform_module_chooses_where_its_state_is_kept(
    server: Server, new_page: Callable[..., Page]
) -> None:
    environment = server.environment(project="Forms of modules")
    page = new_page(f"/new?kind=terraform&environment={environment}")
    expect(page.get_by_label("Windlass encrypted")).to_be_checked()
    page.get_by_label("The module’s backend").check()
    page.get_by_label("Plan", exact=True).check()  # of each new commit
    page.get_by_label("Repository").fill("https://github.com/acme/network.git")
    page.get_by_role("button", name="Create only").click()
    page.wait_for_url("**/terraform/*")
    made = server.call("GET", page.url.split("/console")[1])
    assert made["name"] == "network"
    assert made["backend"] == {"user_provided": {}}
    assert made["auto_deploy_config"] == {"auto_deploy": True, "terraform_action": "PLAN"}

    # The settings have the same parts, and send what was changed.
    page.goto(f"{page.url}/settings?section=module")
    page.get_by_role("button", name="Add by name").click()
    page.get_by_label("Name", exact=True).last.fill("password")
    page.get_by_label("Value", exact=True).fill("correct-horse")
    page.get_by_label("Secret").check()
    page.get_by_label("A run ends after").fill("5")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Saved.")
    expect(page.get_by_label("Value", exact=True)).to_have_attribute("placeholder", re.compile("to keep it"))
    made = server.call("GET", f"/terraform/{made['id']}")
    assert made["timeout_sec"] == 300
    assert [row["key"] for row in made["terraform_variables_source"]["tf_vars"]] == ["password"]


def test_a_chart_is_created_with_its_values(server: Server, new_page: Callable[..., Page]) -> None:
    environment = server.environment(project="Forms of charts")
    page = new_page(f"/new?kind=helm&environment={environment}")
    expect(page.get_by_label("Git repository")).to_be_checked()  # there is no chart repository
    page.get_by_label("Chart repository").check()
    expect(page.get_by_text("There is no chart repository yet")).to_be_visible()
    page.get_by_role("button", name="Create only").click()
    expect(page.get_by_text("Choose a repository.")).to_be_visible()
    page.get_by_label("Git repository").check()
    page.get_by_label("Repository", exact=True).fill("https://github.com/acme/charts.git")
    page.get_by_label("Folder").fill("/redis")
    page.get_by_role("textbox", name="Values").fill("replicaCount: 2")
    page.get_by_label("A run ends after").fill("120")
    page.get_by_role("button", name="Create only").click()
    page.wait_for_url("**/helm/*")
    made = server.call("GET", page.url.split("/console")[1])
    assert (made["name"], made["timeout_sec"]) == ("redis", 120)
    assert made["source"]["git_repository"]["root_path"] == "/redis"
    assert made["values_override"]["file"]["raw"]["values"][0]["content"] == "replicaCount: 2"
    page.goto(f"{page.url}/plan")
    expect(page.get_by_role("button", name="Plan", exact=True).first).to_be_visible()


def test_pasting_a_malformed_env_line_shows_an_error_with_its_line_number(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    app = server.application(server.environment(project="Pasted"), repository, "pasted")
    page = new_page(f"/application/{app}/variables")
    page.get_by_role("button", name="Paste a .env file").click()
    page.get_by_role("textbox", name="Lines").fill("GREETING=hello\nNOT A PAIR")
    page.locator("dialog[open] button.main").click()
    expect(page.locator("dialog .field-error")).to_have_text("Line 2: write it as KEY=value.")


def test_a_date_field_is_shown_in_the_browsers_time_zone_and_sent_in_utc(
    server: Server, new_page: Callable[..., Page]
) -> None:
    page = new_page("/", timezone_id="Asia/Tokyo")
    shown = page.evaluate(
        """async ([document, at]) => {
          const load = (name) => import(new URL(name, window.document.querySelector('script').src));
          const { $document: { ApiDocument } } = await load('main.js');
          const { schemaForm } = await load('forms.js');
          const api = new ApiDocument(document);
          const schema = api.schemas.OrganizationApiTokenRequest;
          const form = schemaForm(api, schema, { values: { expires_at: at } });
          return [form.node.querySelector('[type=datetime-local]').value, form.read().expires_at];
        }""",
        [DOCUMENT, "2030-01-31T09:05:00.000Z"],
    )
    assert shown == ["2030-01-31T18:05", "2030-01-31T09:05:00.000Z"]


def test_references_to_organization_resources_are_chosen_from_a_list_of_names(
    server: Server, new_page: Callable[..., Page], repository: Repository, watch
) -> None:
    watch.expected.append("status of 409")  # The git host is asked for repositories, and refuses the token.
    body = {"name": "of the shop", "type": "GITHUB", "token": "secret"}
    token = server.call("POST", f"/organization/{server.org}/gitToken", body)["id"]
    assert {mark for _, _, mark in referring()} >= {"gitToken", "containerRegistry"}
    page = new_page(f"/new?kind=terraform&environment={server.environment(project='Chosen')}")
    page.get_by_label("Token for a private one").select_option("of the shop")
    assert page.get_by_label("Token for a private one").input_value() == token


def referring() -> Iterator[tuple[str, str, str]]:
    for name, schema in SCHEMAS.items():
        for field, inner in schema.get("properties", {}).items():
            if "x-refers" in inner:
                yield name, field, inner["x-refers"]


def test_hints_and_errors_name_fields_by_their_titles(
    server: Server, new_page: Callable[..., Page], repository: Repository, watch
) -> None:
    watch.expected.append("status of 400")
    app = server.application(server.environment(project="Titles"), repository, "titled")
    page = new_page(f"/application/{app}/settings")
    page.get_by_label("Follow the load").check()
    page.get_by_label("Minimum instances").fill("9")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".field-error")).to_have_text(
        "Maximum instances must be -1 or at least “Minimum instances” (9)"
    )
    page.goto(f"{server.url}/console/application/{app}/settings?section=ports")
    expect(page.locator(".settings-section:not([hidden])")).to_contain_text(
        "Where the program listens, and who reaches it there"
    )
    expect(page.locator(".settings-section:not([hidden])")).not_to_contain_text("internal_port")


def test_the_form_of_a_token_offers_only_what_can_be_changed(
    server: Server, new_page: Callable[..., Page]
) -> None:
    made = server.call(
        "POST", f"/organization/{server.org}/apiToken", {"name": "changed", "scopes": ["Read"]}
    )
    page = new_page(f"/organization/{server.org}/apiToken/{made['id']}")
    page.get_by_label("Description").fill("of the laptop")
    for fixed in ("Read", "Role ID", "Scope", "Expires at", "Limited to"):
        expect(page.get_by_label(fixed, exact=True)).to_have_count(0)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("Saved.")
    path = f"/organization/{server.org}/apiToken/{made['id']}"
    assert server.call("GET", path)["description"] == "of the laptop"


def test_a_delivery_that_failed_says_why_in_its_row(server: Server, new_page: Callable[..., Page]) -> None:
    body = {"target_url": "http://127.0.0.1:1/hook", "kind": "STANDARD", "events": ["DEPLOYMENT_FAILED"]}
    hook = server.call("POST", f"/organization/{server.org}/webhook", body)["id"]
    page = new_page(f"/organization/{server.org}/webhook/{hook}")
    page.get_by_role("button", name="Deliver an example").click()
    answer = page.locator("dialog[open]")
    expect(answer.get_by_role("status")).to_contain_text("failed")
    expect(answer.get_by_role("status")).to_contain_text("It is tried again")
    answer.get_by_role("button", name="Close").click()
    deliveries = page.locator(".panel", has_text="Deliveries")
    expect(deliveries.locator("th").first).to_have_text("Status")
    expect(deliveries.locator("tbody tr").first).to_contain_text("127.0.0.1")


def test_an_empty_list_page_says_so_and_explains_its_resource(
    server: Server, new_page: Callable[..., Page]
) -> None:
    project = server.call("POST", f"/organization/{server.org}/project", {"name": "Empty"})["id"]
    environment = server.call("POST", f"/project/{project}/environment", {"name": "bare"})["id"]
    job = server.example(environment, "job")
    page = new_page(f"{job}/deploymentRestriction")
    expect(page.locator(".empty")).to_contain_text("No deployment restrictions yet. Chooses the commits")
