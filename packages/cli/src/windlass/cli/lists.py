"""Prints lists of resources as tables, with name, state and address first, and as many other columns as
fit."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from windlass.base import ids
from windlass.cli.derived_commands import is_numbered
from windlass.cli.formatting import (
    STATE_FIELDS,
    cell,
    duration,
    is_state,
    short_cell,
    show_apart,
    with_counts,
)
from windlass.core.declare.audit_query import OrganizationEvent
from windlass.core.declare.fields import WITHOUT_EFFECT
from windlass.core.declare.registry import Operation
from windlass.core.declare.structs import has_annotation
from windlass.core.declare.traits import Deployment, Status
from windlass.terminal.tables import COLUMN_GAP, plain, room, table, wrap_indented

_EMPTY_VALUES: tuple[Any, ...] = (None, "", [], {}, False)
_LAST_COLUMNS: Final = ("created_at", "updated_at")
_NAME_FIELDS: Final = ("name", "key")
_ADDRESS_FIELDS: Final = ("url",)
_PLACE_FIELDS: Final = ("environment_name", "project_name")
_FIRST_COLUMNS: Final = (*STATE_FIELDS, *_ADDRESS_FIELDS)
_EARLY_COLUMNS: Final = (
    "engine", "engine_address", "instances", "version", "number", "cause", "exit_code", "started_at",
    "duration_seconds", "added", "changed", "destroyed", "applicable", "check", "message",
    "services", "environment_name", "project_name",
)  # fmt: skip
_LONG_TEXT_FIELDS: Final = frozenset({"message"})
"""Fields with long texts. Their column uses the remaining width; if that is too narrow, they are printed
below the table."""
_MULTILINE_FIELDS: Final = frozenset({"text"})
"""Fields with many lines, of which only the first row's is printed, below the table."""
_MADE_BY: Final = "deployment_id"
"""Identifies a row without an id of its own, such as a plan."""
_PROGRAM_FIELDS: Final = frozenset({"icon_uri"})
"""Fields that are useful only to programs."""
_DEPLOYMENT_COLUMNS: Final = (
    "status", "version", "action", "git_commit_id", "triggered_by", "created_at", "took", "message", "id",
)  # fmt: skip
"""The columns of a deployment, in this order."""
_EVENT_COLUMNS: Final = ("timestamp", "event_type", "target_type", "target_name", "triggered_by")
"""The first columns of an audit event."""
_SERVICE_COLUMNS: Final = frozenset(Status.__struct_encode_fields__) - {*_DEPLOYMENT_COLUMNS}
_COLUMN_TITLES: Final = {
    "git_commit_id": "COMMIT", "triggered_by": "BY", "associated_environments_count": "ENVIRONMENTS",
    "exit_code": "EXIT", "duration_seconds": "SECONDS", "deployment_id": "DEPLOYMENT",
}  # fmt: skip
_ID_PATTERN: Final = re.compile(ids.PATTERN)
_WIDEST, _NARROWEST, _NO_LIMIT = 44, 24, 10_000
"""Maximum width of a column, minimum width of a column that uses the remaining width, and no limit, in
characters."""
_MAX_ACTION_LENGTH: Final = 32
_MAX_LINES: Final = 4
"""Maximum lines of a reason in its column; longer reasons are printed below the table."""


def show_list(operation: Operation, rows: Sequence[Any], *, wide: bool = False) -> None:
    """Prints rows as a table of the most useful fields, or of all fields. Prints how many columns are left
    out."""
    if not rows:
        click.echo("There are none.", err=True)
    elif wide:
        _show_wide(rows, _shown_field_names(operation, rows))
    else:
        numbers = {row["id"]: row["number"] for row in rows} if operation.answer is Deployment else {}
        _show_short(operation, [_with_plain_statuses(readable(operation, row, numbers)) for row in rows])


def _show_short(operation: Operation, rows: Sequence[Any]) -> None:
    names = [
        name for name in _shown_field_names(operation, rows) if not _is_for_programs(operation, rows, name)
    ]
    first = [name for name in names if _is_first(operation, name)]
    places = _telling_apart(rows)
    first[1:1], names = places, [*names[:1], *places, *(name for name in names[1:] if name not in places)]
    widths = _fitting_columns(rows, first, names)
    if not widths:
        show_apart([{name: row[name] for name in names if name in row} for row in rows])
        return
    _table(widths, [[short_cell(row.get(name)) for name in widths] for row in rows])
    below = [name for name in (*_ADDRESS_FIELDS, *_LONG_TEXT_FIELDS) if name in names and name not in widths]
    for name in below:
        _show_below(rows, next(iter(widths)), name)
    texts = _MULTILINE_FIELDS & {*names}
    if left := len(names) - len(widths) - len(below) - len(texts):
        click.echo(f"{left} more column{'s' if left > 1 else ''}: --wide", err=True)
    for name in texts:
        click.echo("\n" + plain(str(rows[0][name])).strip("\n"))


