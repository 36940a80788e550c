"""Takes the pictures of the manual, and one of every page at three widths in both themes, to be looked at.

python -m tests.browser.pictures docs/pictures          # the four of the README
python -m tests.browser.pictures /tmp/pictures --all    # every page
"""

from __future__ import annotations

import argparse
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from tests.browser.conftest import CHROMIUM, OPTIONS
from tests.browser.servers import Repository, Server

WIDTHS: Final = (390, 820, 1280)
SMALL: Final[FloatRect] = {"x": 0, "y": 0, "width": 1180, "height": 620}
"""The part of the picture with the most text that is kept, so that it has less than 150 KB."""
NEEDS_DATABASE: Final = 'import os\n\nprint("starting", flush=True)\nprint(os.environ["DATABASE_URL"])\n'


USUAL: Final = """([repositories, data, port]) => {
  for (const line of document.querySelectorAll('.lines div')) {
    if (/Looking in/.test(line.textContent)) line.remove();
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    walker.currentNode.data = walker.currentNode.data.replaceAll(repositories, 'https://github.com/acme/')
      .replaceAll(data, '/var/lib/windlass').replaceAll(port, ':8081');
  }
}"""
PROGRAM: Final = """import os
from flask import Flask

app = Flask(__name__)


@app.get("/")
def page():
    return "Hello " + os.environ.get("GREETING", "world")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="windlass-pictures-") as made, sync_playwright() as driver:
        server = Server(Path(made))
        try:
            town = Town(server, Path(made) / "repositories")
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
            if given.all:
                take_all(browser, server, town, given.folder)
            else:
                take_four(browser, server, town, given.folder)
            browser.close()
        finally:
            server.end()


class Town:
    """A few services, one of which fails."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.shop_repository = Repository(folder / "shop")
        (self.shop_repository.folder / "Procfile").unlink()
        self.shop_repository.commit({"app.py": PROGRAM, "requirements.txt": "flask\n"}, "A shop for rope")
        orders = Repository(folder / "orders")
        orders.commit({"app.py": NEEDS_DATABASE}, "Keep orders in a database")
        self.production = server.environment("production", "Shop")
        project = server.call("GET", f"/environment/{self.production}")["project"]["id"]
        self.project = project
        staging = server.call("POST", f"/project/{project}/environment", {"name": "staging"})["id"]
        self.reports = server.environment("production", "Reports")
        self.shop = server.application(self.production, self.shop_repository, "shop")
        self.orders = server.application(self.production, orders, "orders")
        search = server.application(self.production, self.shop_repository, "search")
        server.application(staging, self.shop_repository, "shop")
        nightly = server.application(self.reports, self.shop_repository, "nightly")
        server.call(
            "POST", f"/application/{self.shop}/environmentVariable", {"key": "GREETING", "value": "ahoy"}
        )
        server.call(
            "POST", f"/application/{self.shop}/secret", {"key": "PAYMENT_KEY", "value": "s3cret-s3cret"}
        )
        server.call(
            "POST",
            f"/environment/{self.production}/environmentVariable",
            {"key": "LOG_LEVEL", "value": "info"},
        )
        url = {"key": "SEARCH_URL", "value": "http://search-production.localhost"}
        server.call("POST", f"/application/{self.shop}/environmentVariable", url)
        for app in (search, nightly, self.shop):
            server.deploy(app)
        self.shop_repository.commit({"requirements.txt": "flask\ngunicorn\n"}, "Rope comes in every colour")
        self.deployment = server.deploy(self.shop)
        self.failed = server.deploy(self.orders, "FAILED")
        host = server.call("GET", f"/application/{self.shop}/link")["results"][0]["url"].removeprefix(
            "http://"
        )
        for _ in range(3):
            request = urllib.request.Request(f"http://127.0.0.1:{server.gateway}/", headers={"Host": host})
            urllib.request.urlopen(request, timeout=10).close()

    def places(self, server: Server) -> dict[str, str]:
        app, org = f"/application/{self.shop}", f"/organization/{server.org}"
        tabs = ("deployments", "logs", "variables", "metrics", "terminal", "settings", "activity")
        return {
            "overview": "/",
            "project": f"/project/{self.project}",
            "environment": f"/environment/{self.production}",
            "new-service": "/new",
            "service": app,
            **{f"service-{tab}": f"{app}/{tab}" for tab in tabs},
            "deployment": f"{app}/deployments/{self.deployment}",
            "failure": f"/application/{self.orders}",
            "organization": org,
            "members": f"{org}/member",
            "tokens": f"{org}/apiToken",
            "clusters": f"{org}/cluster",
            "audit": f"{org}/audit",
            "account": "/account",
        }


def sign_in(browser: Browser, server: Server, width: int, theme: str) -> Page:
    light = "dark" if theme == "dark" else "light"
    page = browser.new_context(viewport={"width": width, "height": 760}, color_scheme=light).new_page()  # type: ignore[arg-type]
    page.goto(server.link())
    page.wait_for_selector("main h1")
    return page


def show(page: Page, server: Server, place: str) -> None:
    page.goto(f"{server.url}/console{place}")
    page.wait_for_selector("main h1")
    page.wait_for_timeout(600)
    hide_folders(page, server)


def hide_folders(page: Page, server: Server) -> None:
    """Shows the usual addresses and folders in place of those of the pictures."""
    page.evaluate(
        USUAL, [f"file://{server.folder}/repositories/", f"{server.folder}/data", f":{server.gateway}"]
    )


def take_four(browser: Browser, server: Server, town: Town, folder: Path) -> None:
    page = sign_in(browser, server, 1180, "light")
    places = town.places(server)
    for name in ("overview", "failure", "deployment"):
        show(page, server, places[name])
        page.screenshot(path=folder / f"console-{name}.png", clip=SMALL if name == "deployment" else None)
    show(page, server, "/new")
    page.get_by_label("Repository").fill(town.shop_repository.url)
    page.get_by_role("button", name="Detect").click()
    page.wait_for_selector("text=Found:")
    page.evaluate("""document.querySelector('#url').value = 'https://github.com/acme/shop.git'""")
    hide_folders(page, server)
    page.screenshot(path=folder / "console-new-service.png")


def take_all(browser: Browser, server: Server, town: Town, folder: Path) -> None:
    time.sleep(45)  # for three points in the charts
    for theme in ("light", "dark"):
        for width in WIDTHS:
            page = sign_in(browser, server, width, theme)
            for name, place in town.places(server).items():
                show(page, server, place)
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png")
            page.context.close()


if __name__ == "__main__":
    main()
