"""`windlass console`: signs a browser in to the console, and opens it where there is a browser."""

from __future__ import annotations

import sys
import webbrowser
from urllib.parse import urlsplit

import click

from windlass.cli.connection import connect
from windlass.cli.deployments import say
from windlass.cli.user_folders import has_display
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.sections import Command, Option
from windlass.terminal.tables import FORM, print_json, wants_json


def browse(url: str) -> None:
    """Opens an address, unless it is no page, or only a browser for this terminal would show it."""
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
        raise CommandFailed(f"update the server: {api.url} answers with a link of another form")
    link = f"{api.url}/console/#{code}"  # at the address that this command has reached
    if wants_json(as_json):
        print_json({"url": link, "expires_at": answer["expires_at"]})
        return
    click.echo(link)
    say("It signs a browser in once, within ten minutes.")
    if not only_print and sys.stdout.isatty():
        browse(link)
