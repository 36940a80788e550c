"""An upgrade under open pages: they say so, lead on to the new version, and never mix two versions."""

from __future__ import annotations

import re
import shutil
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import expect

import windlass
from tests.browser.servers import Refused, Server

pytestmark = pytest.mark.nightly


@pytest.fixture
def upgraded(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a later version of Windlass with another console, which the server has from its next start on."""

    def upgrade() -> None:
        server.stop()
        for portion in windlass.__path__:
            shutil.copytree(portion, tmp_path / "windlass", dirs_exist_ok=True)
        with (tmp_path / "windlass/console/static/js/words.js").open("a") as file:
            file.write("// later\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        server.start()

    yield upgrade
    server.stop()
    monkeypatch.undo()
    server.start()


def version(server: Server) -> str:
    with urllib.request.urlopen(f"{server.url}/console", timeout=10) as page:
        found = re.search(r"/console/([0-9a-f]{16})/js/main.js", page.read().decode())
    assert found
    return found[1]


def test_an_open_page_tells_of_an_upgrade_and_leads_to_the_later_version(
    server: Server, new_page, watch, upgraded
) -> None:
    watch.expected += ["ERR_CONNECTION", "Failed to load", "503", "ERR_INCOMPLETE", "ERR_EMPTY"]
    told, untold = new_page("/"), new_page("/account")
    before = version(server)
    upgraded()
    assert version(server) != before
    expect(told.locator("#notices")).to_contain_text("upgraded")
    for page in (told, untold):
        page.get_by_role("link", name="Audit").first.click()
        expect(page.get_by_role("heading", name="Audit")).to_be_visible()
        assert version(server) in page.locator("script").get_attribute("src")


def test_a_module_that_cannot_be_loaded_shows_an_error_message(server: Server, new_page, watch) -> None:
    watch.expected += ["Failed to load", "503"]
    page = new_page("/")
    page.route("**/js/pages/audit.js", lambda route: route.abort())
    page.get_by_role("link", name="Audit").first.click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be loaded")
    page.unroute("**/js/pages/audit.js")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Audit")).to_be_visible()


def test_a_page_without_its_modules_says_what_to_do(server: Server, new_page, watch) -> None:
    watch.expected += ["Failed to load", "503"]
    page = new_page("/")
    page.route("**/js/main.js", lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("load the page again")).to_be_visible()


def test_a_console_file_of_another_version_is_refused(server: Server) -> None:
    for name in ("js/main.js", "js/pages/audit.js", "style/console.css", "js/no_such.js"):
        with pytest.raises(Refused, match="Load the page again"):
            server.call("GET", f"/console/{'0' * 16}/{name}")
