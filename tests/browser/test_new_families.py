"""A family unknown to the console has pages of its list and of a thing, and actions in the palette."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import DOCUMENT
from tests.browser.servers import Server
from tests.needs import program
from windlass.console.files import ROOT

pytestmark = pytest.mark.nightly

MANUAL = Path(__file__).parents[2] / "docs/adding-a-family.md"
WITH_FAMILIES = """\
import sys
import windlass.families
windlass.families.__path__.append(sys.argv.pop(1))
from windlass.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Knows the family of runbooks, which the manual adds as an example."""
    families = tmp_path_factory.mktemp("families")
    source = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.DOTALL)[0]
    (families / "runbook.py").write_text(source)
    running = Server(tmp_path_factory.mktemp("console"), program=("-c", WITH_FAMILIES, str(families)))
    yield running
    running.end()


def test_a_new_family_has_pages_without_code_of_the_console(server: Server, new_page, watch) -> None:
    watch.expected += ["/runbook", "status of 400"]  # the document of the tests does not have it
    server.environment(project="Ropes")
    page = new_page("/")
    page.get_by_role("link", name="Ropes").first.click()
    page.get_by_role("link", name="Runbooks").click()
    expect(page.locator(".empty")).to_contain_text(
        "No runbooks yet. What to do when something of a project breaks."
    )

    page.get_by_role("button", name="New runbook").first.click()
    page.get_by_label("Name").fill("Disk full")
    page.get_by_label("Severity").select_option("HIGH")
    page.get_by_label("Steps").fill("look at the graphs\nbuy a disk")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator("dialog [data-field=pager_key]")).to_contain_text("Set it")  # the dialog stays
    page.get_by_label("Pager key").fill("canary")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("link", name="Disk full").click()

    present = page.locator(".panel", has_text="At present")
    expect(present).to_contain_text("look at the graphs")
    expect(present).not_to_contain_text("canary")
    page.get_by_label("Link").fill("https://example.com/disks")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(present).to_contain_text("https://example.com/disks")
    runbook = page.url

    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Runbooks", level=1)).to_be_visible()
    page.goto(runbook)
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog[open] input").fill("Disk full")
    page.locator("dialog[open]").get_by_role("button", name="Delete").click()
    expect(page.locator(".empty")).to_contain_text("No runbooks yet. What to do when")
    page.keyboard.press("Control+k")
    page.keyboard.type("create a runbook")
    expect(page.locator("dialog.palette li").first).to_contain_text("Create a runbook")


def test_each_list_and_reading_of_a_tab_is_in_the_api() -> None:
    """A name that the API no longer has would hide nothing, and its tab would never be there."""
    node = program("node")
    script = Path(__file__).with_name("shown_by_hand.mjs")
    command = [node, str(script), str(ROOT / "js/routes.js")]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert len(shown) > 1
    read = {path.rpartition("/")[2] for path, item in DOCUMENT["paths"].items() if "get" in item}
    assert {tab: set(names) - read for tab, names in shown.items() if set(names) - read} == {}


def test_every_kind_of_service_has_pages_generated_from_the_api_document(
    server: Server, new_page, watch
) -> None:
    """Made from the example of the document: the console names no kind."""
    watch.expected.append("/runbook")
    environment = server.environment(project="Kinds")
    page = new_page("/")
    kinds = [
        path.rpartition("/")[2]
        for path in DOCUMENT["paths"]
        if path.startswith("/environment/{env_id}/") and "post" in DOCUMENT["paths"][path]
        if any(
            re.fullmatch(rf"/{path.rpartition('/')[2]}/\{{\w+\}}/deploy", other)
            for other in DOCUMENT["paths"]
        )
    ]
    assert {"application", "container", "database"} <= set(kinds)
    for kind in kinds:
        creation = DOCUMENT["paths"][f"/environment/{{env_id}}/{kind}"]["post"]
        example = creation["requestBody"]["content"]["application/json"]["example"]
        made = server.call("POST", f"/environment/{environment}/{kind}", example | {"name": kind})
        page.goto(f"{server.url}/console/{kind}/{made['id']}")
        expect(page.get_by_role("heading", name=kind, level=1)).to_be_visible()
        serves = any(re.fullmatch(rf"/{kind}/\{{\w+\}}/restart-service", path) for path in DOCUMENT["paths"])
        tabs = page.locator(".tabs a").all_inner_texts()
        assert ("Terminal" in tabs) == serves  # nothing runs for long in a job, for example
        for tab in tabs:
            page.goto(f"{server.url}/console/{kind}/{made['id']}")
            page.locator(".tabs").get_by_role("link", name=tab, exact=True).click()
            page.wait_for_url(re.compile(rf"/{kind}/[^/]+(/\w+)?$"))
            expect(page.locator("main h1")).to_be_visible()
            expect(page.locator("main > [role=alert]")).to_have_count(0)