def _telling_apart(rows: Sequence[Any]) -> list[str]:
    """Returns the columns that tell rows of one name apart, such as services of several environments."""
    for columns in (("environment_name",), _PLACE_FIELDS):
        whole = [tuple(row.get(name) for name in ("name", *columns)) for row in rows]
        if any(None in one for one in whole):
            return []
        if len({row["name"] for row in rows}) == len(rows):
            return []
        if len({*whole}) == len(rows):
            return [*columns]
    return [*_PLACE_FIELDS]


def _show_below(rows: Sequence[Any], first: str, reason: str) -> None:
    """Prints the reasons or addresses that do not fit into a column, each on its own line after the name of
    its row."""
    for row in rows:
        if text := short_cell(row.get(reason)):
            label = short_cell(row.get("version") if first == "status" else row.get(first))
            click.echo(f"{label}: {wrap_indented(text, 2, first=len(label) + 2)}")


def _with_plain_statuses(row: dict[str, Any]) -> dict[str, Any]:
    """Replaces objects that have a status, such as the check of a registry, by their status."""
    return {
        name: value["status"] if isinstance(value, dict) and isinstance(value.get("status"), str) else value
        for name, value in row.items()
    }


def readable(
    operation: Operation, row: dict[str, Any], deployment_numbers: Mapping[str, int] = MappingProxyType({})
) -> dict[str, Any]:
    """Returns a row with fields for people instead of fields for programs.

    `deployment_numbers`: the numbers of deployments by id, to show the version that a rollback repeats.
    """
    if operation.answer is not Deployment:
        return _with_outcome(with_counts(_with_service_names(row)))
    ended, repeated = row.get("finished_at"), deployment_numbers.get(row.get("repeats") or "")
    own = {name: value for name, value in row.items() if name not in _SERVICE_COLUMNS or name == "id"} | {
        "version": version_of(row),
        "action": _action_of(row, repeated),
        "git_commit_id": (row.get("git_commit_id") or "")[:7],
        "took": duration(row["created_at"], ended) if ended else "",
    }
    return {name: own[name] for name in sorted(own, key=lambda name: _column_order(operation, name))}


def _with_service_names(row: dict[str, Any]) -> dict[str, Any]:
    """Replaces the services in a row, such as those of a stage, by their names, which fit into a column."""
    services = row.get("services")
    if not services or not all(isinstance(one, dict) and "service_name" in one for one in services):
        return row
    names = [f"{one['service_name']}{' (skipped)' if one.get('is_skipped') else ''}" for one in services]
    return {**row, "services": names}


def version_of(deployment: Mapping[str, Any]) -> str:
    """Returns the name of a deployment: `v3` for a version, `run 4` for a command that ran once."""
    return f"{'run ' if deployment.get('command') else 'v'}{deployment['number']}"


def _action_of(deployment: Mapping[str, Any], repeated: int | None) -> str:
    """Returns what a deployment does: `DEPLOY`, `ROLLBACK to v3` or `RUN flask db upgrade`."""
    if command := deployment.get("command"):
        return textwrap.shorten(f"{deployment['action']} {shlex.join(command)}", _MAX_ACTION_LENGTH)
    purpose = deployment.get("purpose") or deployment["action"]
    preposition = "to" if purpose == "ROLLBACK" else "of"
    return f"{purpose} {preposition} v{repeated}" if repeated else str(purpose)


def _with_outcome(row: dict[str, Any]) -> dict[str, Any]:
    """Adds the status of a nested object, such as the check of a registry, to the row."""
    inner = next((value for value in row.values() if isinstance(value, dict) and "status" in value), None)
    return row if inner is None or "status" in row else row | {"status": inner["status"]}


def _shown_field_names(operation: Operation, rows: Sequence[Any]) -> list[str]:
    """Returns the fields worth showing, beginning with name, state and address."""
    names = (*(operation.answer.__struct_encode_fields__ if operation.answer else ()), *rows[0])
    shown = [
        name
        for name in dict.fromkeys(names)
        if any(name in row for row in rows) and name not in _LAST_COLUMNS
    ]
    late = [name for name in _LAST_COLUMNS if any(name in row for row in rows)]
    return sorted(
        (name for name in (*shown, *late) if _is_informative(operation, rows, name)),
        key=lambda name: _column_order(operation, name),
    )


def _column_order(operation: Operation, name: str) -> int:
    """Returns the position of a column: name, or else the id, then state and address, then the other
    fields."""
    order = _column_names(operation)
    return order.index(name) if name in order else len(order)


def _column_names(operation: Operation) -> tuple[str, ...]:
    if operation.answer is Deployment:
        return _DEPLOYMENT_COLUMNS
    if operation.answer is OrganizationEvent:
        return _EVENT_COLUMNS
    if _is_of_numbered(operation):
        return (
            "number",
            *_FIRST_COLUMNS,
            "cause",
            "started_at",
            "duration_seconds",
            "exit_code",
            "message",
            "id",
        )
    has_no_name = operation.family is not None and operation.family.names is None
    named = (operation.family.names,) if operation.family and operation.family.names else _NAME_FIELDS
    own_id = _find_field(operation.answer, "id") is not None
    made_by = () if own_id else (_MADE_BY,)
    return (*(("id",) if has_no_name else ()), *named, *_FIRST_COLUMNS, *_EARLY_COLUMNS, *made_by)


