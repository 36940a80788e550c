"""Shows answers of the API to people: a table for a list, pairs for a resource, lines for a log."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import click
import msgspec
from msgspec import Struct

from windlass.base import ids
from windlass.cli.derived_commands import kebab
from windlass.core.declare.audit_query import OrganizationEvent
from windlass.core.declare.registry import Operation
from windlass.core.declare.traits import Deployment, LogLine, Status
from windlass.families.environment import EnvironmentChanges
from windlass.terminal.stopped import Stopped
from windlass.terminal.tables import GAP, coloured, pairs, plain, room, table

_EMPTY: tuple[Any, ...] = (None, "", [], {}, False)
_LATE = ("created_at", "updated_at")
_STATES = ("state", "status")
_ADDRESSES = ("url",)
_REASONS = ("message",)
_OF_SERVICE = frozenset(Status.__struct_encode_fields__) - {"id", *_REASONS}
"""Fields in which a deployment repeats the status of its service."""
_ID = re.compile(ids.PATTERN)
_WIDEST, _NO_LIMIT = 44, 10_000
"""Most characters of a column."""


def show(operation: Operation, answer: Any, *, wide: bool = False) -> None:
    if operation.answer is LogLine:
        for line in answer["results"]:
            show_line(line)
    elif operation.listing:
        show_list(operation, answer["results"], wide=wide)
        _show_page(answer.get("pagination"))
    elif isinstance(answer, dict) and (among := _list_in(operation)):
        show_list(
            msgspec.structs.replace(operation, answer=among[1], family=None), answer[among[0]], wide=wide
        )
        _show_next(answer.get("links", {}))
    elif operation.answer is Deployment and operation.writes and isinstance(answer, dict):
        _show_begun(answer)
    elif isinstance(answer, dict):
        _show_fields(answer)
    elif operation.method == "DELETE":
        click.echo("Deleted.")


def show_event(operation: Operation, whole: bool, data: str, *, as_json: bool) -> None:
    """Prints an event of a stream. One that is not `whole` is a remark of the server on missing events."""
    if whole and as_json:
        click.echo(data)
        return
    try:
        event = json.loads(data)
        if not whole:
            click.echo(plain(event["message"]), err=True)
        elif show := _shown_as_line(operation):
            show(event)
        else:
            click.echo(plain(data))
    except (ValueError, KeyError, TypeError) as error:
        raise Stopped("the answer is not of Windlass: is it the right --url (WINDLASS_URL)?") from error


def show_line(line: Any) -> None:
    """Prints a line of a log: time, instance, text."""
    at, who = click.style(_moment(line["created_at"]), dim=True), plain(line.get("pod_name") or "")
    click.echo(f"{at}  {click.style(who, fg='cyan')}  {plain(line['message'])}")


def _show_happening(entry: Any) -> None:
    """Prints an event of the audit: time, person, action, resource."""
    where = "/".join(name for name in (entry.get("project_name"), entry.get("environment_name")) if name)
    what = (
        f"{entry['event_type']} {entry.get('sub_target_type') or entry['target_type']} {entry['target_name']}"
    )
    at, who = (
        click.style(_moment(entry["timestamp"]), dim=True),
        click.style(plain(entry["triggered_by"]), fg="cyan"),
    )
    click.echo(f"{at}  {who}  {plain(what)}" + (f"  ({plain(where)})" if where else ""))


def _show_statuses(changes: Any) -> None:
    """Prints the state of the environment, and each service whose status changed."""
    _show_status("environment", changes["environment"])
    for name, statuses in changes.items():
        if isinstance(statuses, list) and name != "removed":
            for status in statuses:
                _show_status(name.removesuffix("s"), status)
    for id in changes.get("removed", []):
        click.echo(f"{plain(id)}  removed")


def _show_status(kind: str, status: Any) -> None:
    what, how = click.style(plain(kind), dim=True), coloured(status["state"])
    message = f"  {plain(status['message'])}" if status.get("message") else ""
    click.echo(f"{what} {plain(status['id'])}  {how}{message}")


_LINES: Final[Mapping[type[Struct], Callable[[Any], None]]] = {
    LogLine: show_line,
    OrganizationEvent: _show_happening,
    EnvironmentChanges: _show_statuses,
}
"""The function that prints an event of a stream, by the type of its data."""


def _shown_as_line(operation: Operation) -> Callable[[Any], None] | None:
    answer = operation.answer
    return next((show for shape, show in _LINES.items() if answer and issubclass(answer, shape)), None)


def _show_begun(deployment: dict[str, Any]) -> None:
    """Prints what was started, and how to follow it."""
    what = f"{plain(deployment['action'])} v{deployment['number']}"
    click.echo(f"{what}: {coloured(deployment['status'])}. With --wait, the command follows it to its end")


# Lists


def show_list(operation: Operation, rows: Sequence[Any], *, wide: bool = False) -> None:
    """Prints rows as a table, of the most useful fields or of all, and counts the columns left out."""
    if not rows:
        click.echo("There are none.", err=True)
        return
    names = _names(operation, rows)
    if wide:
        _show_wide(rows, names)
        return
    names = [name for name in names if _is_first(operation, name) or not _is_for_programs(rows, name)]
    useful = [name for name in names if operation.answer is not Deployment or name not in _OF_SERVICE]
    shown = _that_fit(rows, [name for name in useful if _is_first(operation, name)], useful)
    if not shown:
        _show_apart(rows, useful)
        return
    _table(rows, shown)
    if left := len(names) - len(shown):
        click.echo(f"{left} more column{'s' if left > 1 else ''}: --wide", err=True)


def _names(operation: Operation, rows: Sequence[Any]) -> list[str]:
    """Returns the fields worth showing: name, state and address first."""
    known = operation.answer.__struct_encode_fields__ if operation.answer else tuple(rows[0])
    there = [name for name in known if any(name in row for row in rows) and name not in _LATE]
    late = [name for name in _LATE if any(name in row for row in rows)]
    return sorted(
        (name for name in (*there, *late) if _tells(operation, rows, name)),
        key=lambda name: _place(operation, name),
    )


def _place(operation: Operation, name: str) -> int:
    """Sort key of a column: name (or else the id), state and address come first."""
    named = operation.family.names if operation.family else None
    order = (named or "name", *_STATES, *_ADDRESSES, *_REASONS)
    has_no_name = operation.family is not None and operation.family.names is None
    if has_no_name and name == "id":
        return -1
    return order.index(name) if name in order else len(order)


def _is_first(operation: Operation, name: str) -> bool:
    return _place(operation, name) < len((None, *_STATES, *_ADDRESSES))


def _is_id(rows: Sequence[Any], name: str) -> bool:
    return any(isinstance(value := row.get(name), str) and _ID.fullmatch(value) for row in rows)


def _is_for_programs(rows: Sequence[Any], name: str) -> bool:
    """True for ids of resources and their parents, and for the time of the last change."""
    owners = (row.get(name) for row in rows)
    return (
        name == _LATE[-1]
        or _is_id(rows, name)
        or all(isinstance(item, dict) and [*item] == ["id"] for item in owners)
    )


def _that_fit(rows: Sequence[Any], first: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns the first columns and as many others as fit; nothing if the first do not fit."""
    left = room() - sum(_width(rows, name, most=_NO_LIMIT) + GAP for name in first) + GAP
    if left < 0:
        return []
    shown = list(first)
    for name in names[len(first) :]:
        if all(_flatly(row.get(name)) for row in rows) and _width(rows, name) + GAP <= left:
            left -= _width(rows, name) + GAP
            shown.append(name)
    return shown


