"""`windlass releases`: the versions of a service, without the commands that ran once."""

from __future__ import annotations

from typing import Any, Final

import click

from windlass.cli.deployments import say
from windlass.cli.everyday.call import EverydayCall, everyday, service_argument
from windlass.cli.lists import show_list
from windlass.families import registry
from windlass.terminal.sections import Option
from windlass.terminal.tables import plain, print_json

_DEFAULT_COUNT: Final = 20


@everyday(
    "releases",
    service_argument(),
    Option(
        ["count", "-n", "--count"],
        type=click.IntRange(1, 1000),
        default=_DEFAULT_COUNT,
        help=f"Number of deployments to look at.  [{_DEFAULT_COUNT}]",
    ),
)
def releases(name: str | None, count: int, **options: Any) -> None:
    """List the versions of a service, newest first, and say which of them serves now.

    `windlass rollback v3` goes back to one. `windlass deployment list` also lists commands that ran once.
    """
    call = EverydayCall(options)
    service = call.service(name)
    rows = call.api.get(f"{service.path}/deployment", page_size=count)["results"]
    versions = [row for row in rows if not row.get("command")]
    if call.as_json:
        print_json({"results": versions})
        return
    [listing, *_] = registry().handled_by("deployment.list")
    show_list(listing, versions)
    if serving := service.row.get("version"):
        is_stopped = service.row.get("state") == "STOPPED"
        does = "is the present version, and has no instances" if is_stopped else "serves now"
        say(f"{serving} of {plain(service.name)} {does}.")