def _is_first(operation: Operation, name: str) -> bool:
    order = _column_names(operation)
    has_first = order is not _DEPLOYMENT_COLUMNS and not _is_of_numbered(operation)
    return name in order and name not in {*_EARLY_COLUMNS, _MADE_BY} and has_first


def _is_of_numbered(operation: Operation) -> bool:
    """Returns whether the rows are identified by numbers instead of names."""
    family = operation.family
    return family is not None and operation.answer is family.view and is_numbered(family)


def _is_id(rows: Sequence[Any], name: str) -> bool:
    return any(isinstance(value := row.get(name), str) and _ID_PATTERN.fullmatch(value) for row in rows)


def _is_for_programs(operation: Operation, rows: Sequence[Any], name: str) -> bool:
    """Returns whether the default table leaves the field out: ids of resources and their parents, fields
    without effect, and the time of the last change."""
    if name in _column_names(operation):
        return False
    owners = (row.get(name) for row in rows)
    return (
        operation.answer is Deployment
        or name in _PROGRAM_FIELDS
        or name == _LAST_COLUMNS[-1]
        or _is_id(rows, name)
        or _has_no_effect(_find_field(operation.answer, name))
        or all(isinstance(item, dict) and [*item] == ["id"] for item in owners)
    )


def _fitting_columns(rows: Sequence[Any], first: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Returns the first columns and as many other columns as fit, with their widths: the first columns
    without addresses if they do not fit with them. Empty if they do not fit then either."""
    widths = {name: _width(rows, name, limit=_NO_LIMIT) for name in first}
    left = room() - sum(width + COLUMN_GAP for width in widths.values()) + COLUMN_GAP
    if left < 0:  # addresses are printed below the table
        widths = {name: width for name, width in widths.items() if name not in _ADDRESS_FIELDS}
        left = room() - sum(width + COLUMN_GAP for width in widths.values()) + COLUMN_GAP
        if left < 0 or not widths:
            return {}
    for name in names:
        if (
            name in widths
            or name in (*_MULTILINE_FIELDS, *_ADDRESS_FIELDS)
            or not all(_is_flat(row.get(name)) for row in rows)
        ):
            continue
        width = _width(rows, name)
        if name in _LONG_TEXT_FIELDS and left - COLUMN_GAP >= _NARROWEST:
            longest = max(len(short_cell(row.get(name))) for row in rows)
            width = min(width, left - COLUMN_GAP) if longest <= _MAX_LINES * (left - COLUMN_GAP) else room()
        if width + COLUMN_GAP <= left:
            left -= width + COLUMN_GAP
            widths[name] = width
    return widths


def _show_wide(rows: Sequence[Any], names: Sequence[str]) -> None:
    """Prints all fields, as a table if it fits, or else as a list of fields per row."""
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    widths = {
        name: max(len(_column_title(name)), *(len(row[place]) for row in cells))
        for place, name in enumerate(names)
    }
    is_flat = all(_is_flat(row.get(name)) for row in rows for name in names)
    if is_flat and sum(width + COLUMN_GAP for width in widths.values()) <= room():
        _table(widths, cells)
    else:
        show_apart([{name: row[name] for name in names if name in row} for row in rows])


def _table(widths: Mapping[str, int], cells: Sequence[Sequence[str]]) -> None:
    table(
        [_column_title(name) for name in widths],
        [*widths.values()],
        cells,
        states=[place for place, name in enumerate(widths) if is_state(name)],
    )


def _is_informative(operation: Operation, rows: Sequence[Any], name: str) -> bool:
    """Returns whether any row has a value other than empty or the field's default."""
    usual = None if name in STATE_FIELDS else _default_value(operation.answer, name)
    return any(row.get(name) not in (*_EMPTY_VALUES, usual) for row in rows)


def _default_value(answer: type[Struct] | None, name: str) -> Any:
    field = _find_field(answer, name)
    return field.default if field is not None and field.type is str else None


def _find_field(answer: type[Struct] | None, name: str) -> msgspec.structs.FieldInfo | None:
    fields = msgspec.structs.fields(answer) if answer else ()
    return next((field for field in fields if field.encode_name == name), None)


def _has_no_effect(field: msgspec.structs.FieldInfo | None) -> bool:
    return field is not None and has_annotation(field.type, WITHOUT_EFFECT)


def _is_flat(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str | int) for item in value)
    return not isinstance(value, dict)


def _width(rows: Sequence[Any], name: str, limit: int = _WIDEST) -> int:
    """Returns the width of a column. Values that users copy, such as addresses, are never wrapped."""
    widest = max(len(short_cell(row.get(name))) for row in rows)
    limit = _NO_LIMIT if name in {"id", *_ADDRESS_FIELDS} else limit
    return max(min(widest, limit), len(_column_title(name)))


def _column_title(name: str) -> str:
    short = re.sub(r"_(name|at|date)$", "", name) or name
    return _COLUMN_TITLES.get(name, short.upper().replace("_", " "))
