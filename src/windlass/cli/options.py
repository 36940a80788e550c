"""The options of a command, and the values given to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
from msgspec import NODEFAULT, Struct

from windlass.cli.client import Api
from windlass.cli.derived_commands import DerivedCommand, ancestry, kebab
from windlass.cli.fields import Field, fields_of, json_of
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Verb
from windlass.core.declare.traits import LogLine
from windlass.terminal.sections import Option
from windlass.terminal.stopped import Misused
from windlass.terminal.tables import FORM

_WHERE, _FIELDS, _BODY, _WHICH, _CALL = "Where", "Fields", "Fields in other forms", "Which", "The call"

_LONGEST_CHOICE = 120


class CommandOptions(Struct, frozen=True):
    """What can be said to a command. Each part knows how to find itself in what was said."""

    above: tuple[str, ...]
    """Families, or other literals of the path, that may be named."""
    fields: tuple[Field, ...]
    query: tuple[Field, ...]
    params: tuple[click.Parameter, ...]


def options_of(registry: Registry, deed: DerivedCommand) -> CommandOptions:
    operation = deed.operation
    above = _above(registry, deed)
    fixed = operation.family.fixed if operation.family and _is_edit(deed) else frozenset[str]()
    fields = fields_of(operation.body, fixed) if operation.body else []
    query = fields_of(operation.query) if operation.query else []
    own: list[click.Parameter] = [
        *_arguments(deed),
        *(_above_option(registry, name) for name in above),
        *(_field_option("query", place, field, _WHICH) for place, field in enumerate(query)),
        *(_body_options() if operation.body else ()),
        *(_conditions(deed)),
    ]
    taken = _names(own)
    shown = {place: field for place, field in enumerate(fields) if field.option not in taken}
    told = [
        _field_option("field", place, field, _FIELDS, edits=_is_edit(deed)) for place, field in shown.items()
    ]
    taken |= _names(told)
    calling = [option for option in call_options() if not set(option.opts) & taken]
    where = [option for option in own if getattr(option, "section", _WHERE) == _WHERE]
    others = [option for option in own if option not in where]
    return CommandOptions(tuple(above), tuple(fields), tuple(query), (*where, *told, *others, *calling))


def call_options() -> list[click.Option]:
    return [
        Option(["url", "--url"], help="Where the server is.", section=_CALL),
        Option(["token", "--token"], help="API token.", section=_CALL),
        Option([FORM, "--json/--text"], default=None, help="As JSON, or as text.", section=_CALL),
    ]


def api_of(said: Mapping[str, Any]) -> Api:
    """As said at the command, or before it, or in the environment."""
    root = click.get_current_context().find_root().params
    return Api(said.get("url") or root["url"], said.get("token") or root["token"] or "")


def values(prefix: str, fields: tuple[Field, ...], said: Mapping[str, Any]) -> Iterator[tuple[Field, Any]]:
    """The fields that were given, each with its value."""
    for place, field in enumerate(fields):
        value = said.get(f"{prefix}_{place}")
        if value is None or value == ():
            continue
        if field.kind is None:
            value = _json(value, field.option)
        yield field, list(value) if field.many else value


def base_body(said: Mapping[str, Any]) -> dict[str, Any]:
    """The body as far as it was given as a whole."""
    body: dict[str, Any] = {}
    for name, option in (("from_file", "--from-file"), ("data", "--data")):
        text = said.get(name)
        if text is not None:
            found = _json(text.read() if name == "from_file" else text, option)
            if not isinstance(found, dict):
                raise Misused(f"{option}: must be a JSON object")
            body |= found
    return body


def free_fields(fields: tuple[Field, ...], said: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What was given as `--field path=JSON`."""
    known = {".".join(field.path): field.path for field in fields}
    for text in said.get("field", ()):
        name, equals, value = text.partition("=")
        if not equals:
            raise Misused(f"--field: must be like ports=[], and is {text!r}")
        yield known.get(name, tuple(name.split("."))), _json(value, f"--field {name}")


def _json(text: str, where: str) -> Any:
    try:
        return json_of(text, where)
    except ValueError as error:
        raise Misused(str(error)) from error


def _is_edit(deed: DerivedCommand) -> bool:
    return deed.operation.handler.endswith((f".{Verb.UPDATE}", f".{Verb.PATCH}"))


