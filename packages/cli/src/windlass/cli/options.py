"""Builds the options of a derived command, and converts option values to request parts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import click
from click.shell_completion import CompletionItem
from msgspec import NODEFAULT, Struct

from windlass.cli.connection import call_options
from windlass.cli.derived_commands import DerivedCommand, ancestry
from windlass.cli.everyday.names import complete_paths
from windlass.cli.fields import Field, ShortForm, fields_of, json_of, named_field
from windlass.cli.option_files import read_texts
from windlass.cli.time_options import PastTime
from windlass.core.declare.queries import Tail
from windlass.core.declare.registry import Registry, is_service
from windlass.core.declare.resource import Verb
from windlass.core.declare.traits import LogLine
from windlass.core.words.naming import kebab
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.sections import Option

PREVIEW: Final = "Preview"
"""The end of the path of an operation that shows what another one would make."""
_WHERE, _FIELDS, _BODY, _WHICH, _CALL = "Where", "Fields", "Fields in other forms", "Which", "The call"

_MAX_CHOICE_LENGTH = 120
_TIMES_OF_LINES: Final = frozenset({"--since", "--until"})


class CommandOptions(Struct, frozen=True):
    """The parameters of a command, grouped by the part of the request that they set."""

    above: tuple[str, ...]
    """Families, or literal segments of the path, that options can name."""
    fields: tuple[Field, ...]
    query: tuple[Field, ...]
    params: tuple[click.Parameter, ...]


def options_of(registry: Registry, command: DerivedCommand) -> CommandOptions:
    operation = command.operation
    above = _nameable_families(registry, command)
    fixed = operation.family.fixed if operation.family and _is_edit(command) else frozenset[str]()
    fields = fields_of(operation.body, fixed) if operation.body else []
    query = fields_of(operation.query) if operation.query else []
    own: list[click.Parameter] = [
        *_click_arguments(command),
        *(_above_option(registry, name) for name in above),
        *(_query_option(command, place, field) for place, field in enumerate(query)),
        *(_body_options() if operation.body else ()),
        *(_preview_options(registry, command)),
        *(_wait_options(command)),
    ]
    taken = _option_names(own)
    shown = {place: field for place, field in enumerate(fields) if field.option not in taken}
    edits = _is_edit(command)
    settable: list[click.Parameter] = []
    for place, field in shown.items():
        settable += [_short_option(place, field.short)] if field.short else []
        settable.append(_field_option("field", place, field, _FIELDS, edits=edits))
    taken |= _option_names(settable)
    calling = [option for option in call_options() if not set(option.opts) & taken]
    where = [option for option in own if getattr(option, "section", _WHERE) == _WHERE]
    others = [option for option in own if option not in where]
    return CommandOptions(tuple(above), tuple(fields), tuple(query), (*where, *settable, *others, *calling))


def values(prefix: str, fields: tuple[Field, ...], options: Mapping[str, Any]) -> Iterator[tuple[Field, Any]]:
    """Yields the fields whose options were given, each with its value."""
    at_stdin: set[str] = {"--from-file"} if _is_stdin(options.get("from_file")) else set()
    for place, field in enumerate(fields):
        value = options.get(f"{prefix}_{place}")
        if field.short and (numbers := options.get(f"short_{place}")):
            if value is not None:
                raise InvalidUsage(f"give {field.option} or --{field.short.name}, and not both")
            yield field, field.short.objects(numbers)
        if value is None or value == ():
            continue
        if field.kind is None:
            value = _json(value, field.option)
        elif field.is_read_from_files:
            texts = read_texts(field.option, value if field.many else [value], at_stdin)
            value = texts if field.many else texts[0]
        yield field, list(value) if field.many else value


_MISSING_PROBLEM: Final = ": is required"


def _is_stdin(file: Any) -> bool:
    return getattr(file, "name", "") == "<stdin>"


def with_option(
    message: str, command: CommandOptions, options: Mapping[str, Any], named: Container[str]
) -> str:
    """Returns an error message of the API in which the field is replaced by its option. Fields in `named`
    keep their names, because the user typed these, for example in --data."""
    begins = named_field(message, (*command.fields, *command.query))
    if begins is None:
        return message
    text, field = begins
    is_query = field in command.query
    place = (command.query if is_query else command.fields).index(field)
    parameter = f"{'query' if is_query else 'field'}_{place}"
    if field.path[0] in named or all(param.name != parameter for param in command.params):
        return message
    short = f"--{field.short.name}" if field.short and options.get(f"short_{place}") else ""
    refusal = field.name_option(text, short) + message.removeprefix(text)
    if not message.removeprefix(text).startswith(_MISSING_PROBLEM):
        return refusal
    others = [
        f"{other.option} ({' or '.join(other.choices)})" if other.choices else other.option
        for other in command.fields
        if other.required and other is not field and other.path[0] not in named
        if options.get(f"field_{command.fields.index(other)}") in (None, ())
    ]
    return f"{refusal}. Also required: {', '.join(others)}" if others else refusal


def base_body(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the body that `--from-file` and `--data` contain."""
    body: dict[str, Any] = {}
    for name, option in (("from_file", "--from-file"), ("data", "--data")):
        text = options.get(name)
        if text is not None:
            fields = _json(text.read() if name == "from_file" else text, option)
            if not isinstance(fields, dict):
                raise InvalidUsage(f"{option}: give a JSON object")
            body |= fields
    return body


