"""Every page looks as when it was last looked at: at three widths, in both themes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.fingerprints import (
    FONTS,
    TOLERANCE,
    WRITES,
    distance,
    fingerprint,
    fonts,
    keep,
    kept,
)
from tests.browser.servers import Server
from tests.marks import either

pytestmark = pytest.mark.nightly

HEIGHT = 760
QUICK = ((390, "dark"), (1280, "light"))
ALL = tuple((width, theme) for width in (390, 820, 1280) for theme in ("light", "dark"))
VARYING = {
    "overview",
    "account",
    "audit",
    "activity",
    "logs",
    "metrics",
    "deployment",
    "a failed service",
    "a failed deployment",
}
"""Pages with lists that are longer in one run than in another: their pictures are not compared."""
CHANGING = (
    "time, .log-line .text, .chart path, .address, .facts dd, .code-line { visibility: hidden !important }"
)
"""Ports, ids and times differ from run to run."""


def take(page: Page, server: Server, place: str) -> bytes:
    page.goto(f"{server.url}/console{place}")
    page.wait_for_selector("main h1")
    page.wait_for_timeout(300)
    page.evaluate(HIDE, CHANGING)
    return page.screenshot(animations="disabled", caret="hide")


HIDE = """(rules) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(rules);
  document.adoptedStyleSheets = [sheet];
}"""


@pytest.mark.timeout(900)
def test_every_page_matches_its_recorded_screenshot_fingerprint(
    server: Server, new_page: Callable[..., Page], places: dict[str, str], tmp_path: Path
) -> None:
    before, found = kept(), {FONTS: fonts(new_page("/"))}
    is_writing = WRITES in os.environ
    if not is_writing and found[FONTS] != before[FONTS]:
        pytest.skip("the kept fingerprints are of other fonts: those of Debian's Chromium with fonts-dejavu")
    blank = new_page("/", signed_in=False).context.new_page()
    folder = Path(os.environ.get(WRITES, tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    for width, theme in either(QUICK, ALL):
        page = new_page("/", viewport={"width": width, "height": HEIGHT}, color_scheme=theme)
        for place, path in places.items():
            picture = take(page, server, path)
            (folder / f"{place} {width} {theme}.png").write_bytes(picture)
            found[f"{place} {width} {theme}"] = fingerprint(blank, picture)
    if is_writing:
        keep(found)
    else:
        assert differences(before, found) == {}, f"look at these of {folder}; {ADVICE}"


ADVICE = "if they are right: python -m tests.browser.fingerprints FOLDER"


def differences(before: dict[str, str], found: dict[str, str]) -> dict[str, float]:
    """By the name of the picture. A page without a fingerprint is as different as can be."""
    names = [name for name in found if name != FONTS and name.rsplit(" ", 2)[0] not in VARYING]
    far = {name: distance(found[name], before[name]) if name in before else 255.0 for name in names}
    return {name: value for name, value in sorted(far.items()) if value > TOLERANCE}


def test_a_changed_theme_or_hidden_element_changes_the_screenshot_fingerprint(
    server: Server, new_page: Callable[..., Page], places: dict[str, str]
) -> None:
    """The negative control: the other theme, a missing side bar, and an empty page are seen."""
    blank = new_page("/", signed_in=False).context.new_page()
    options = {"viewport": {"width": 1280, "height": HEIGHT}}
    page = new_page("/", **options)
    right = fingerprint(blank, take(page, server, places["service"]))
    dark = fingerprint(blank, take(new_page("/", color_scheme="dark", **options), server, places["service"]))
    assert distance(right, dark) > TOLERANCE
    for broken in (".side { display: none }", "main { visibility: hidden }"):
        page.evaluate(HIDE, broken)
        assert distance(right, fingerprint(blank, page.screenshot())) > TOLERANCE, broken
