"""A job and a Terraform service have pages of what is special about them: runs with their logs, and a plan
before it is applied; an image has its newer tags."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.servers import Repository, Server
from tests.browser.test_newcomer import confirm, tab
from tests.registries.docker_registry import DockerRegistry
from tests.terraform_services.modules import document, needs_program

pytestmark = pytest.mark.nightly

REPORT = """\
import sys, time
print("reports on", sys.argv[1], flush=True)
if sys.argv[1] == "forever":
    time.sleep(600)
sys.exit("no orders" if sys.argv[1] == "nothing" else 0)
"""
MODULE = """\
variable "size" { default = SIZE }
resource "terraform_data" "box" { input = var.size }
output "box" { value = "of ${var.size}" }
"""


def deployed(server: Server, path: str) -> Any:
    """Deploys a service, and waits for its end."""
    server.call("POST", f"{path}/deploy", {})
    until = time.monotonic() + 60
    while True:
        (newest,) = server.call("GET", f"{path}/deployment?page_size=1")["results"]
        if newest["status"] in {"SUCCEEDED", "FAILED"}:
            assert newest["status"] == "SUCCEEDED", newest
            return newest
        assert time.monotonic() < until, newest
        time.sleep(0.1)


def fact(page: Page, name: str) -> Locator:
    term = page.get_by_text(name, exact=True)
    return page.locator(".facts > div").filter(has=term).locator("dd")


def question(page: Page, action: str) -> str:
    """The console says something before it acts: its question is read, and answered with no."""
    if action != "Deploy":
        page.locator("summary.icon-only").click()
    page.get_by_role("button", name=action, exact=True).first.click()
    text = page.locator("dialog[open]").inner_text()
    page.locator("dialog[open]").get_by_role("button", name="Cancel").click()
    return text


def test_a_job_is_run_with_other_arguments_and_its_log_is_read(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    repository.commit({"app.py": REPORT}, "A report")
    schedule = {"scheduled_at": "30 2 1 1 *", "timezone": "Asia/Tokyo", "entrypoint": "python app.py"}
    body = {
        "name": "report",
        "source": {"docker": {"git_repository": {"url": repository.url, "branch": "main"}}},
        "schedule": {"cronjob": schedule | {"arguments": ["orders"]}},
    }
    job = server.call("POST", f"/environment/{server.environment(project='Jobs')}/job", body)["id"]
    deployed(server, f"/job/{job}")
    page = new_page(f"/job/{job}", timezone_id="Europe/Berlin")
    expect(page.locator(".tabs")).not_to_contain_text("Terminal")
    expect(page.locator(".service-line")).to_contain_text("active")
    expect(fact(page, "Next run")).to_contain_text("in ")
    expect(fact(page, "Last run")).to_have_text("none yet")
    expect(page.get_by_role("row", name="v1")).to_contain_text("Deploy")
    assert "none begins until the next deployment" in question(page, "Stop")
    expect(page.get_by_role("button", name="Run now")).to_be_visible()
    tab(page, "Settings")
    page.locator(".rail").get_by_role("link", name="Schedule").click()
    expect(page.get_by_label("Cron", exact=True)).to_have_value("30 2 1 1 *")

    # The next due times, as the clock of the job and that of the reader show them.
    tab(page, "Runs")
    timetable = page.locator(".panel", has_text="Timetable")
    expect(timetable).to_contain_text("In Asia/Tokyo")
    expect(timetable.locator("tbody tr")).to_have_count(3)
    expect(timetable.locator("tbody tr").first).to_contain_text("02:30")
    expect(timetable.locator("tbody tr").first).to_contain_text("18:30")

    # A run with other arguments fails, and says why.
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_label("Arguments")).to_have_value("orders")
    page.get_by_label("Arguments").fill("nothing")
    confirm(page, "Run now")
    expect(page.locator(".service-line")).to_contain_text("failed")
    expect(page.locator(".log")).to_contain_text("reports on nothing")
    expect(page.locator(".log")).to_contain_text("no orders")
    page.locator(".crumbs").get_by_role("link", name="Runs").click()
    expect(page.get_by_role("row", name="#1")).to_contain_text("run by operator")
    tab(page, "Overview")
    expect(fact(page, "Last run")).to_contain_text(re.compile("failed *#1"))
    tab(page, "Runs")

    # Another is cancelled while it goes on.
    page.get_by_role("button", name="Run now").click()
    page.get_by_label("Arguments").fill("forever")
    confirm(page, "Run now")
    expect(page.locator(".log")).to_contain_text("reports on forever")
    page.get_by_role("button", name="Cancel run").click()
    confirm(page, "Cancel run")
    expect(page.locator(".service-line")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)


def test_the_page_of_a_service_without_a_port_links_to_its_port_settings(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    app = server.application(server.environment(project="Ports"), repository, "hidden")
    server.call("PATCH", f"/application/{app}", {"ports": [], "start_command": "sleep 600"})
    deployed(server, f"/application/{app}")
    page = new_page(f"/application/{app}")
    page.locator(".panel", has_text="It has no port").get_by_role("link", name="Add a port").click()
    expect(page.locator(".settings-section:not([hidden])")).to_contain_text("Where the program listens")


def test_a_service_that_was_changed_since_its_deployment_says_so(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    environment = server.environment(project="Changes")
    app = server.application(environment, repository, "changed")
    deployed(server, f"/application/{app}")
    page = new_page(f"/environment/{environment}")
    row = page.get_by_role("row", name="changed")
    expect(row).to_contain_text("running")
    expect(row).not_to_contain_text("changed since its deployment")
    variable = {"key": "GREETING", "value": "hello"}
    server.call("POST", f"/application/{app}/environmentVariable", variable)
    page.reload()
    expect(row).to_contain_text("changed since its deployment")
    page.goto(f"{server.url}/console/application/{app}")
    expect(page.locator(".service-line")).to_contain_text("changed since its deployment")
    deployed(server, f"/application/{app}")
    expect(page.locator(".service-line")).not_to_contain_text("changed since its deployment")


def test_charts_name_the_version_of_an_instance_and_draw_the_runs_of_a_job_as_one_line(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    environment = server.environment(project="Charts")
    app = server.application(environment, repository, "measured")
    job = server.example(environment, "job").removeprefix("/job/")
    times = [f"2026-01-01T10:{minute:02}:00.000Z" for minute in range(4)]
    page = new_page("/")
    for place, names in (
        (f"application/{app}", ["1-0", "2-1"]),
        (f"job/{job}", ["1795770914861004-0", "1795770919573005-0"]),
    ):
        instances = [{"name": name, "cpu": [1] * 4, "memory": [2**20] * 4} for name in names]
        metrics = {"every_seconds": 60, "times": times, "instances": instances, "requests": None}
        page.route(f"{server.url}/{place}/metrics", partial(Route.fulfill, json=metrics))
        page.goto(f"{server.url}/console/{place}/metrics")
        memory = page.locator(".chart", has_text="Memory").locator(".now")
        expect(memory).to_have_text(
            re.compile("v1 #1 1.0 MiB v2 #2 1.0 MiB" if names[0] == "1-0" else "^ ?2.0 MiB ?$")
        )


def test_a_terraform_plan_can_be_reviewed_before_it_is_applied(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    needs_program()
    (repository.folder / "infra").mkdir()
    repository.commit({"infra/main.tf": MODULE.replace("SIZE", "1")}, "A module")
    environment = server.environment(project="Terraform")
    body = document(repository.url)
    del body["terraform_files_source"]["git_repository"]["branch"]  # that of the repository is meant
    made = server.call("POST", f"/environment/{environment}/terraform", body)
    page = new_page(f"/terraform/{made['id']}")
    tab(page, "Plan")
    expect(page.locator(".empty")).to_contain_text("It changes nothing.")

    page.get_by_role("button", name="Plan", exact=True).click()
    plan = page.locator("section.panel", has_text="Plan of v1").first
    expect(plan).to_contain_text("+1 to add")
    expect(plan.locator(".resources")).to_contain_text("terraform_data.box")
    plan.get_by_text("The plan as text").click()
    expect(plan.locator(".lines")).to_contain_text("will be created")
    assert server.call("GET", f"/terraform/{made['id']}/stateVersion")["results"] == []
    tab(page, "Overview")
    expect(page.locator(".panel", has_text="What runs")).to_contain_text(f"{repository.url} (/infra)")
    tab(page, "Plan")

    plan.get_by_role("button", name="Apply this plan").click()
    confirm(page, "Apply this plan")
    expect(page.locator(".service-line")).to_contain_text("succeeded")
    page.locator(".crumbs").get_by_role("link", name="bucket", exact=True).click()
    tab(page, "Plan")
    expect(page.locator(".panel", has_text="Versions of the state")).to_contain_text("present")
    expect(page.get_by_role("button", name="Apply this plan")).to_have_count(0)  # it is applied
    expect(page.locator(".panel", has_text="Lock on the state")).to_contain_text("No run holds it.")

    # What is done with a module is said in words of its own, above all what destroys.
    tab(page, "Overview")
    expect(page.locator(".service-line")).to_contain_text("applied")
    expect(page.get_by_role("row", name="v1")).to_contain_text("Plan")
    expect(page.get_by_role("row", name="v2")).to_contain_text("Apply")
    expect(page.locator(".panel", has_text="Output")).to_contain_text("of 1")
    assert "it adds, changes and destroys resources" in question(page, "Deploy")
    assert "Its resources are destroyed first" in question(page, "Delete")
    assert "stay as they are" in question(page, "Stop")
    assert "The service and its settings stay" in question(page, "Destroy resources")
    page.goto(f"{server.url}/console/environment/{environment}")
    assert "The resources of its Terraform modules are destroyed." in question(page, "Delete")


def test_the_form_of_a_new_terraform_module_shows_its_input_variables(
    server: Server, new_page: Callable[..., Page], repository: Repository
) -> None:
    needs_program()
    asked = (
        'variable "bucket" {\n  description = "The name of the bucket"\n}\n'
        'variable "size" {\n  default = 3\n}\noutput "name" {\n  value = "${var.bucket}-${var.size}"\n}\n'
    )
    repository.commit({"main.tf": asked, "blue.tfvars": 'bucket = "blue"\n'}, "A module that asks")
    environment = server.environment(project="Asking")
    page = new_page(f"/new?kind=terraform&environment={environment}")
    page.get_by_label("Repository").fill(repository.url)
    page.get_by_label("Name", exact=True).fill("asking")
    page.get_by_role("button", name="Read the module").click()
    expect(page.locator(".inputs")).to_contain_text("The name of the bucket")
    expect(page.get_by_label("blue.tfvars")).not_to_be_checked()
    expect(page.get_by_label("size", exact=True)).to_be_hidden()  # It has a default.
    page.get_by_text("1 with a default").click()
    expect(page.get_by_label("size", exact=True)).to_have_attribute("placeholder", "3")
    page.get_by_label("bucket (required)").fill("harbour")
    page.get_by_role("button", name="Create and plan").click()
    plan = page.locator("section.panel", has_text="Plan of v1").first
    expect(plan).to_contain_text("+0 to add", timeout=120_000)
    plan.get_by_role("button", name="Apply this plan").click()
    confirm(page, "Apply this plan")
    expect(page.locator(".service-line")).to_contain_text("succeeded", timeout=120_000)
    service = page.url.split("/terraform/")[1].split("/")[0]
    (output,) = server.call("GET", f"/terraform/{service}/output")["results"]
    assert output["value"] == "harbour-3"


@pytest.fixture
def docker_registry(tmp_path: Path) -> Iterator[DockerRegistry]:
    running = DockerRegistry(tmp_path, tls=False, login=False)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def server_with_images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its cluster would run images. No test of this one runs any, so that it needs no Docker."""
    settings = {
        "WINDLASS_ENGINE": "docker",
        "WINDLASS_DOCKER_HOST": "unix:///nowhere.sock",
        "WINDLASS_OUTBOUND_ALLOW": "127.0.0.0/8,::1/128",
    }
    running = Server(tmp_path_factory.mktemp("images"), settings=settings)
    yield running
    running.end()


