"""Shows what a rollback of a service or an environment would change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from windlass.terminal.tables import plain, print_json, table

_MAX_SHOWN: Final = 40
"""Maximum number of characters of a value in a line."""
_NO_VALUE: Final = "-"
_DIFFERENCE_WORDS: Final = {"CHANGE": "changed", "ADD": "comes back", "REMOVE": "is deleted"}


def show_difference(difference: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints what a rollback of a service changes."""
    if as_json:
        print_json(difference)
        return
    if difference["deployment_id"] is None:
        click.echo(f"{plain(difference['service_name'])} has no earlier release.")
        return
    name, version = plain(difference["service_name"]), f"v{difference['number']}"
    build = _build_of(difference)
    other = "the same build" if difference["same_build"] else "another build"
    click.echo(f"{version} of {name} is {other}{f' ({plain(build)})' if build else ''}.")
    if not difference["settings_known"]:
        click.echo(f"The settings of {version} were not kept: a rollback keeps the present ones.")
    show_changes(difference["changes"])
    _show_missing(difference)


def show_environment_difference(difference: Mapping[str, Any]) -> None:
    """Prints what a rollback of an environment changes: its variables, then its services."""
    services = difference["services"]
    click.echo("Variables and secrets of the environment:")
    show_changes(difference["changes"])
    _show_missing(difference)
    click.echo()
    titles = ["SERVICE", "VERSION", "BUILD", "ROLLBACK"]
    rows = [
        [plain(one["service_name"]), _version_of(one), plain(_build_in_words(one)), plain(_effect_on(one))]
        for one in services
    ]
    table(titles, _widths([titles, *rows]), rows)
    for one in services:
        if one["changes"] or one["missing"]:
            click.echo(f"\n{plain(one['service_name'])}:")
            show_changes(one["changes"])
            _show_missing(one)


def _version_of(service: Mapping[str, Any]) -> str:
    return f"v{service['number']}" if service["deployment_id"] else _NO_VALUE


def _build_in_words(service: Mapping[str, Any]) -> str:
    if not service["deployment_id"]:
        return _NO_VALUE
    return "the same" if service["same_build"] else _build_of(service) or "another one"


def _build_of(difference: Mapping[str, Any]) -> str:
    return difference.get("image_tag") or (difference.get("git_commit_id") or "")[:8]


def _effect_on(service: Mapping[str, Any]) -> str:
    if service["is_deployed"]:
        return "is deployed" if service["settings_known"] else "is deployed, with the present settings"
    return service.get("reason") or "runs as it did then"


def _show_missing(difference: Mapping[str, Any]) -> None:
    if difference["missing"]:
        keys = ", ".join(plain(key) for key in difference["missing"])
        click.echo(f"Create these secrets again first, because they were deleted since: {keys}")


def show_changes(changes: Iterable[Mapping[str, Any]]) -> None:
    listed = [*changes]
    if not listed:
        click.echo("Settings, variables and secrets are the same.")
        return
    rows = [[row["scope"], row["key"], *_values(row), row["reason"] or "goes back"] for row in listed]
    titles = ["LEVEL", "KEY", "NOW", "THEN", "ROLLBACK"]
    table(titles, _widths([titles, *rows]), rows)


def _widths(rows: Iterable[Sequence[str]]) -> list[int]:
    return [min(_MAX_SHOWN, max(len(cell) for cell in column)) for column in zip(*rows, strict=True)]


def _values(row: Mapping[str, Any]) -> tuple[str, str]:
    if row["subject"] == "SECRET":
        word = f"secret, {_DIFFERENCE_WORDS[row['change']]}"
        return ("", word) if row["change"] == "ADD" else (word, "")
    return _shortened(row["present"]), _shortened(row["former"])


def _shortened(value: str | None) -> str:
    if value is None:
        return _NO_VALUE
    return value if len(value) <= _MAX_SHOWN else f"{value[: _MAX_SHOWN - 1]}…"
