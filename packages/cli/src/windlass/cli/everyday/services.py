"""`windlass ps`, `logs`, `open` and `console`: list services, show logs, open a service's address, and sign a
browser in to the console."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping
from shlex import quote
from typing import Any, Final
from urllib.parse import urlsplit

import click

from windlass.cli.client import Api, ApiAnswer
from windlass.cli.connection import connect
from windlass.cli.deployments import say, seen_state
from windlass.cli.everyday.call import EverydayCall, FoundService, everyday, service_argument
from windlass.cli.fields import fields_of
from windlass.cli.following import LINE_EVENT, StreamFollower, wait_for_budget
from windlass.cli.lists import show_list
from windlass.cli.overviews import SERVICES
from windlass.cli.show import show_event, show_line
from windlass.cli.time_options import PastTime
from windlass.cli.user_folders import has_display
from windlass.core.declare.traits import LogLine
from windlass.core.words.naming import kebab
from windlass.families import registry
from windlass.terminal.command_errors import CommandFailed, ended_by_user
from windlass.terminal.sections import Command, Option
from windlass.terminal.tables import FORMAT_PARAMETER, plain, print_json, wants_json


def browse(url: str) -> None:
    """Opens an address in the browser. Does nothing without a graphical display, or if the address is not a
    web page."""
    if urlsplit(url).scheme not in {"http", "https"} or not (has_display() or sys.platform == "darwin"):
        return
    try:
        webbrowser.open(url)
    except webbrowser.Error:
        say("There is no browser that could be opened.")


@click.command(
    "console",
    cls=Command,
    params=[
        Option(["only_print", "--print"], is_flag=True, help="Only print the link."),
        Option([FORMAT_PARAMETER, "--json/--text"], default=None, help="As JSON, or as text."),
    ],
)
def console(only_print: bool, as_json: bool | None) -> None:
    """Print a link that signs a browser in to the console, and open it if there is one.

    The link works once, within ten minutes. The session may do what the token of this command may, and ends
    with it.
    """
    api = connect({})
    answer = api.call("POST", "/account/signInLink").json
    _, mark, code = str(answer["url"]).partition("/console/#")
    if not mark:
        raise CommandFailed(f"update the server: {api.url} answers with a link of another form")
    link = f"{api.url}/console/#{code}"  # use the address that this command has reached
    if wants_json(as_json):
        print_json({"url": link, "expires_at": answer["expires_at"]})
        return
    click.echo(link)
    say("It signs a browser in once, within ten minutes.")
    if not only_print and sys.stdout.isatty():
        browse(link)


_DEFAULT_LINES: Final = 100
_MAX_SEARCHED_DEPLOYMENTS: Final = 20
"""Number of deployments among which the newest that is no one-off run is looked for."""
_LOCATION_FIELDS: Final = frozenset({"environment_name", "project_name"})
_WIDE_HELP: Final = "Show every field, ids too."


@everyday("ps", service_argument(), Option(["wide", "--wide"], is_flag=True, help=_WIDE_HELP))
def ps(name: str | None, wide: bool, **options: Any) -> None:
    """List the services of the environment, or the one that is named: state, address, version, instances.

    Outside of a linked folder, and without --environment: all services that the token can see.
    """
    call = EverydayCall(options)
    rows = [call.service(name).row] if name else call.rows
    if call.as_json:
        print_json({"results": rows})
    elif not rows:
        say(
            "There are no services here. Go to the folder of an application, and make one with: windlass init"
        )
    else:
        if call.place.id:
            say(f"Services of {plain(call.place.path)}:")
            rows = [_without_place(row) for row in rows]
        show_list(SERVICES, [_as_seen(row) for row in rows], wide=wide)


@everyday(
    "logs",
    service_argument(),
    Option(["follow", "-f", "--follow"], is_flag=True, help="Go on with new lines, until Ctrl-C."),
    Option(
        ["tail", "-n", "--tail"],
        type=click.IntRange(1, 10_000),
        default=_DEFAULT_LINES,
        help=f"Number of last lines.  [{_DEFAULT_LINES}]",
    ),
    Option(["since", "--since"], type=PastTime(), help="Only lines since then: 90s, 15m, 1h, 2d, or a time."),
    Option(["until", "--until"], type=PastTime(), help="Only lines before then, in the same forms."),
    Option(["search", "--search"], metavar="TEXT", help="Only lines that contain this text."),
    Option(["of_build", "--build"], is_flag=True, help="The log of the newest deployment with its build."),
    Option(["access", "--access"], is_flag=True, help="The requests to it (windlass.access_log.format)."),
)
def logs(
    name: str | None,
    follow: bool,
    tail: int,
    since: str | None,
    until: str | None,
    search: str | None,
    of_build: bool,
    access: bool,
    **options: Any,
) -> None:
    """Show the last log lines of a service, or of its newest deployment."""
    call = EverydayCall(options)
    service = call.service(name)
    path = _path_of_log(call.api, service, of_build=of_build)
    asked = {"since": since, "until": until, "search": search}
    query: dict[str, Any] = {"tail": tail} | {name: value for name, value in asked.items() if value}
    if access and of_build:
        raise CommandFailed("choose --access or --build: each is a log of its own")
    if access:
        query["access"] = "true"
    if follow:
        _follow(call, path, query)
        return
    answer = call.api.get(path, **query)
    if call.as_json:
        print_json(answer)
        return
    for line in answer["results"]:
        show_line(line)
    if not answer["results"]:
        say("There are no lines.")


@everyday(
    "open",
    service_argument(),
    Option(["only_print", "--print"], is_flag=True, help="Only print the address."),
)
def open_command(name: str | None, only_print: bool, **options: Any) -> None:
    """Print the address of a service, and open it in the browser if there is one."""
    call = EverydayCall(options)
    service = call.service(name)
    url = str(service.row.get("url") or "")
    if not url:
        raise CommandFailed(_why_no_address(service))
    if call.as_json:
        print_json({"url": url})
        return
    click.echo(plain(url))
    if not only_print and sys.stdout.isatty():
        browse(url)


def _as_seen(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "sleeping"} | {"state": seen_state(row)}


def _without_place(row: Mapping[str, Any]) -> dict[str, Any]:
    """Removes columns that are equal for all services of one environment, to leave more space for
    messages."""
    return {name: value for name, value in row.items() if name not in _LOCATION_FIELDS}


def _path_of_log(api: Api, service: FoundService, *, of_build: bool) -> str:
    if not of_build:
        return f"{service.path}/log"
    newest = api.get(f"{service.path}/deployment", page_size=_MAX_SEARCHED_DEPLOYMENTS)["results"]
    builds = [deployment for deployment in newest if not deployment.get("command")] or newest
    if not builds:
        raise CommandFailed(f"deploy {service.name} first, with `windlass deploy`: it has no deployment yet")
    return f"{service.path}/deployment/{builds[0]['id']}/log"


def _follow(call: EverydayCall, path: str, query: Mapping[str, Any]) -> None:
    call.api.enable_retries(wait_for_budget)

    def ask(headers: Mapping[str, str]) -> ApiAnswer:
        return call.api.call("GET", path, query={**query, "follow": "true"}, headers=headers)

    with ended_by_user():
        for event in StreamFollower(ask, ask({})).events():
            show_event(LogLine, event.kind == LINE_EVENT, event.data, as_json=call.as_json)


def _why_no_address(service: FoundService) -> str:
    name = plain(service.name)
    if service.row.get("state") == "STOPPED":
        return f"deploy {name} first, with `windlass deploy {quote(name)}`: it has no address before"
    family = registry().service_of_type(service.row["service_type"])
    if option := next((field.short for field in fields_of(family.spec) if field.short), None):
        edit = f"windlass {kebab(family.name)} edit {quote(name)} --{option.name} NUMBER"
        return f"give {name} a public port, with `{edit}`: it has no address"
    return f"name a service with pages for browsers: {name} is a {family.name}, and has no such address"