def test_newer_tags_of_an_image_are_offered_and_a_registry_is_checked(
    server_with_images: Server,
    docker_registry: DockerRegistry,
    chromium: Browser,
) -> None:
    server = server_with_images
    for tag in ("1.4.1", "1.4.2", "1.10.0"):
        docker_registry.push("acme/shop", tag, tag.encode())
    body = {"name": "ours", "kind": "GENERIC_CR", "url": docker_registry.url, "config": {}}
    registry = server.call("POST", f"/organization/{server.org}/containerRegistry", body)["id"]
    image = {"name": "shop", "registry_id": registry, "image_name": "acme/shop", "tag": "1.4.2"}
    container = server.call("POST", f"/environment/{server.environment()}/container", image)["id"]
    page = chromium.new_context().new_page()
    page.goto(server.link())
    page.wait_for_selector("main h1")

    page.goto(f"{server.url}/console/organization/{server.org}/containerRegistry/{registry}")
    expect(page.get_by_role("row", name="acme/shop")).to_contain_text("1.10.0, 1.4.2, 1.4.1")
    page.get_by_role("button", name="Look at the registry now").click()
    confirm(page, "Look at the registry now")
    expect(page.locator("dialog[open] .facts")).to_contain_text("OK")
    confirm(page, "Close")

    page.goto(f"{server.url}/console/container/{container}")
    tab(page, "Tags")
    newer = page.get_by_role("table", name="Newer tags").locator("tbody tr")
    expect(newer).to_have_count(1)
    newer.get_by_role("button", name="Deploy this tag").click()
    confirm(page, "Deploy this tag")
    expect(page.get_by_role("heading", name="Deploy v1")).to_be_visible()
    assert server.call("GET", f"/container/{container}/deployment")["results"][0]["image_tag"] == "1.10.0"

    # A registry that is unavailable is told, in place of an empty list.
    docker_registry.stop()
    page.goto(f"{server.url}/console/container/{container}/tags")
    expect(page.get_by_role("alert")).to_contain_text("refuses connections")
    page.context.close()