def _show_wide(rows: Sequence[Any], names: Sequence[str]) -> None:
    """Prints all fields: as a table if it fits, else each row as a list of fields."""
    needed = sum(_width(rows, name, most=_NO_LIMIT) + GAP for name in names)
    if needed <= room() and all(_flatly(row.get(name)) for row in rows for name in names):
        _table(rows, names)
    else:
        _show_apart(rows, names)


def _table(rows: Sequence[Any], names: Sequence[str]) -> None:
    table(
        [_title(name) for name in names],
        [_width(rows, name, most=_NO_LIMIT if _is_whole(name) else _WIDEST) for name in names],
        [[_cell(row.get(name)) for name in names] for row in rows],
        states=[place for place, name in enumerate(names) if _is_state(name)],
    )


def _is_whole(name: str) -> bool:
    """True for values that people copy, such as addresses: they are not wrapped."""
    return name in _ADDRESSES or name == "id"


def _show_apart(rows: Sequence[Any], names: Sequence[str]) -> None:
    """Prints each row as a list of fields."""
    for place, row in enumerate(rows):
        if place:
            click.echo()
        _show_fields({name: row[name] for name in names if name in row})


def _show_fields(document: dict[str, Any]) -> None:
    pairs(((name, value, "") for name, value in _flat(document)), states=_is_state)


