"""Colours that programs print are drawn in logs, and no other sign of a terminal is shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from windlass.console.files import BASE, ConsoleFiles

pytestmark = pytest.mark.slow

DRAW = """async ([address, text]) => {
    const { coloured } = await import(address);
    return coloured(text).map((part) => (part.textContent ? [part.textContent, part.className] : [part, ""]));
}"""
CLEAN = "async ([address, text]) => (await import(address)).withoutSigns(text)"


@pytest.fixture
def module(new_page: Callable[..., Page]) -> Callable[[str, str], object]:
    page = new_page("/")
    address = f"{BASE}/{ConsoleFiles().version}/js/sgr.js"
    return lambda script, text: page.evaluate(script, [address, text])


def test_colours_and_marks_of_a_program_become_spans(module: Callable[[str, str], object]) -> None:
    line = "\x1b[32m[Nest] 1 - \x1b[39mready \x1b[1;31mbad\x1b[22m red\x1b[0m end"
    assert module(DRAW, line) == [
        ["[Nest] 1 - ", "sgr-green"],
        ["ready ", ""],
        ["bad", "sgr-red sgr-bold"],
        [" red", "sgr-red"],
        [" end", ""],
    ]
    assert module(DRAW, "\x1b[38;5;196ma\x1b[38;2;20;20;240mb\x1b[48;5;1mc") == [
        ["a", "sgr-red"],
        ["b", "sgr-blue"],
        ["c", "sgr-blue"],
    ]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("\x1b[2K\x1b[1Gdone", "done"),
        ("\x1b]0;title\x07done", "done"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bdone\x1b", "done\x1b"),
        ("<b>no element</b>", "<b>no element</b>"),
    ],
)
def test_other_signs_of_a_terminal_are_left_out(
    module: Callable[[str, str], object], text: str, clean: str
) -> None:
    assert module(CLEAN, text) == clean


def test_a_hostile_line_makes_few_nodes(module: Callable[[str, str], object]) -> None:
    parts = module(DRAW, "\x1b[31mx\x1b[32my" * 5000)
    assert isinstance(parts, list)
    assert len(parts) < 300
    assert "".join(text for text, _ in parts) == "xy" * 5000