def free_fields(
    fields: tuple[Field, ...], options: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the paths and values of `--field path=JSON` options."""
    paths = {".".join(field.path): field.path for field in fields}
    for text in options.get("field", ()):
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidUsage(f"--field: give NAME=JSON, such as ports=[], and not {text!r}")
        yield paths.get(name, tuple(name.split("."))), _json(value, f"--field {name}")


def _json(text: str, field: str) -> Any:
    try:
        return json_of(text, field)
    except ValueError as error:
        raise InvalidUsage(str(error)) from error


def _is_edit(command: DerivedCommand) -> bool:
    return command.operation.handler.endswith((f".{Verb.UPDATE}", f".{Verb.PATCH}"))


def _nameable_families(registry: Registry, command: DerivedCommand) -> list[str]:
    """Returns the families that options can name: families in the path, and families that narrow the
    search."""
    families = [family.name for family in ancestry(registry, command.named)] if command.named else []
    needed = [name for path in command.paths for name, _ in path.above if name not in families]
    return list(dict.fromkeys(needed + families))


def _click_arguments(command: DerivedCommand) -> Iterator[click.Parameter]:
    if command.choices:
        yield click.Argument(
            ["choice"], type=click.Choice(command.choices), metavar="|".join(command.choices)
        )
    for place, id in enumerate(command.paths[0].subject):
        yield click.Argument(
            [f"subject_{place}"],
            required=not (place == 0 and (command.own or command.has_choice or command.is_of_newest)),
            metavar=command.group.upper() if place == 0 else id.param.upper(),
            shell_complete=_completion(command) if place == 0 else None,
        )


def _completion(command: DerivedCommand) -> Callable[..., list[CompletionItem]] | None:
    """Returns the function that completes service names, if the command acts on a service."""
    family = command.named
    if family is None or not is_service(family):
        return None
    return partial(complete_paths, kind=family.enum_value)


def _above_option(registry: Registry, name: str) -> Option:
    family = registry.families.get(name)
    spoken = kebab(name).replace("-", " ")
    named = "Id, name or path of names" if family and family.parent else "Id or name"
    help = f"{named} of the {spoken}." if family and family.names else f"Id of the {spoken}."
    if family and family.parent is None:
        help += "  [the token's own]"
    return Option([f"above_{name}", f"--{kebab(name)}"], help=help, metavar="ID|NAME", section=_WHERE)


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


def _preview_options(registry: Registry, command: DerivedCommand) -> Iterator[Option]:
    """Yields the option of commands for which the API shows beforehand what they make."""
    if registry.handled_by(f"{command.operation.handler}{PREVIEW}"):
        help = "Show what would be made, and make nothing."
        yield Option(["dry_run", "--dry-run"], is_flag=True, help=help, section=_CALL)


def _wait_options(command: DerivedCommand) -> Iterator[Option]:
    if command.starts:
        yield Option(
            ["wait", "--wait"],
            is_flag=True,
            help="Show progress until it is done. The exit code is 1 if it fails.",
            section=_CALL,
        )
    if command.operation.listing and command.operation.answer is not LogLine:
        yield Option(["wide", "--wide"], is_flag=True, help="Show every field, ids too.", section=_CALL)
    if command.operation.conditional:
        yield Option(
            ["if_match", "--if-match"],
            metavar="ETAG",
            help="Only if this is still its version; otherwise the exit code is 1.",
            section=_CALL,
        )
    if command.operation.media_type:
        yield Option(
            ["output", "--output"],
            metavar="FILE",
            help="Where to save it; - is the standard output. Without it, a file here with its own name.",
            section=_CALL,
        )
    if command.operation.method == "DELETE":
        yield Option(["yes", "-y", "--yes"], is_flag=True, help="Delete without asking.", section=_CALL)


def _field_option(prefix: str, position: int, field: Field, section: str, *, edits: bool = False) -> Option:
    declared = field.option
    if field.kind is bool:
        declared += f"/--no-{field.option[2:]}"
    return Option(
        [f"{prefix}_{position}", declared],
        type=_type(field),
        multiple=field.many,
        default=None,
        metavar=_metavar(field),
        help=_help(field, edits),
        hidden=field.deep,
        section=section,
    )


def _query_option(command: DerivedCommand, position: int, field: Field) -> Option:
    option = _field_option("query", position, field, _WHICH)
    query = command.operation.query
    if query is not None and issubclass(query, Tail) and field.option in _TIMES_OF_LINES:
        option.type = PastTime()
        option.help = f"{(option.help or '').rstrip('.')}: 15m, 1h or 2d ago, or a time."
    return option


def _short_option(position: int, short: ShortForm) -> Option:
    return Option(
        [f"short_{position}", f"--{short.name}"],
        type=int,
        multiple=True,
        help=f"{short.meaning}. May be repeated.",
        section=_FIELDS,
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
    if field.is_read_from_files:
        return "TEXT|@FILE|-"
    return None


def _has_many(field: Field) -> bool:
    """Returns whether the choices are too long for the metavar, so that the help text lists them."""
    return len("|".join(field.choices)) > _MAX_CHOICE_LENGTH


def _help(field: Field, edits: bool) -> str:
    parts = [field.meaning.rstrip(".") + "." if field.meaning else ""]
    if _has_many(field):
        parts.append(f"One of {', '.join(field.choices)}.")
    if field.many:
        parts.append("May be repeated.")
    if field.required and not edits:
        parts.append("[required]")
    elif (
        not edits
        and field.default not in (NODEFAULT, None, "", False)
        and not isinstance(field.default, list)
    ):
        parts.append("[yes]" if field.default is True else f"[{field.default}]")
    return "  ".join(part for part in parts if part)


def _option_names(params: Iterable[click.Parameter]) -> set[str]:
    return {name for param in params for name in (*param.opts, *param.secondary_opts)}
