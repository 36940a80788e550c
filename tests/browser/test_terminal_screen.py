"""The screen of a terminal stays small and quick, whatever a program prints."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from windlass.console.files import BASE, ConsoleFiles

pytestmark = pytest.mark.nightly

COLUMNS, MOST = 80, 5000
PRINT = """async ([address, columns, text, times]) => {
    const { Screen } = await import(address);
    const screen = new Screen(columns);
    for (let time = 0; time < times; time++) for (const part of [text].flat()) screen.write(part);
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


UNKNOWN = {
    "an end without a begin": "\x1b\\",
    "a sign of another terminal": "\x1b#8",
    "a sign with a mark that is not known": "\x1b[>0c",
    "a sign in a sign": "\x1b[12\x1b[",
    "two begins": "\x1b\x1b",
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


def test_a_long_line_wraps_as_in_other_terminals(shown: Callable[..., list[str]]) -> None:
    cursor = "\u2588"
    assert shown("a" * COLUMNS) == ["a" * COLUMNS + cursor]
    assert shown("a" * COLUMNS + "b") == ["a" * COLUMNS, "b" + cursor]
    assert shown("one\r\ntwo\x1b[10;Gx") == ["one", "two      x" + cursor]


def test_an_unknown_escape_sequence_hides_no_following_text(shown: Callable[..., list[str]]) -> None:
    for name, sign in UNKNOWN.items():
        assert shown(sign + "\r\n$ ")[-1].endswith("$ \u2588"), name


def test_an_escape_sequence_may_be_split_over_two_chunks(shown: Callable[..., list[str]]) -> None:
    for sign in ("\x1b[3D", "\x1b]0;title\x07\x1b[3D", "\x1b]0;title\x1b\\\x1b[3D", "\x1b(B\x1b[3D"):
        for at in range(len(sign)):
            assert shown(["abc" + sign[:at], sign[at:] + "X"]) == ["X\u2588c"], (sign, at)
