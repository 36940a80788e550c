"""Shows the history of variables and secrets: who changed them, when, and from what to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from windlass.cli.formatting import short_cell
from windlass.terminal.tables import table

_MAX_SHOWN: Final = 40
"""Maximum number of characters of a value in a line."""
_FIELD_WORDS: Final = {"mount_path": "path", "enable_interpolation_in_file": "interpolation"}
_TITLES: Final = ("WHEN", "BY", "KEY", "LEVEL", "CHANGE")


def show_history(changes: Sequence[Mapping[str, Any]]) -> None:
    """Prints changes as the API answers them, the newest first."""
    rows = [
        [
            short_cell(change["timestamp"]),
            change["changed_by"],
            change["key"],
            change["scope"],
            change_in_words(change),
        ]
        for change in changes
    ]
    if not rows:
        click.echo("There are no changes.")
        return
    widths = [max(len(row[place]) for row in [_TITLES, *rows]) for place in range(len(_TITLES))]
    table(_TITLES, widths, rows)


def change_in_words(change: Mapping[str, Any]) -> str:
    """Returns a change in a few words: `red → blue`."""
    if change["change"] == "REMOVE":
        return "deleted" if change["is_secret"] else f"deleted: {_short(change['former_value'])}"
    if change["change"] == "ADD":
        return _added(change)
    parts = [f"renamed from {change['former_key']}"] if change.get("former_key") else []
    if "value" in change["changed"]:
        parts.append(
            "another value"
            if change["is_secret"]
            else f"{_short(change['former_value'])} → {_short(change['value'])}"
        )
    others = [_FIELD_WORDS.get(name, name) for name in change["changed"] if name not in {"key", "value"}]
    return ", ".join([*parts, *(f"another {name}" for name in others)])


def _added(change: Mapping[str, Any]) -> str:
    if change.get("alias_of"):
        return f"alias of {change['alias_of']}"
    word = "override" if change["variable_type"] == "OVERRIDE" else "new"
    return word if change["is_secret"] else f"{word}: {_short(change['value'])}"


def _short(value: str | None) -> str:
    text = repr(value)[1:-1] if value else '""'
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
