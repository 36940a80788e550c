"""The console in Chromium: its first page, a log that is followed, and a long list."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from bench.machine import on_all_cores
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, windlass
from tests.browser.conftest import OPTIONS
from tests.browser.many import answer_with_services, fast_log, many_deployments, wait_until

_FIRST_PAGE = Target(1.0, "≤", "s")
_TASK = Target(100, "≤", "ms")
_THROTTLED = 4
_SERVICES = 10_000
_FLEET = 500
_SHOWN = """
new MutationObserver((_, watching) => {
  if (!document.querySelector('main h1')) return;
  watching.disconnect();
  setTimeout(() => (window.__shown = performance.now()));
}).observe(document, { childList: true, subtree: true });
"""
"""Notes when the page can be used: it stands there, and the task that drew it has ended."""
_WATCH = """
window.__tasks = [0];
new PerformanceObserver((list) => list.getEntries().forEach((task) => window.__tasks.push(task.duration)))
  .observe({ type: 'longtask', buffered: true });
"""


def run(bench: Bench) -> list[Line]:
    program = shutil.which("chromium")
    if program is None:
        return []
    with windlass(bench.folder / "console") as server, on_all_cores(), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(OPTIONS))
        rounds = range(bench.effort.rounds)
        return [
            Line(
                what="the first page, its main thread throttled to a quarter of a core",
                unit="s",
                ours=[_first_page(browser, server) for _ in rounds],
                target=_FIRST_PAGE,
            ),
            Line(
                what="the longest task while 1,000 lines come in a second",
                unit="ms",
                ours=_log(browser, server, bench, 0),
                target=_TASK,
            ),
            Line(
                what="the same in a log of 1,000,000 lines",
                unit="ms",
                ours=_log(browser, server, bench, 1_000_000),
                target=_TASK,
            ),
            Line(
                what=f"the longest task while {_FLEET} services are deployed",
                unit="ms",
                ours=_fleet(browser, server, bench),
                target=_TASK,
            ),
            Line(
                what=f"the longest task of a list of {_SERVICES:,} services",
                unit="ms",
                ours=[_list(browser, server) for _ in rounds],
                target=_TASK,
            ),
        ]


@contextmanager
def _signed_in(browser: Browser, server: Windlass) -> Iterator[tuple[BrowserContext, str]]:
    context = browser.new_context()
    url = f"http://127.0.0.1:{server.port}"
    page = context.new_page()
    page.goto(str(server.ask("POST", "/account/signInLink", {})["url"]))
    page.wait_for_selector("main h1")
    page.close()
    yield context, f"{url}/console"
    context.close()


def _first_page(browser: Browser, server: Windlass) -> float:
    with _signed_in(browser, server) as (context, url):
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        session.send("Emulation.setCPUThrottlingRate", {"rate": _THROTTLED})
        page.add_init_script(_SHOWN)
        page.goto(f"{url}/", wait_until="commit")
        # The driver's own scripts run on the throttled core, too: they come when the page is there.
        page.wait_for_timeout(3000)
        wait_until(page, "window.__shown > 0")
        return float(page.evaluate("window.__shown")) / 1000


def _log(browser: Browser, server: Windlass, bench: Bench, first: int) -> list[float]:
    """Fills the log once: all of its rounds follow the same page, whose window has been full since then."""
    app = _application(server)
    with _signed_in(browser, server) as (context, url):
        page = context.new_page()
        page.add_init_script(fast_log(1, first))
        page.add_init_script(_WATCH)
        page.goto(f"{url}/application/{app}/logs")
        page.wait_for_selector(".log-line")
        wait_until(page, f"window.__sent >= {first}")
        page.wait_for_timeout(1000)
        return _rounds(page, bench)


def _list(browser: Browser, server: Windlass) -> float:
    app = server.ask("GET", f"/application/{_application(server)}")
    with _signed_in(browser, server) as (context, url):
        page = context.new_page()
        answer_with_services(page, app["environment"]["id"], _SERVICES)
        page.add_init_script(_WATCH)
        page.goto(f"{url}/environment/{app['environment']['id']}")
        page.wait_for_selector("tbody tr")
        page.wait_for_timeout(1000)
        return _longest(page)


def _fleet(browser: Browser, server: Windlass, bench: Bench) -> list[float]:
    app = server.ask("GET", f"/application/{_application(server)}")
    environment = app["environment"]["id"]
    with _signed_in(browser, server) as (context, url):
        page = context.new_page()
        page.add_init_script(many_deployments(environment, _FLEET))
        page.add_init_script(_WATCH)
        page.goto(f"{url}/environment/{environment}")
        page.wait_for_selector("tbody tr")
        page.wait_for_timeout(1000)
        return _rounds(page, bench)


def _rounds(page: Page, bench: Bench) -> list[float]:
    """Returns the longest task of each round while the page goes on."""
    longest = []
    for _ in range(bench.effort.rounds):
        page.evaluate("window.__tasks = [0]")
        page.wait_for_timeout(bench.effort.idle * 1000)
        longest.append(_longest(page))
    return longest


def _longest(page: Page) -> float:
    return float(page.evaluate("Math.max(...window.__tasks)"))


def _application(server: Windlass) -> str:
    name = f"p{time.monotonic_ns()}"
    project = server.ask("POST", f"/organization/{server.org}/project", {"name": name})
    environment = server.ask("POST", f"/project/{project['id']}/environment", {"name": "production"})
    body = {"name": "shop", "git_repository": {"url": "https://github.com/acme/shop.git", "branch": "main"}}
    return str(server.ask("POST", f"/environment/{environment['id']}/application", body)["id"])
