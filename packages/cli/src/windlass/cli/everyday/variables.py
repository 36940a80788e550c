"""`windlass env` and `secrets`: read and change variables of the linked service, one by one or from a
file."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from windlass.cli.deployments import say
from windlass.cli.everyday.call import (
    EverydayCall,
    FoundService,
    everyday,
    service_argument,
    service_option,
)
from windlass.cli.everyday.variable_history import show_history
from windlass.cli.everyday.variable_use import show_use
from windlass.cli.lists import show_list
from windlass.cli.option_files import read_file, read_texts
from windlass.cli.suggestions import Verbs
from windlass.core.declare.operations import Operation
from windlass.core.declare.resource import Family
from windlass.families import registry
from windlass.families.variable import secret, variable
from windlass.terminal.command_errors import CommandFailed, InvalidUsage
from windlass.terminal.sections import Option
from windlass.terminal.tables import plain, print_json

_NAME_PATTERN: Final = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=[^\S\n]*")
_BARE_VALUE_PATTERN: Final = re.compile(r"[^\n]*")
_SINGLE_QUOTED_PATTERN: Final = re.compile(r"'(?P<text>[^']*)'[^\S\n]*(?:#[^\n]*)?(?=\n|\Z)")
_DOUBLE_QUOTED_PATTERN: Final = re.compile(
    r'"(?P<text>(?:[^"\\]|\\.)*)"[^\S\n]*(?:#[^\n]*)?(?=\n|\Z)', re.DOTALL
)
_DOTENV_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}


def parse_dotenv(text: str, source: str) -> dict[str, str]:
    """Parses the variables of a dotenv text. If a name occurs several times, the last line wins. `source`:
    the name of the text in error messages."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    values: dict[str, str] = {}
    place = 0
    while place < len(text):
        blank = re.compile(r"[^\S\n]*(?:#[^\n]*)?(?:\n|\Z)").match(text, place)
        if blank and blank.end() > place:
            place = blank.end()
            continue
        place += len(text[place:]) - len(text[place:].lstrip(" \t"))
        head = _NAME_PATTERN.match(text, place)
        if head is None:
            line = text.count("\n", 0, place) + 1
            raise InvalidUsage(f"{source}: fix line {line}: it must be like NAME=value")
        values[head["name"]], place = _parse_value(text, head.end(), source)
    return values


def _parse_value(text: str, start: int, source: str) -> tuple[str, int]:
    """Returns the value at `start`, and the position after it."""
    mark = text[start : start + 1]
    if mark in ("'", '"'):
        quoted = (_SINGLE_QUOTED_PATTERN if mark == "'" else _DOUBLE_QUOTED_PATTERN).match(text, start)
        if quoted is None:
            line = text.count("\n", 0, start) + 1
            raise InvalidUsage(
                f"{source}: fix line {line}: the quote {mark} is not closed, or text follows it"
            )
        inner = quoted["text"]
        return (inner if mark == "'" else _unescape(inner)), quoted.end()
    bare = _BARE_VALUE_PATTERN.match(text, start)
    assert bare is not None, "it matches the empty text, too"
    return re.sub(r"(?<!\s)\s+#.*", "", bare[0]).strip(), bare.end()


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _DOTENV_ESCAPES.get(match[1], match[0]), text, flags=re.DOTALL)


_KEY_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MAX_HISTORY: Final = 200
_DEFAULT_HISTORY: Final = 20
_MAX_VARIABLES: Final = 1000
"""Maximum number of variables in one request."""


class VariableLevel(Struct, frozen=True):
    """The level at which variables are set: a service, or its environment."""

    path: str
    word: str
    """The level's value of the field `scope`."""
    name: str


class VariableChanges(Struct, frozen=True):
    """The difference between the existing variables of a level and the new values."""

    created: list[str]
    changed: list[str]
    unchanged: list[str]

    @property
    def written(self) -> list[str]:
        return [*self.created, *self.changed]


