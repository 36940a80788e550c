"""The screen of a terminal stays small and quick, whatever a program prints."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from windlass.console.files import BASE, ConsoleFiles

pytestmark = pytest.mark.elsewhere

COLUMNS, MOST = 80, 5000
PRINT = """async ([address, columns, text, times]) => {
    const { Screen } = await import(address);
    const screen = new Screen(columns);
    for (let time = 0; time < times; time++) screen.write(text);
    return screen.text().split("\\n");
}"""
HOSTILE = {
    "a line without an end": ("x" * 1000, 1000),
    "far to the right": ("\x1b[999999999Cx", 3),
    "far to a column": ("\x1b[999999999Gx", 3),
    "far down": ("\x1b[999999999Bx", 3),
    "room for more than a line": ("abc\x1b[D\x1b[999999999@", 1000),
    "less than nothing": ("\x1b[999999999D\x1b[999999999P\x1b[999999999Ax", 3),
    "a sign without an end": ("\x1b]" + "x" * 1000, 100),
    "tabs without an end": ("\t" * 1000, 100),
}


@pytest.fixture
def shown(new_page: Callable[..., Page]) -> Callable[..., list[str]]:
    page = new_page("/")
    address = f"{BASE}/{ConsoleFiles().version}/js/terminal_screen.js"
    return lambda text, times=1: page.evaluate(PRINT, [address, COLUMNS, text, times])


def test_no_output_makes_a_line_longer_than_the_terminal_is_wide(
    shown: Callable[..., list[str]],
) -> None:
    for name, (text, times) in HOSTILE.items():
        lines = shown(text, times)
        assert max(map(len, lines)) <= COLUMNS + 1, name  # with the mark of the cursor
        assert len(lines) <= MOST, name


def test_a_long_line_goes_on_in_the_next_one_as_in_other_terminals(shown: Callable[..., list[str]]) -> None:
    cursor = "\u2588"
    assert shown("a" * COLUMNS) == ["a" * COLUMNS + cursor]
    assert shown("a" * COLUMNS + "b") == ["a" * COLUMNS, "b" + cursor]
    assert shown("one\r\ntwo\x1b[10;Gx") == ["one", "two      x" + cursor]
