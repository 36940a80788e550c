"""`windlass settings`: read and change single advanced settings of the linked service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import click
import msgspec

from windlass.cli.client import ApiAnswer
from windlass.cli.deployments import say
from windlass.cli.everyday.call import (
    EverydayCall,
    FoundService,
    everyday,
    service_argument,
    service_option,
)
from windlass.cli.suggestions import Verbs
from windlass.core.settings.service_settings import TABLE
from windlass.core.settings.setting import EFFECT_SENTENCES, Effect
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.sections import Option
from windlass.terminal.tables import plain, print_json

_SETTINGS_BY_NAME: Final = {row.name: row for row in TABLE}


def _show_all(name: str | None, whole: bool, **options: Any) -> None:
    call = EverydayCall(options)
    service = call.service(name)
    values = _read(call, service).json
    if call.as_json:
        print_json(values)
        return
    changed = call.api.get(service.path).get("advanced_settings") or {}
    for key, value in values.items():
        if whole or key in changed or (key in _SETTINGS_BY_NAME and _SETTINGS_BY_NAME[key].acts):
            text = msgspec.json.encode(value).decode()
            click.echo(f"{plain(key)} = {plain(text)}" + ("" if key in changed else "  (default)"))


def _set_all(assignments: Sequence[str], name: str | None, **options: Any) -> None:
    call = EverydayCall(options)
    name, assignments = call.split_service(name, assignments)
    service = call.service(name)
    before = _read(call, service)
    changes = dict(_parse_assignment(text, before.json) for text in assignments)
    _replace(call, service, before, before.json | changes, changes)


def _unset_all(keys: Sequence[str], name: str | None, **options: Any) -> None:
    call = EverydayCall(options)
    name, keys = call.split_service(name, keys)
    service = call.service(name)
    before = _read(call, service)
    for key in keys:
        _check_key(key, before.json)
    # A key that is left out gets its default.
    left = {key: value for key, value in before.json.items() if key not in keys}
    _replace(call, service, before, left, dict.fromkeys(keys))


def _read(call: EverydayCall, service: FoundService) -> ApiAnswer:
    return call.api.call("GET", f"{service.path}/advancedSettings")


def _replace(
    call: EverydayCall,
    service: FoundService,
    previous_answer: ApiAnswer,
    values: Mapping[str, Any],
    changed_fields: Mapping[str, Any],
) -> None:
    after = call.api.call(
        "PUT",
        f"{service.path}/advancedSettings",
        msgspec.json.encode(values),
        headers={"If-Match": previous_answer.headers.get("etag", "*")},
    )
    if call.as_json:
        print_json({key: after.json[key] for key in changed_fields})
        return
    for key in changed_fields:
        text = msgspec.json.encode(after.json[key]).decode()
        effect = _SETTINGS_BY_NAME[key].effect if key in _SETTINGS_BY_NAME else Effect.NONE
        click.echo(f"{plain(key)} = {plain(text)}")
        is_deployed = effect is Effect.DEPLOYMENT
        say(
            f"{EFFECT_SENTENCES[effect]}."
            + (f" Deploy it: `{plain(call.deploy_line(service.name))}`." if is_deployed else "")
        )


def _parse_assignment(text: str, values: Mapping[str, Any]) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidUsage(f"give KEY=VALUE, and not {text!r}")
    _check_key(key, values)
    if isinstance(values[key], str):
        return key, value
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


def _check_key(key: str, values: Mapping[str, Any]) -> None:
    if key not in values:
        ending = [name for name in values if name.endswith(f".{key}")]
        alike = ending or get_close_matches(key, values, 1)
        meant = f"; did you mean {alike[0]}?" if alike else ""
        raise InvalidUsage(f"choose a key of `windlass settings list`: {key!r} is none{meant}")


def _list_command() -> click.Command:
    whole = Option(["whole", "--all"], is_flag=True, help="Show the keys without effect, too.")
    return everyday(
        "list",
        service_argument(),
        whole,
    )(_show_all)


def _with_help(command: click.Command, help: str) -> click.Command:
    command.help = help
    return command


settings = Verbs(
    {
        "list": lambda: _with_help(
            _list_command(), "List the settings that act, and those that were changed."
        ),
        "set": lambda: _with_help(
            everyday(
                "set",
                click.Argument(["assignments"], nargs=-1, required=True, metavar="[SERVICE] KEY=VALUE…"),
                service_option(),
            )(_set_all),
            "Change settings; all others stay. A VALUE is JSON, or a text.",
        ),
        "unset": lambda: _with_help(
            everyday(
                "unset",
                click.Argument(["keys"], nargs=-1, required=True, metavar="[SERVICE] KEY…"),
                service_option(),
            )(_unset_all),
            "Set settings to their defaults.",
        ),
    },
    name="settings",
    help="Advanced settings of the service: list, set and unset.",
    usual="list",
    usual_takes_name=True,
)
