"""`windlass console`: signs a browser in to the console."""

from __future__ import annotations

import sys

import click

from windlass.cli.browsing import browse
from windlass.cli.connection import connect
from windlass.cli.deployments import say
from windlass.terminal.sections import Command, Option
from windlass.terminal.stopped import Stopped
from windlass.terminal.tables import FORM, print_json, wants_json


@click.command(
    "console",
    cls=Command,
    params=[
        Option(["only_print", "--print"], is_flag=True, help="Only print the link."),
        Option([FORM, "--json/--text"], default=None, help="As JSON, or as text."),
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
        raise Stopped(f"update the server: {api.url} answers with a link of another form")
    link = f"{api.url}/console/#{code}"  # at the address that this command has reached
    if wants_json(as_json):
        print_json({"url": link, "expires_at": answer["expires_at"]})
        return
    click.echo(link)
    say("It signs a browser in once, within ten minutes.")
    if not only_print and sys.stdout.isatty():
        browse(link)