class VariableCommands:
    """The commands for variables or secrets. Values of secrets are never printed."""

    def __init__(self, family: Family, noun: str, *, is_secret: bool) -> None:
        self.family = family
        self.noun = noun
        self.is_secret = is_secret

    # Words

    def show_all(self, shared: bool, wide: bool, name: str | None, **options: Any) -> None:
        call = EverydayCall(options)
        level = _choose_level(call, name, shared=shared)
        rows = call.api.everything(f"{level.path}/{self.family.segment}")
        if call.as_json:
            print_json({"results": rows})
        else:
            show_list(self._list_operation(level), rows, wide=wide)

    def set_all(self, assignments: Sequence[str], shared: bool, name: str | None, **options: Any) -> None:
        call = EverydayCall(options)
        if not shared:
            name, assignments = call.split_service(name, assignments)
        taken: set[str] = set()
        values = dict(self._key_and_value(text, taken) for text in assignments)
        level = _choose_level(call, name, shared=shared)
        self._write(call, level, values, self._compare(call, level, values))

    def unset_all(self, keys: Sequence[str], shared: bool, name: str | None, **options: Any) -> None:
        call = EverydayCall(options)
        if not shared:
            name, keys = call.split_service(name, keys)
        level = _choose_level(call, name, shared=shared)
        own = self._own_variables(call, level)
        if missing := [key for key in keys if key not in own]:
            others = f"; there are {', '.join(sorted(own))}" if own else ""
            raise CommandFailed(
                f"check the name: {level.name} has no {self.noun} {', '.join(missing)}{others}"
            )
        for key in keys:
            call.api.call("DELETE", f"{level.path}/{self.family.segment}/{own[key]['id']}")
        if call.as_json:
            print_json({"deleted": [*keys]})
        else:
            click.echo(f"Deleted {', '.join(map(plain, keys))}")
            _print_when_effective(call, level)

    def import_file(
        self, words: Sequence[str], shared: bool, yes: bool, dry_run: bool, name: str | None, **options: Any
    ) -> None:
        call = EverydayCall(options)
        *names, file = words
        if len(names) > 1 or (names and name and names[0] != name):
            raise InvalidUsage("name one service and one file")
        name = name or next(iter(names), None)
        values = parse_dotenv(read_file(file), plain(file))
        if not values:
            raise InvalidUsage(f"check the file: {plain(file)} has no variables")
        level = _choose_level(call, name, shared=shared)
        changes = self._compare(call, level, values)
        self._show_difference(changes)
        if dry_run:
            if call.as_json:
                print_json(msgspec.to_builtins(changes))
            return
        if changes.changed and not yes and sys.stdin.isatty() and sys.stdout.isatty():
            click.confirm(f"Replace {len(changes.changed)} of {level.name}?", abort=True, err=True)
        self._write(call, level, values, changes)

    def show_changes(
        self, words: Sequence[str], shared: bool, count: int, name: str | None, **options: Any
    ) -> None:
        call = EverydayCall(options)
        level, words = self._level_and_key(call, words, name, shared=shared)
        key = {"key": words[0]} if words else {}
        is_secret = str(self.is_secret).lower()
        answer = call.api.get(f"{level.path}/variableHistory", is_secret=is_secret, page_size=count, **key)
        if call.as_json:
            print_json(answer)
            return
        show_history(answer["changes"])
        if answer.get("continueToken"):
            say(f"There are older changes: show up to {_MAX_HISTORY} with --count.")

    def show_use(self, words: Sequence[str], shared: bool, name: str | None, **options: Any) -> None:
        call = EverydayCall(options)
        level, words = self._level_and_key(call, words, name, shared=shared)
        if not words:
            raise InvalidUsage(f"name the {self.noun}")
        answer = call.api.get(f"{level.path}/variableUse", key=words[0])
        if call.as_json:
            print_json(answer)
            return
        show_use(answer)
        if not answer["is_complete"]:
            say("There are more services: these are the ones that you may see, and 2,000 at most.")

    # Steps

    def _level_and_key(
        self, call: EverydayCall, words: Sequence[str], name: str | None, *, shared: bool
    ) -> tuple[VariableLevel, Sequence[str]]:
        """Splits a service from the key after it."""
        if not shared:
            name, words = call.split_service(name, words)
            if name is None and words and call.has_service(words[0]):
                name, words = words[0], words[1:]
        if len(words) > 1:
            raise InvalidUsage(f"name at most one service and one {self.noun}")
        return _choose_level(call, name, shared=shared), words

    def _key_and_value(self, text: str, used_options: set[str]) -> tuple[str, str]:
        key, equals, value = text.partition("=")
        if not _KEY_PATTERN.fullmatch(key) or (not equals and not self.is_secret):
            like = "NAME or NAME=value" if self.is_secret else "NAME=value"
            raise InvalidUsage(f"give {like}, and not {key if self.is_secret else text!r}")
        if equals:
            return key, read_texts(key, [value], used_options)[0]
        return key, self._read_value(key, used_options)

    def _read_value(self, key: str, used_options: set[str]) -> str:
        """Reads a value from the terminal without echo, or from standard input."""
        if sys.stdin.isatty():
            return str(click.prompt(f"Value of {key}", hide_input=True, err=True))
        return read_texts(key, ["-"], used_options)[0]

    def _own_variables(self, call: EverydayCall, level: VariableLevel) -> dict[str, Mapping[str, Any]]:
        """Returns the variables of the level itself by key, without inherited variables."""
        rows = call.api.everything(f"{level.path}/{self.family.segment}")
        return {row["key"]: row for row in rows if row["scope"] == level.word}

    def _compare(
        self, call: EverydayCall, level: VariableLevel, values: Mapping[str, str]
    ) -> VariableChanges:
        own = self._own_variables(call, level)
        same = [key for key in values if key in own and own[key].get("value") == values[key]]
        return VariableChanges(
            created=[key for key in values if key not in own],
            changed=[key for key in values if key in own and key not in same],
            unchanged=same,
        )

    def _write(
        self, call: EverydayCall, level: VariableLevel, values: Mapping[str, str], changes: VariableChanges
    ) -> None:
        """Sets the new and changed variables in one request, so that either all or none are set."""
        if len(changes.written) > _MAX_VARIABLES:
            raise InvalidUsage(f"set at most {_MAX_VARIABLES} at once")
        if changes.written:
            entries = [
                {"name": key, "value": values[key], "scope": level.word, "is_secret": self.is_secret}
                for key in changes.written
            ]
            body = msgspec.json.encode({"overwrite": True, "vars": entries})
            call.api.call("POST", f"{level.path}/{variable.segment}/import", body)
        if call.as_json:
            print_json(msgspec.to_builtins(changes))
        elif changes.written:
            click.echo(f"Set {', '.join(changes.written)} of {plain(level.name)}")
            _print_when_effective(call, level)
        else:
            click.echo("Nothing changes: all of them have these values")

    def _show_difference(self, changes: VariableChanges) -> None:
        marks = (("+", changes.created, "green"), ("~", changes.changed, "yellow"))
        for mark, keys, colour in marks:
            for key in keys:
                say(click.style(f"{mark} {key}", fg=colour))
        if changes.unchanged:
            say(f"{len(changes.unchanged)} unchanged")

    def _list_operation(self, level: VariableLevel) -> Operation:
        operations = registry().handled_by(f"{self.family.name}.list")
        return operations[0]