def _above(registry: Registry, deed: DerivedCommand) -> list[str]:
    """Everything that can be named to say where: what paths need, and what narrows a search by name."""
    families = [family.name for family in ancestry(registry, deed.family)] if deed.family else []
    needed = [name for way in deed.ways for name, _ in way.above if name not in families]
    return list(dict.fromkeys(needed + families))


def _arguments(deed: DerivedCommand) -> Iterator[click.Parameter]:
    if deed.choices:
        yield click.Argument(["choice"], type=click.Choice(deed.choices), metavar="|".join(deed.choices))
    for place, id in enumerate(deed.ways[0].subject):
        yield click.Argument(
            [f"subject_{place}"],
            required=not (place == 0 and deed.own),
            metavar=deed.group.upper() if place == 0 else id.param.upper(),
        )


def _above_option(registry: Registry, name: str) -> Option:
    family = registry.families.get(name)
    spoken = kebab(name).replace("-", " ")
    named = "Id, name or path of names" if family and family.parent else "Id or name"
    said = f"{named} of the {spoken}." if family and family.names else f"Id of the {spoken}."
    if family and family.parent is None:
        said += "  [the token's own]"
    return Option([f"above_{name}", f"--{kebab(name)}"], help=said, metavar="ID|NAME", section=_WHERE)


def _body_options() -> Iterator[Option]:
    yield Option(
        ["field", "--field"],
        multiple=True,
        metavar="PATH=JSON",
        help="Any field, also a deeper one, or null: --field cpu=null. May be repeated.",
        section=_BODY,
    )
    yield Option(
        ["data", "--data"], metavar="JSON", help="The whole body; fields go on top of it.", section=_BODY
    )
    yield Option(
        ["from_file", "--from-file"],
        type=click.File("r", encoding="utf-8"),
        help="The whole body, from a file of JSON; - is the standard input.",
        section=_BODY,
    )


def _conditions(deed: DerivedCommand) -> Iterator[Option]:
    if deed.starts:
        yield Option(
            ["wait", "--wait"],
            is_flag=True,
            help="Show progress until it is done. The exit code is 1 if it fails.",
            section=_CALL,
        )
    if deed.operation.listing and deed.operation.answer is not LogLine:
        yield Option(["wide", "--wide"], is_flag=True, help="Show every field, ids too.", section=_CALL)
    if deed.operation.conditional:
        yield Option(
            ["if_match", "--if-match"],
            metavar="ETAG",
            help="Only if this is still its version; otherwise the exit code is 1.",
            section=_CALL,
        )
    if deed.operation.method == "DELETE":
        yield Option(["yes", "-y", "--yes"], is_flag=True, help="Delete without asking.", section=_CALL)


def _field_option(prefix: str, place: int, field: Field, section: str, *, edits: bool = False) -> Option:
    declared = field.option
    if field.kind is bool:
        declared += f"/--no-{field.option[2:]}"
    return Option(
        [f"{prefix}_{place}", declared],
        type=_type(field),
        multiple=field.many,
        default=None,
        metavar=_metavar(field),
        help=_help(field, edits),
        hidden=field.deep,
        section=section,
    )


def _type(field: Field) -> Any:
    if field.choices:
        return click.Choice(field.choices, case_sensitive=False)
    return None if field.kind is bool else field.kind or str


def _metavar(field: Field) -> str | None:
    if field.kind is None:
        return "JSON"
    if field.choices:
        return "WORD" if _has_many(field) else "|".join(field.choices)
    if field.refers:
        return "ID|NAME"
    return None


def _has_many(field: Field) -> bool:
    """So many choices that they are told in lines of their own."""
    return len("|".join(field.choices)) > _LONGEST_CHOICE


def _help(field: Field, edits: bool) -> str:
    said = [field.meaning.rstrip(".") + "." if field.meaning else ""]
    if _has_many(field):
        said.append(f"One of {', '.join(field.choices)}.")
    if field.many:
        said.append("May be repeated.")
    if field.required and not edits:
        said.append("[required]")
    elif (
        not edits
        and field.default not in (NODEFAULT, None, "", False)
        and not isinstance(field.default, list)
    ):
        said.append("[yes]" if field.default is True else f"[{field.default}]")
    return "  ".join(part for part in said if part)


def _names(params: Iterable[click.Parameter]) -> set[str]:
    return {name for param in params for name in (*param.opts, *param.secondary_opts)}
