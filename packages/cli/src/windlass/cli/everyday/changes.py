"""`windlass deploy`, `restart`, `scale` and `rollback`: each starts a deployment and shows it to its end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from windlass.cli.deployments import say
from windlass.cli.everyday.call import (
    EverydayCall,
    FoundService,
    everyday,
    service_argument,
    service_option,
)
from windlass.cli.everyday.names import complete_services
from windlass.cli.outcomes import follow_to_its_end, start
from windlass.cli.rollback_differences import show_difference
from windlass.core.declare.rollbacks import PRESENT
from windlass.families import registry
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.sections import Option
from windlass.terminal.tables import plain, print_json

_COUNT_PATTERN: Final = re.compile(r"(?P<least>[0-9]{1,5})(?:-(?P<most>[0-9]{1,5}))?")
_VERSION_PATTERN: Final = re.compile(r"v?(?P<number>[1-9][0-9]{0,8})")


def detach_option() -> Option:
    return Option(
        ["detach", "-d", "--detach"], is_flag=True, help="Do not wait for the end of the deployment."
    )


@everyday(
    "deploy",
    service_argument(),
    Option(["commit", "--commit"], metavar="ID", help="A commit of the repository.  [the newest]"),
    detach_option(),
)
def deploy(name: str | None, commit: str | None, detach: bool, **options: Any) -> None:
    """Deploy the newest version of a service, and show its build log.

    The server fetches it from its repository; `windlass up` deploys the files of this folder.
    """
    call = EverydayCall(options)
    body = {"git_commit_id": commit} if commit else None
    change(call, call.service(name), "deploy", body, detach=detach, command=call.command_line("deploy", name))


@everyday("restart", service_argument(), detach_option())
def restart(name: str | None, detach: bool, **options: Any) -> None:
    """Replace the instances of a service by new ones of the same version. Nothing is built.

    They start with the settings and variables of their deployment; `windlass deploy` takes changed ones.
    """
    call = EverydayCall(options)
    change(call, call.service(name), "restart-service", None, detach=detach)


@everyday(
    "rollback",
    click.Argument(["words"], nargs=-1, metavar="[NAME] [VERSION]", shell_complete=complete_services),
    service_option(),
    Option(["show", "--show"], is_flag=True, help="Show what would change, and change nothing."),
    Option(
        ["keep_settings", "--keep-settings"],
        is_flag=True,
        help="Keep the present settings, variables and secrets.",
    ),
    detach_option(),
)
def rollback(
    words: Sequence[str], name: str | None, show: bool, keep_settings: bool, detach: bool, **options: Any
) -> None:
    """Go back to an earlier version, such as v1, or to the release before, with its settings and variables.

    Nothing is built. `windlass releases` lists the versions.
    """
    call = EverydayCall(options)
    versions = [match for word in words if (match := _VERSION_PATTERN.fullmatch(word))]
    names = [word for word in words if not _VERSION_PATTERN.fullmatch(word)]
    if len(versions) > 1 or len(names) > 1 or (names and name and names[0] != name):
        raise InvalidUsage(
            "give one service and one version such as v3: `windlass releases` lists the versions"
        )
    body = {"deployment_id": f"v{versions[0]['number']}"} if versions else {}
    service = call.service(name or next(iter(names), None))
    if show:
        show_difference(call.api.get(f"{service.path}/rollbackDifference", **body), as_json=call.as_json)
        return
    settings = {"settings": PRESENT} if keep_settings else {}
    change(call, service, "rollback", body | settings, detach=detach)


@everyday(
    "scale",
    click.Argument(
        ["counts"], nargs=-1, required=True, metavar="COUNT|NAME=COUNT…", shell_complete=complete_services
    ),
    service_option(),
    detach_option(),
)
def scale(counts: Sequence[str], name: str | None, detach: bool, **options: Any) -> None:
    """Set the number of instances: `2`, `web=2 worker=1`, or `2-5` for as many as the load needs.

    The version that runs is deployed again; nothing is built. `0` stops all instances and keeps the address.
    """
    call = EverydayCall(options)
    if len(counts) == 2 and "=" not in counts[0] and not _COUNT_PATTERN.fullmatch(counts[0]):  # scale web 2
        counts = [f"{counts[0]}={counts[1]}"]
    changes = [_scale_fields(text) for text in counts]
    if name:
        if any(other for other, _ in changes):
            raise InvalidUsage("name the services with NAME=NUMBER or with --application, and not both")
        changes = [(name, fields) for _, fields in changes]
    if len(changes) > 1 and any(not name for name, _ in changes):
        raise InvalidUsage("give one number, or NAME=NUMBER for each service")
    services = [(call.service(name), fields) for name, fields in changes]
    for service, fields in services:
        _scale(call, service, fields, detach=detach)


def change(
    call: EverydayCall,
    service: FoundService,
    action: str,
    body: dict[str, Any] | None,
    *,
    detach: bool,
    command: str = "",
) -> None:
    """Starts an action on a service and shows its deployment until the end. `command`: the command line that
    is suggested after a failure."""
    family = registry().service_of_type(service.row["service_type"])
    begun = start(call.api, service.path, service.name, action, body, command)
    follow_to_its_end(call.api, begun, family, as_json=call.as_json, detach=detach)
    if begun and call.as_json and not call.is_output_format_chosen:
        say("The result is JSON, because the output is no terminal. With --text, it is one line.")


def _scale(call: EverydayCall, service: FoundService, fields: dict[str, int], *, detach: bool) -> None:
    answer = call.api.call("PATCH", service.path, msgspec.json.encode(fields)).json
    if service.row.get("version"):
        change(call, service, "redeploy", None, detach=detach)
    elif call.as_json:
        print_json(answer)
    else:
        command = plain(call.command_line("deploy", service.name))
        say(f"Deploy it with `{command}`: {plain(service.name)} gets {_count_of(fields)} then.")


def _count_of(fields: dict[str, int]) -> str:
    least, most = fields["min_running_instances"], fields["max_running_instances"]
    count = f"{most}" if least == most else f"{least} to {most}"
    return f"{count} instance{'s' if most != 1 else ''}"


def _scale_fields(text: str) -> tuple[str, dict[str, int]]:
    """Parses `web=2`. Returns the name of the service, which may be empty, and the fields to change."""
    name, _, number = text.rpartition("=")
    match = _COUNT_PATTERN.fullmatch(number)
    if match is None or (text.startswith("=")):
        raise InvalidUsage(f"give a number of instances such as 2, web=2 or 2-5, and not {text!r}")
    least = int(match["least"])
    most = int(match["most"] or least)
    if most < least:
        raise InvalidUsage(f"give the smaller number first, and not {number}")
    return name, {"min_running_instances": least, "max_running_instances": most}
