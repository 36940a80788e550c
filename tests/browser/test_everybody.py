"""Every page for everybody: no serious finding of axe, nothing cut off at any width, the keyboard alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from tests.browser.servers import Server
from tests.marks import either, nightly
from windlass.console.files import ConsoleFiles

pytestmark = pytest.mark.slow

NARROWEST, *WIDER = (360, 820, 2560)
OF_EACH_FORM = {
    "overview",
    "new",
    "environment",
    "service",
    "deployments",
    "logs",
    "metrics",
    "settings",
    "a failed deployment",
    "plan of a Terraform service",
    "a new job",
    "an action with choices",
}
"""Names of pages. Others have the same parts in another order; the nightly run looks at all."""
BROKEN_WORDS = """(() => {
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const broken = [];
  while (texts.nextNode()) {
    if (!texts.currentNode.parentElement.closest('td')) continue;
    for (const { 0: word, index } of texts.currentNode.data.matchAll(/\\S{2,12}/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, index);
      range.setEnd(texts.currentNode, index + word.length);
      if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) broken.push(word);
    }
  }
  return broken;
})()"""
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def looked_at(places: dict[str, str]) -> dict[str, str]:
    assert places.keys() >= OF_EACH_FORM
    return either({name: place for name, place in places.items() if name in OF_EACH_FORM}, places)


def findings(page: Page) -> list[str]:
    result = Axe().run(page).response
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}"
        for one in result["violations"]
        if one["impact"] in SERIOUS
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("theme", ["light", *nightly("dark")])
def test_axe_finds_nothing_serious_on_any_page(server: Server, new_page, looked_at, theme) -> None:
    page = new_page("/", color_scheme=theme, bypass_csp=True, reduced_motion="reduce")
    troubles = {}
    for name, place in looked_at.items():
        page.goto(f"{server.url}/console{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(200)
        if found := findings(page):
            troubles[name] = found
    assert troubles == {}


@pytest.mark.nightly
def test_axe_finds_nothing_serious_in_dialogs_and_in_the_palette(server: Server, new_page, places) -> None:
    page = new_page(places["variables"], bypass_csp=True, reduced_motion="reduce")
    page.get_by_role("button", name="Add a variable").click()
    assert findings(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("dialog.palette li").nth(3)).to_be_visible()
    assert findings(page) == []


def test_axe_reports_a_button_without_a_name(new_page) -> None:
    page = new_page("/", bypass_csp=True)
    page.evaluate("document.body.append(document.createElement('button'))")
    assert any("button-name" in finding for finding in findings(page))


@pytest.mark.parametrize("width", [NARROWEST, *nightly(*WIDER)])
def test_no_console_page_scrolls_horizontally(server: Server, new_page, looked_at, width) -> None:
    page = new_page("/", viewport={"width": width, "height": 800})
    wide = {}
    for name, place in looked_at.items():
        page.goto(f"{server.url}/console{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(100)
        across = page.evaluate("document.documentElement.scrollWidth")
        if across > width:
            wide[name] = across
    assert wide == {}


@pytest.mark.nightly
def test_no_short_word_in_a_table_is_wrapped_at_1280_pixels(server: Server, new_page, places) -> None:
    page = new_page("/", viewport={"width": 1280, "height": 800})
    broken: dict[str, list[str]] = {}
    for name, place in places.items():
        page.goto(f"{server.url}/console{place}")
        page.wait_for_selector("main h1")
        if words := page.evaluate(BROKEN_WORDS):
            broken[name] = words
    assert broken == {}
    page.goto(f"{server.url}/console{places['environment']}")
    expect(page.locator("td.name-cell").first).to_be_visible()
    narrow = "document.querySelector('td.name-cell a').style.cssText = 'display: block; width: 10px'"
    assert page.evaluate(f"(() => {{ {narrow}; return {BROKEN_WORDS} }})()")  # before the page is drawn again


def test_search_navigation_and_help_work_with_the_keyboard_alone(server: Server, new_page, places) -> None:
    page = new_page("/")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    expect(page.locator("dialog.palette li[aria-selected=true]")).to_contain_text("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()
    page.keyboard.press("]")
    expect(page.locator(".tabs [aria-current=page]")).to_have_text("Deployments")
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.tagName") == "A"
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("search")
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_the_first_page_loads_at_most_150_kb_in_10_requests(server: Server, new_page, watch) -> None:
    """150 KB in at most ten requests with all that it asks for, and the document of the API is not among
    them."""
    page = new_page("/")
    page.goto("about:blank")  # The page before asks for nothing any more.
    sizes: list[int] = []
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfinished", lambda request: sizes.append(_size(request)))
    page.goto(f"{server.url}/console/")
    page.wait_for_selector("main h1")
    page.wait_for_timeout(500)
    page.context.clear_cookies()
    assert 0 < sum(sizes) <= 150_000
    assert len(asked) <= 10, asked
    assert not any("openapi" in url for url in asked)
    files = ConsoleFiles()
    main = files.find(f"/console/{files.version}/js/main.js")
    assert main is not None
    assert len(main.packed) <= 60_000


def _size(request) -> int:
    sizes = request.sizes()
    return int(sizes["responseBodySize"]) + int(sizes["responseHeadersSize"])


UNNAMED = {"nothing", "an action", "an action with choices", "new"}
"""Pages that show nothing of the API, and those of an operation, which show its own request."""


def pages_without_request(page: Page, server: Server, places: Mapping[str, str]) -> set[str]:
    without = set()
    for name, place in places.items():
        page.goto(f"{server.url}/console{place}")
        page.wait_for_selector("main h1")
        if not page.locator("main .same").count():
            without.add(name)
    return without


@pytest.mark.nightly
def test_every_page_shows_its_api_request_and_its_command(server: Server, new_page, places) -> None:
    expected = UNNAMED | {name for name in places if name.startswith("a new ")}
    assert pages_without_request(new_page("/"), server, places) == expected


@pytest.mark.nightly
def test_organization_pages_show_their_api_request_and_command(server: Server, new_page, places) -> None:
    some = {name: places[name] for name in ("members", "variables", "nothing")}
    assert pages_without_request(new_page("/"), server, some) == {"nothing"}
