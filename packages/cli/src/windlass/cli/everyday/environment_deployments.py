"""`windlass status` and `history`: an environment by deployment stage, and its deployments as wholes."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import click

from windlass.cli.deployments import say, seen_state
from windlass.cli.everyday.call import EverydayCall, everyday
from windlass.cli.formatting import ago
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.sections import Option
from windlass.terminal.tables import COLUMN_GAP, paint, plain, print_json, table, wrap_indented

_DEFAULT_COUNT: Final = 20
_MAX_COUNT: Final = 100
_SHORT_ID: Final = 8
_DURATION_PATTERN: Final = re.compile(r"PT([0-9]+)S")
_OPEN_STATES: Final = frozenset({"QUEUED", "ONGOING", "CANCELING"})


@everyday("status")
def status(**options: Any) -> None:
    """Show the services of an environment by deployment stage, and its last deployment."""
    call = EverydayCall(options)
    path = _path(call)
    statuses = call.api.get(f"{path}/statusesWithStages")
    if call.as_json:
        print_json(statuses)
        return
    names = {row["id"]: str(row["name"]) for row in call.rows}
    click.echo(f"{plain(call.place.path)}: {paint(statuses['environment']['state'])}")
    for stage in statuses["stages"]:
        services = [one for listed in stage.values() if isinstance(listed, list) for one in listed]
        _show_stage(stage["stage"], (stage["stage"].get("steps") or {}).get("total_duration_sec"))
        rows = [(names.get(one["id"], one["id"]), seen_state(one), one["message"]) for one in services]
        _show_services(sorted(rows))
    history = call.api.get(f"{path}/deploymentHistoryV2", pageSize=1)["results"]
    if history:
        click.echo()
        _show_headline("Last deployment: ", history[0])


@everyday(
    "history",
    click.Argument(["id"], required=False, metavar="[ID]"),
    Option(
        ["count", "-n", "--count"],
        type=click.IntRange(1, _MAX_COUNT),
        default=_DEFAULT_COUNT,
        help=f"Number of deployments.  [{_DEFAULT_COUNT}]",
    ),
)
def history(id: str | None, count: int, **options: Any) -> None:
    """List the deployments of an environment, newest first, or show one by stage.

    ID is one of the list, or its beginning. What one request has started is one deployment.
    """
    call = EverydayCall(options)
    entries = call.api.get(f"{_path(call)}/deploymentHistoryV2", pageSize=_MAX_COUNT if id else count)
    found = [entry for entry in entries["results"] if not id or _id(entry).startswith(id)]
    if id and len(found) != 1:
        what = "several deployments begin" if found else f"none of the last {_MAX_COUNT} deployments begins"
        raise InvalidUsage(f"give an id of `windlass history`: {what} with {id!r}")
    if call.as_json:
        print_json(found[0] if id else {"results": found})
    elif id:
        _show_deployment(found[0])
    elif found:
        _show_list(found)
    else:
        say("There is no deployment yet. Deploy all services with: windlass environment deploy")


def _path(call: EverydayCall) -> str:
    if not call.place.id:
        raise InvalidUsage("choose an environment with --environment, or go to a linked folder")
    return f"/environment/{call.place.id}"


def _id(entry: Mapping[str, Any]) -> str:
    return str(entry["identifier"]["execution_id"])


def _show_list(entries: list[Any]) -> None:
    titles = ("STATUS", "ACTION", "STAGES", "SERVICES", "BY", "CREATED", "TOOK", "ID")
    rows = [
        (
            entry["action_status"],
            entry["trigger_action"],
            _stages_done(entry),
            str(sum(len(stage["services"]) for stage in entry["stages"])),
            entry["auditing_data"]["triggered_by"],
            _ago(entry["auditing_data"]["created_at"]),
            _seconds(entry["total_duration"]),
            _id(entry)[:_SHORT_ID],
        )
        for entry in entries
    ]
    widths = [max(len(plain(text)) for text in column) for column in zip(titles, *rows, strict=True)]
    table(titles, widths, rows, states={0})


def _stages_done(entry: Mapping[str, Any]) -> str:
    done = sum(stage["status"] == "DONE" for stage in entry["stages"])
    return f"{done}/{len(entry['stages'])}"


def _show_deployment(entry: Mapping[str, Any]) -> None:
    _show_headline("", entry)
    for stage in entry["stages"]:
        _show_stage(stage, int(_seconds(stage["duration"]).partition(" ")[0]))
        _show_services(
            [
                (service["identifier"]["name"], _state_of(service), service["message"])
                for service in stage["services"]
            ]
        )
    if entry["action_status"] in _OPEN_STATES:
        say(f"Cancel what is left of it: windlass deployment-queue cancel {_id(entry)}")


def _state_of(service: Mapping[str, Any]) -> str:
    is_skipped = service["stage_status"] == "SKIPPED"
    return str(service["stage_status"] if is_skipped else service["status"])


def _show_headline(previous_deployment: str, entry: Mapping[str, Any]) -> None:
    by, status = entry["auditing_data"], entry["action_status"]
    facts = f"{entry['trigger_action']} by {plain(by['triggered_by'])} {_ago(by['created_at'])}"
    click.echo(
        f"{previous_deployment}{paint(status)}, {facts}, {_seconds(entry['total_duration'])}, {_id(entry)}"
    )


def _show_stage(stage: Mapping[str, Any], seconds: int | None) -> None:
    took = f" ({seconds} s)" if seconds is not None and stage["status"] not in {"QUEUED", "SKIPPED"} else ""
    name = click.style(plain(f"{stage['deployment_order']}. {stage['name']}"), bold=True)
    click.echo(f"\n{name}: {paint(stage['status'])}{took}")


def _show_services(rows: list[tuple[str, str, str]]) -> None:
    """Prints services with their states, and the first line of each message below."""
    wide = max((len(plain(name)) for name, _, _ in rows), default=0) + COLUMN_GAP
    for name, state, message in rows:
        click.echo(f"   {plain(name):{wide}}{paint(state)}")
        if message:
            click.echo(click.style(wrap_indented("     " + message.partition("\n")[0], 5), dim=True))


def _ago(text: str) -> str:
    return ago(datetime.fromisoformat(text), time.time())


def _seconds(duration: str) -> str:
    match = _DURATION_PATTERN.fullmatch(duration)
    return f"{match[1]} s" if match else duration