def _choose_level(call: EverydayCall, name: str | None, *, shared: bool) -> VariableLevel:
    if shared:
        place = call.place
        if not place.id:
            raise InvalidUsage("choose one with --environment")
        return VariableLevel(f"/environment/{place.id}", "ENVIRONMENT", place.path)
    service: FoundService = call.service(name)
    return VariableLevel(service.path, service.row["service_type"], service.name)


def _print_when_effective(call: EverydayCall, level: VariableLevel) -> None:
    """Prints the command that deploys the services to which the variables belong."""
    if level.path.startswith("/environment/"):
        command = shlex.join(["windlass", "environment", "deploy", level.name])
    else:
        command = call.deploy_line(level.name)
    say(f"It takes effect with the next deployment: `{plain(command)}`.")


# Declarations


def _shared_option() -> Option:
    return Option(
        ["shared", "--shared"],
        is_flag=True,
        help="Use those of the environment, for all of its services.",
        section="Where",
    )


def _list_command(variable_commands: VariableCommands, help: str) -> click.Command:
    wide = Option(["wide", "--wide"], is_flag=True, help="Show every field, ids too.")
    return _declare("list", variable_commands.show_all, help, service_argument(), wide)


def _declare(name: str, call: Callable[..., None], help: str, *params: click.Parameter) -> click.Command:
    def callback(**options: Any) -> None:
        call(**options)

    own = [] if name == "list" else [service_option()]
    built = everyday(name, *params, _shared_option(), *own)(callback)
    built.help = help
    return built