def _is_state(name: str) -> bool:
    return name.rpartition("_")[2] in _STATES


def _list_in(operation: Operation) -> tuple[str, type[Struct]] | None:
    """Returns the field of an answer that is its only list of resources, and their type. Not for
    resources."""
    if operation.answer is None or operation.method != "GET":
        return None
    fields = msgspec.structs.fields(operation.answer)
    lists = [(field.encode_name, kind) for field in fields if (kind := _listed(field.type))]
    is_thing = any(field.encode_name == "id" for field in fields)
    return lists[0] if len(lists) == 1 and not is_thing else None


def _listed(annotation: Any) -> type[Struct] | None:
    match msgspec.inspect.type_info(annotation):
        case msgspec.inspect.ListType(item_type=msgspec.inspect.StructType(cls=kind)):
            return kind
        case _:
            return None


def _show_next(links: dict[str, str]) -> None:
    """Prints the option for the next page, from the token in the link."""
    for name, age in (("next", "older"), ("previous", "newer")):
        query = dict(parse_qsl(urlsplit(links.get(name) or "").query))
        for word in ("continueToken", "stepBackToken"):
            if word in query:
                click.echo(f"The {age} ones: --{kebab(word)} {query[word]}", err=True)


def _show_page(place: dict[str, int] | None) -> None:
    if place is not None:
        text = f"Page {place['page']} of {place['total_pages']}, {place['total_count']} in all."
        click.echo(text, err=True)


def _tells(operation: Operation, rows: Sequence[Any], name: str) -> bool:
    """True if a value tells something: not if it is empty, or the same everywhere, such as an icon."""
    usual = _usual(operation.answer, name)
    return any(row.get(name) not in (*_EMPTY, usual) for row in rows)


def _usual(answer: type[Struct] | None, name: str) -> Any:
    declared = msgspec.structs.fields(answer) if answer else ()
    field = next((field for field in declared if field.encode_name == name), None)
    return field.default if field is not None and field.type is str else None


def _flatly(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str | int) for item in value)
    return not isinstance(value, dict)


def _width(rows: Sequence[Any], name: str, most: int = _WIDEST) -> int:
    widest = max(len(_cell(row.get(name))) for row in rows)
    return max(min(widest, most), len(_title(name)))


def _title(name: str) -> str:
    return name.removesuffix("_name").upper().replace("_", " ")


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_cell(item) for item in value)
        case dict():
            return plain(msgspec.json.encode(value).decode())
        case str():
            return plain(_moment(value))
        case _:
            return str(value)


def _flat(document: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yields fields by their paths, without those that are empty."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for place, item in enumerate(value):
                yield f"{above}{name}[{place}]", ", ".join(f"{key} {text}" for key, text in _flat(item))
        elif value not in (None, "", []):
            yield f"{above}{name}", _cell(value)


def _moment(text: str) -> str:
    """Returns a time in the local time zone."""
    if len(text) == 24 and text[10] == "T" and text.endswith("Z"):
        with contextlib.suppress(ValueError):
            return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"
    return text
