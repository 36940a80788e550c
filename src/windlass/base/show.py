"""What a command prints: tables for people, JSON for programs.

What comes from elsewhere is shown, never obeyed: control characters could move the cursor of whoever looks on.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

FORM = "as_json"
"""The name of the option `--json/--text`, of commands and of the whole command line."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def wants_json(chosen: bool | None) -> bool:
    """As asked for, at the command or before it; otherwise text where a person looks on."""
    if chosen is None:
        chosen = click.get_current_context().find_root().params.get(FORM)
    return not sys.stdout.isatty() if chosen is None else chosen


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def plain(text: str) -> str:
    """Without colours, and with every other control character made visible."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", _COLOURS.sub("", text))


def width() -> int:
    return console().width


def console() -> Console:
    from rich.console import Console  # noqa: PLC0415 (a server must not wait for it)

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns under titles; where it is too narrow, the last ones wrap."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        grid.add_column(title, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(plain(cell)) for cell in row))
    _draw(grid)


def pairs(rows: Iterable[tuple[str, str, str]]) -> None:
    """Names, values beside them, and remarks below the values."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value, remark in rows:
        said = Text(plain(value))
        if remark:
            said.append("\n" * bool(value) + plain(remark), style="dim")
        grid.add_row(Text(plain(name)), said)
    _draw(grid)


def _draw(grid: RenderableType) -> None:
    """Without the blanks that fill a line up to its end."""
    there = console()
    with there.capture() as drawn:
        there.print(grid)
    for line in drawn.get().splitlines():
        click.echo(line.rstrip())
