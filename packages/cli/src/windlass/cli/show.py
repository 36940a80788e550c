"""Prints responses of the API as text: a table for a list, fields for a resource, lines for a log."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import click
import msgspec
from msgspec import Struct

from windlass.cli.charts import show_metrics
from windlass.cli.formatting import moment, show_fields
from windlass.cli.lists import readable, show_list
from windlass.core.declare.audit_query import OrganizationEvent
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Verb
from windlass.core.declare.service_metrics import ServiceMetrics
from windlass.core.declare.traits import Deployment, LogLine
from windlass.core.words.naming import kebab
from windlass.families import registry
from windlass.families.deployment_log import EnvironmentLogLine
from windlass.families.environment import CleanedJobs, EnvironmentChanges
from windlass.families.job import CleanedRuns
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.tables import paint, plain


def show(operation: Operation, answer: Any, *, wide: bool = False) -> None:
    if show_one := _LOG_LINE_PRINTERS.get(operation.answer):
        for line in answer["results"]:
            show_one(line)
        if not answer["results"]:
            click.echo("There are no lines.", err=True)
    elif operation.answer is ServiceMetrics:
        show_metrics(answer)
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
    elif operation.answer in (CleanedRuns, CleanedJobs) and isinstance(answer, dict):
        _show_cleaned(answer)
    elif isinstance(answer, dict):
        show_fields(readable(operation, answer))
    elif operation.method == "DELETE":
        click.echo("Deleted.")


def _show_cleaned(answer: Mapping[str, Any]) -> None:
    """Prints the number of deleted runs, and the number of jobs that they belonged to."""
    runs, jobs = len(answer["clean_kubernetes_jobs"]), len(answer.get("clean_job_ids", ""))
    if not runs:
        click.echo("There was no failed run.")
        return
    of_jobs = f" of {jobs} job{'s' if jobs > 1 else ''}" if jobs else ""
    click.echo(f"Deleted {runs} failed run{'s' if runs > 1 else ''}{of_jobs}.")


def note_shown_once(operation: Operation) -> None:
    """Prints which fields of a new resource the user has to save, because they are shown only once."""
    if operation.shown_once and operation.handler.endswith(f".{Verb.CREATE}"):
        names = ", ".join(f"`{name}`" for name in sorted(operation.shown_once))
        click.echo(f"Keep {names}: it is shown this once.", err=True)


def note_next(operation: Operation, answer: Mapping[str, Any]) -> None:
    """Prints how to deploy a new service."""
    if operation.family in registry().services and operation.handler.endswith(f".{Verb.CREATE}"):
        words = f"windlass {kebab(operation.own_family.name)} deploy {shlex.quote(answer['name'])} --wait"
        click.echo(f"Deploy it with: {words}", err=True)


def show_event(answer: type[Struct] | None, is_complete: bool, data: str, *, as_json: bool) -> None:
    """Prints an event of a stream. `is_complete`: whether the event contains an `answer`; otherwise it is a
    message of the server about missing events."""
    if is_complete and as_json:
        click.echo(data)
        return
    try:
        event = json.loads(data)
        if not is_complete:
            click.echo(plain(event["message"]), err=True)
        elif show := _line_printer(answer):
            show(event)
        else:
            click.echo(plain(data))
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(
            "check the address (--url or WINDLASS_URL): another program than Windlass answers there"
        ) from error


def show_line(line: Any) -> None:
    """Prints a log line: time, instance, text."""
    at, who = click.style(moment(line["created_at"]), dim=True), plain(line.get("pod_name") or "")
    click.echo(f"{at}  {click.style(who, fg='cyan')}  {plain(line['message'])}")


def _show_deployment_line(line: Any) -> None:
    """Prints a line of a deployment's log: time, service, text."""
    show_line({**line, "pod_name": line["scope"]["name"]})


_LOG_LINE_PRINTERS: Final[Mapping[type[Struct] | None, Callable[[Any], None]]] = {
    LogLine: show_line,
    EnvironmentLogLine: _show_deployment_line,
}
"""The function that prints a log line, by the type of the line."""


def _show_audit_event(entry: Any) -> None:
    """Prints an audit event: time, person, action, resource."""
    where = "/".join(name for name in (entry.get("project_name"), entry.get("environment_name")) if name)
    what = (
        f"{entry['event_type']} {entry.get('sub_target_type') or entry['target_type']} {entry['target_name']}"
    )
    at, who = (
        click.style(moment(entry["timestamp"]), dim=True),
        click.style(plain(entry["triggered_by"]), fg="cyan"),
    )
    click.echo(f"{at}  {who}  {plain(what)}" + (f"  ({plain(where)})" if where else ""))


def _show_statuses(changes: Any) -> None:
    """Prints the state of the environment, and the state of each service in the event."""
    _show_status("environment", changes["environment"])
    for name, statuses in changes.items():
        if isinstance(statuses, list) and name != "removed":
            for status in statuses:
                _show_status(name.removesuffix("s"), status)
    for id in changes.get("removed", []):
        click.echo(f"{plain(id)}  removed")


def _show_status(kind: str, status: Any) -> None:
    what, how = click.style(plain(kind), dim=True), paint(status["state"])
    message = f"  {plain(status['message'])}" if status.get("message") else ""
    click.echo(f"{what} {plain(status['id'])}  {how}{message}")


_LINE_PRINTERS: Final[Mapping[type[Struct], Callable[[Any], None]]] = {
    LogLine: show_line,
    OrganizationEvent: _show_audit_event,
    EnvironmentChanges: _show_statuses,
}
"""The function that prints an event of a stream, by the type of its data."""


def _line_printer(answer: type[Struct] | None) -> Callable[[Any], None] | None:
    return next(
        (show for shape, show in _LINE_PRINTERS.items() if answer and issubclass(answer, shape)), None
    )


def _show_begun(deployment: dict[str, Any]) -> None:
    """Prints which deployment was started, and how to follow it."""
    what = f"{plain(deployment['action'])} v{deployment['number']}"
    click.echo(f"{what}: {paint(deployment['status'])}. With --wait, the command follows it to its end")


def _list_in(operation: Operation) -> tuple[str, type[Struct]] | None:
    """Returns the name and item type of the response's only list of structs. None for a resource with an id,
    or if there are several lists."""
    if operation.answer is None or operation.method != "GET":
        return None
    fields = msgspec.structs.fields(operation.answer)
    lists = [(field.encode_name, kind) for field in fields if (kind := _item_type(field.type))]
    is_thing = any(field.encode_name == "id" for field in fields)
    return lists[0] if len(lists) == 1 and not is_thing else None


def _item_type(annotation: Any) -> type[Struct] | None:
    match msgspec.inspect.type_info(annotation):
        case msgspec.inspect.ListType(item_type=msgspec.inspect.StructType(cls=kind)):
            return kind
        case _:
            return None


def _show_next(links: dict[str, str]) -> None:
    """Prints the options for the next and previous page, from the tokens in the links."""
    for name, age in (("next", "older"), ("previous", "newer")):
        query = dict(parse_qsl(urlsplit(links.get(name) or "").query))
        for word in ("continueToken", "stepBackToken"):
            if word in query:
                click.echo(f"The {age} ones: --{kebab(word)} {query[word]}", err=True)


def _show_page(position: dict[str, int] | None) -> None:
    if position is not None:
        text = f"Page {position['page']} of {position['total_pages']}, {position['total_count']} in all."
        click.echo(text, err=True)
