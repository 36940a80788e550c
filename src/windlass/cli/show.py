"""Answers of the API, for people: a table for a list, pairs for a resource, lines for a log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from msgspec import Struct

from windlass.base.show import GAP, pairs, plain, room, table
from windlass.base.stopped import Stopped
from windlass.core.registry import Operation
from windlass.core.traits import LogLine

_EMPTY: tuple[Any, ...] = (None, "", [], {}, False)
_LATE = ("created_at", "updated_at")
_WIDEST = 44


def show(operation: Operation, answer: Any) -> None:
    if operation.answer is LogLine:
        for line in answer["results"]:
            show_line(line)
    elif operation.listing:
        _show_list(operation, answer["results"])
        _show_page(answer.get("pagination"))
    elif isinstance(answer, dict):
        pairs((name, value, "") for name, value in _flat(answer))
    elif operation.method == "DELETE":
        click.echo("Deleted.")


def show_event(operation: Operation, whole: bool, data: str, *, as_json: bool) -> None:
    """A line of what goes on. What is not `whole` is a remark of the server on what is missing."""
    if whole and as_json:
        click.echo(data)
        return
    try:
        said = json.loads(data)
        if not whole:
            click.echo(plain(said["message"]), err=True)
        elif operation.answer is LogLine:
            show_line(said)
        else:
            click.echo(plain(data))
    except (ValueError, KeyError, TypeError) as error:
        raise Stopped("what comes there is not of Windlass: is it the right --url (WINDLASS_URL)?") from error


def show_line(line: Any) -> None:
    """Of a log: when, who, what."""
    at, who = click.style(_moment(line["created_at"]), dim=True), plain(line.get("pod_name") or "")
    click.echo(f"{at}  {click.style(who, fg='cyan')}  {plain(line['message'])}")


def _show_list(operation: Operation, rows: Sequence[Any]) -> None:
    if not rows:
        click.echo("There are none.", err=True)
        return
    columns = _columns(operation, rows)
    table(
        [_title(name) for name in columns],
        [_width(rows, name) for name in columns],
        [[_cell(row.get(name)) for name in columns] for row in rows],
    )


def _show_page(place: dict[str, int] | None) -> None:
    if place is not None:
        said = f"Page {place['page']} of {place['total_pages']}, {place['total_count']} in all."
        click.echo(said, err=True)


def _columns(operation: Operation, rows: Sequence[Any]) -> list[str]:
    """As many as fit, those first that tell most: the name, the id, then what is not the same everywhere."""
    names = operation.family.names if operation.family else None
    first = [name for name in (names or "name", "id") if name in rows[0]]
    telling = [
        name for name in _fields(operation, rows) if name not in first and _tells(operation, rows, name)
    ]
    last = [name for name in _LATE[:1] if name in rows[0]]
    left = room() - sum(_width(rows, name) + GAP for name in first)
    fitting = set()
    for name in (*telling, *last):
        if _width(rows, name) + GAP <= left:
            left -= _width(rows, name) + GAP
            fitting.add(name)
    return first + [name for name in (*telling, *last) if name in fitting]


def _fields(operation: Operation, rows: Sequence[Any]) -> Iterator[str]:
    known = operation.answer.__struct_encode_fields__ if operation.answer else tuple(rows[0])
    for name in known:
        if name not in _LATE and all(_flatly(row.get(name)) for row in rows):
            yield name


def _tells(operation: Operation, rows: Sequence[Any], name: str) -> bool:
    """Text that is as usual everywhere, such as an icon, tells nothing; neither does what is empty."""
    usual = _usual(operation.answer, name)
    return any(row.get(name) not in (*_EMPTY, usual) for row in rows)


def _usual(answer: type[Struct] | None, name: str) -> Any:
    declared = msgspec.structs.fields(answer) if answer else ()
    field = next((field for field in declared if field.encode_name == name), None)
    return field.default if field is not None and field.type is str else None


def _flatly(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str | int) for one in value)
    return not isinstance(value, dict)


def _width(rows: Sequence[Any], name: str) -> int:
    widest = max(len(_cell(row.get(name))) for row in rows)
    return max(min(widest, _WIDEST), *(len(word) for word in _title(name).split()))


def _title(name: str) -> str:
    return name.upper().replace("_", " ")


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_cell(one) for one in value)
        case dict():
            return plain(msgspec.json.encode(value).decode())
        case str():
            return plain(_moment(value))
        case _:
            return str(value)


def _flat(document: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Fields by their paths, without those that are empty."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for place, one in enumerate(value):
                yield f"{above}{name}[{place}]", ", ".join(f"{key} {said}" for key, said in _flat(one))
        elif value not in (None, "", []):
            yield f"{above}{name}", _cell(value)


def _moment(text: str) -> str:
    """A time as the clock on the wall shows it."""
    if len(text) == 24 and text[10] == "T" and text.endswith("Z"):
        with contextlib.suppress(ValueError):
            return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"
    return text
