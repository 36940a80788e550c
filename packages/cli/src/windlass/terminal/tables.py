"""The output of commands: tables for people, JSON for programs.

Control characters in text from other sources are escaped, because they could move the cursor.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

COLUMN_GAP: Final = 2
"""Blanks between columns."""

FORMAT_PARAMETER = "as_json"
"""The parameter name of `--json/--text`, both of commands and of `windlass` itself."""

_SEQUENCES_PATTERN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Control sequences of terminals: colours, and movements of the cursor."""
_CONTROLS_PATTERN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def wants_json(as_json: bool | None) -> bool:
    """Returns whether to print JSON: as chosen by an option of the command or of `windlass`. By default, a
    terminal gets text and a pipe gets JSON."""
    if as_json is None:
        as_json = _chosen_of_root()
    return not sys.stdout.isatty() if as_json is None else as_json


def is_output_format_chosen(as_json: bool | None) -> bool:
    """Returns whether an option of the command or of `windlass` chose between JSON and text."""
    return as_json is not None or _chosen_of_root() is not None


def _chosen_of_root() -> bool | None:
    chosen: bool | None = click.get_current_context().find_root().params.get(FORMAT_PARAMETER)
    return chosen


def print_json(value: Any) -> None:
    """Prints a value as JSON. Escapes characters that a terminal would interpret."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(_CONTROLS_PATTERN.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def plain(text: str) -> str:
    """Returns text without control sequences of terminals, in which all other control characters are
    escaped."""
    return _CONTROLS_PATTERN.sub(lambda match: repr(match[0])[1:-1], _SEQUENCES_PATTERN.sub("", text))


def console(minimum: int = 0) -> Console:
    from rich.console import Console  # noqa: PLC0415 (a server must not wait for it)

    # Without a height, rich ignores the given width.
    return Console(highlight=False, markup=False, emoji=False, width=max(minimum, room()), height=25)


def paint(state: str) -> str:
    """Returns a state in its colour: green for success, yellow for in progress, red for failure."""
    colour = colour_of(state)
    return click.style(plain(state), fg=colour) if colour else plain(state)


def colour_of(state: str) -> str | None:
    match state.partition(",")[0]:
        case "RUNNING" | "DEPLOYED" | "RESTARTED" | "SUCCEEDED" | "SUCCESS" | "UP_TO_DATE":
            return "green"
        case "FAILED":
            return "red"
        case "CANCELED" | "SUPERSEDED" | "OUT_OF_DATE":
            return "yellow"
        case word if word.endswith("ERROR"):
            return "red"
        case word:
            return "yellow" if word.endswith(("ING", "QUEUED")) else None


def room() -> int:
    """Returns the width of the terminal."""
    return shutil.get_terminal_size().columns


def table(
    titles: Sequence[str],
    widths: Sequence[int],
    rows: Iterable[Sequence[str]],
    states: Collection[int] = (),
) -> None:
    """Prints columns with titles. Text that is wider than its column wraps. `states`: the indices of columns
    to colour."""
    from rich.table import Table  # noqa: PLC0415 (a server must not wait for it)
    from rich.text import Text  # noqa: PLC0415

    grid = Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP, 0, 0), header_style="bold")
    for title, wide in zip(titles, widths, strict=True):
        grid.add_column(title, overflow="fold", vertical="top", width=wide)
    for row in rows:
        colours = [colour_of(cell) if place in states else None for place, cell in enumerate(row)]
        cells = zip(row, colours, strict=True)
        grid.add_row(*(Text(plain(cell), style=colour or "") for cell, colour in cells))
    # May be wider than the terminal, so that ids are not broken.
    screen = console(sum(widths) + COLUMN_GAP * len(widths))
    with screen.capture() as drawn:
        screen.print(grid)
    for line in drawn.get().splitlines():
        click.echo(line.rstrip())


def pairs(rows: Iterable[tuple[str, str, str]], states: Callable[[str], bool] = lambda name: False) -> None:
    """Prints names with their values, and remarks below the values. Long words, such as tokens, are not
    broken.

    `states`: returns whether the value with this name is coloured as a state.
    """
    cells = list(rows)
    wide = max(len(plain(name)) for name, _, _ in cells) + COLUMN_GAP
    for name, value, remark in cells:
        label = click.style(plain(name), bold=True) + " " * (wide - len(plain(name)))
        shown = wrap_indented(value, wide)
        click.echo(label + (paint(shown) if states(name) else shown))
        if remark:
            click.echo(" " * wide + click.style(wrap_indented(remark, wide), dim=True))


def wrap_indented(text: str, by: int, first: int = 0) -> str:
    """Returns text that is wrapped to the terminal's width and indented by `by` columns. `first`: the column
    at which the first line begins, if it differs."""
    left = max(20, room() - by)
    start = " " * ((first or by) - by)
    lines = [
        wrapped
        for line in plain(text).splitlines()
        for wrapped in textwrap.wrap(
            line, left, break_long_words=False, break_on_hyphens=False, initial_indent=start
        )
        or [""]
    ]
    return ("\n" + " " * by).join(lines).removeprefix(start)
