"""Shows what a clone would copy, and what not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from windlass.terminal.tables import pairs, plain


def show_clone_preview(preview: Mapping[str, Any]) -> None:
    click.echo(f"{plain(preview['name'])} would be made. Nothing is made now.\n")
    rows = [("stages", ", ".join(preview["stages"]), "")] if preview["stages"] else []
    rows += [("variables", _keys(preview["variables"]), "")] if preview["variables"] else []
    rows += [(service["name"], service["service_type"], _with(service)) for service in preview["services"]]
    pairs(rows)
    click.echo("\nNot copied:")
    pairs([(_place(lacking), lacking["name"], lacking["reason"]) for lacking in preview["not_cloned"]])


def _with(service: Mapping[str, Any]) -> str:
    """Returns what is copied with a service, in words."""
    lists = (
        ("", [service["stage"]] if service["stage"] else []),
        ("variables: ", [variable["key"] for variable in service["variables"] if not variable["is_secret"]]),
        ("secrets: ", [variable["key"] for variable in service["variables"] if variable["is_secret"]]),
        ("advanced settings: ", service["advanced_settings"]),
        ("deployment restrictions: ", service["deployment_restrictions"]),
    )
    return "; ".join(f"{title}{', '.join(names)}" for title, names in lists if names)


def _keys(variables: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{one['key']}{' (secret)' if one['is_secret'] else ''}" for one in variables)


def _place(lacking: Mapping[str, Any]) -> str:
    kind = str(lacking["kind"]).replace("_", " ").lower()
    return f"{lacking['service_name']}: {kind}" if lacking["service_name"] else kind