def _command_group(
    variable_commands: VariableCommands, name: str, help: str, helps: Mapping[str, str]
) -> click.Group:
    shapes = "[SERVICE] NAME[=VALUE]…" if variable_commands.is_secret else "[SERVICE] NAME=VALUE…"
    builders = {
        "list": lambda: _list_command(variable_commands, helps["list"]),
        "set": lambda: _declare(
            "set",
            variable_commands.set_all,
            helps["set"],
            click.Argument(["assignments"], nargs=-1, required=True, metavar=shapes),
        ),
        "unset": lambda: _declare(
            "unset",
            variable_commands.unset_all,
            helps["unset"],
            click.Argument(["keys"], nargs=-1, required=True, metavar="[SERVICE] NAME…"),
        ),
        "history": lambda: _declare(
            "history",
            variable_commands.show_changes,
            helps["history"],
            click.Argument(["words"], nargs=-1, metavar="[SERVICE] [NAME]"),
            Option(
                ["count", "-n", "--count"],
                type=click.IntRange(1, _MAX_HISTORY),
                default=_DEFAULT_HISTORY,
                help=f"Number of changes.  [{_DEFAULT_HISTORY}]",
            ),
        ),
        "uses": lambda: _declare(
            "uses",
            variable_commands.show_use,
            helps["uses"],
            click.Argument(["words"], nargs=-1, required=True, metavar="[SERVICE] NAME"),
        ),
        "import": lambda: _declare(
            "import",
            variable_commands.import_file,
            helps["import"],
            click.Argument(["words"], nargs=-1, required=True, metavar="[NAME] FILE"),
            Option(["dry_run", "--dry-run"], is_flag=True, help="Show the difference, and change nothing."),
            Option(["yes", "-y", "--yes"], is_flag=True, help="Replace values without asking."),
        ),
    }
    return Verbs(builders, name=name, help=help, usual="list", usual_takes_name=True)


env = _command_group(
    VariableCommands(variable, "variable", is_secret=False),
    "env",
    "Variables of the service: list, set, unset, their history and uses, or import a .env file.",
    {
        "list": "List the variables of the service, including those that it inherits.",
        "set": "Set variables. `@FILE` as a value is the text of a file, `-` standard input.",
        "unset": "Delete variables of the service.",
        "history": "Show who changed variables, when, and from what to what.",
        "uses": "Show which services use a variable, and which of them a change makes out of date.",
        "import": "Set all variables of a .env file. The difference is shown.",
    },
)
secrets = _command_group(
    VariableCommands(secret, "secret", is_secret=True),
    "secrets",
    "Secrets of the service: values that are never shown again.",
    {
        "list": "List the names of the secrets of the service, including those that it inherits.",
        "set": "Set secrets. A name without a value is asked for, or read from standard input.",
        "unset": "Delete secrets of the service.",
        "history": "Show who changed secrets, and when.",
        "uses": "Show which services use a secret, and which of them a change makes out of date.",
        "import": "Set all lines of a .env file as secrets. The difference is shown.",
    },
)
