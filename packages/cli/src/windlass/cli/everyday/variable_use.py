"""Shows which services use a variable, and which of them a change makes out of date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from windlass.terminal.tables import plain, table

_TITLES: Final = ("SERVICE", "TYPE", "USE", "IF IT CHANGES")


def show_use(answer: Mapping[str, Any]) -> None:
    """Prints the services as the API answers them."""
    rows = [
        [
            plain(one["service_name"]),
            one["service_type"],
            plain(_use_of(one)),
            _effect_on(one),
        ]
        for one in answer["services"]
    ]
    if not rows:
        click.echo(f"No service sees {plain(answer['key'])}.")
        return
    widths = [max(len(row[place]) for row in [_TITLES, *rows]) for place in range(len(_TITLES))]
    table(_TITLES, widths, rows)


def _effect_on(service: Mapping[str, Any]) -> str:
    if service["restarts"]:
        return "out of date, replaced by the next deployment"
    # A server of an earlier version does not say it.
    return "out of date" if service.get("becomes_out_of_date") else "-"


def _use_of(service: Mapping[str, Any]) -> str:
    if service["used_in"]:
        return f"in {', '.join(service['used_in'])}"
    return "none: it has another value here" if service["is_overridden"] else "gets it"
