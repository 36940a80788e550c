"""`windlass domain check` and `windlass domain certificate`: the diagnosis of a domain, or of a name before
it is added, and certificates of one's own."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import click
import msgspec

from windlass.cli.client import ApiRefused, path_of
from windlass.cli.commands import all_commands, command
from windlass.cli.connection import connect
from windlass.cli.names import NameResolver
from windlass.cli.option_files import STDIN
from windlass.cli.options import options_of
from windlass.cli.show import show
from windlass.core.declare.operations import Operation
from windlass.families import registry
from windlass.terminal.tables import FORMAT_PARAMETER, print_json, wants_json

_ABOVE_PREFIX: Final = "above_"


def _make_check() -> click.Command:
    derived = all_commands()["domain"]["check"]
    built = command(derived)
    of_added = built.callback
    assert of_added is not None

    def check(**arguments: Any) -> None:
        _check(of_added, arguments)

    built.callback = check
    built.help = f"{built.help}\n\nDOMAIN may also be a name that is no domain of the service yet."
    return built


def _check(of_added: Callable[..., None], arguments: dict[str, Any]) -> None:
    try:
        of_added(**arguments)
    except ApiRefused as refused:
        kinds = [name for name in registry().families if arguments.get(f"{_ABOVE_PREFIX}{name}") is not None]
        commands = [all_commands()[name].get("check-domain") for name in kinds if name in all_commands()]
        found = next((each for each in commands if each is not None), None)
        if refused.status != HTTPStatus.NOT_FOUND or found is None:
            raise
        _check_name(found.operation, arguments)


def _check_name(operation: Operation, arguments: dict[str, Any]) -> None:
    family = operation.own_family
    assert operation.itself is not None
    api = connect(arguments)
    above = {
        name.removeprefix(_ABOVE_PREFIX): text
        for name, text in arguments.items()
        if name.startswith(_ABOVE_PREFIX) and text is not None
    }
    service = NameResolver(api, registry(), above).id_of(family, above[family.name])
    path = path_of(operation.path, {operation.itself.param: service})
    body = msgspec.json.encode({"domain": arguments["subject_0"]})
    answer = api.call(operation.method, path, body).json
    if wants_json(arguments.get(FORMAT_PARAMETER)):
        print_json(answer)
    else:
        show(operation, answer)


check = _make_check()


def _make_upload() -> click.Command:
    derived = all_commands()["domain"]["upload-certificate"]
    built = command(derived)
    built.name = "upload"
    send = built.callback
    assert send is not None
    names = [f"field_{place}" for place in range(len(options_of(registry(), derived).fields))]

    def upload(**arguments: Any) -> None:
        send(
            **arguments | {name: _as_file_argument(arguments[name]) for name in names if arguments.get(name)}
        )

    built.callback = upload
    for param in built.params:
        if param.name in names:
            param.metavar = "FILE"
    return built


def _as_file_argument(value: str) -> str:
    """Returns a file name in the form that options take files in. Contents and the standard input stay."""
    is_content = value.startswith("@") or value == STDIN or "-----BEGIN" in value
    return value if is_content else f"@{value}"


def _make_certificate() -> click.Group:
    words = {"show": "read-certificate", "remove": "remove-certificate"}
    group = click.Group("certificate", help="Show, upload or remove the certificate of a domain.")
    for word, derived in words.items():
        built = command(all_commands()["domain"][derived])
        built.name = word
        group.add_command(built, word)
    group.add_command(_make_upload(), "upload")
    return group


certificate = _make_certificate()
