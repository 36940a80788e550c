"""`windlass git-credential`: gives git the token of the server that it pushes to. See gitcredentials(7)."""

from __future__ import annotations

import sys
from typing import Final
from urllib.parse import urlsplit

import click

from windlass.cli.connection import DEFAULT_URL, access_candidates
from windlass.cli.contexts import ContextFile, normal_url
from windlass.cli.push_remote import is_downgrade
from windlass.cli.user_folders import settings_folder
from windlass.terminal.sections import Command

_MAX_INPUT: Final = 64 * 1024
_GIT_USER: Final = "windlass"


@click.command(
    "git-credential",
    cls=Command,
    params=[
        click.Argument(["action"], metavar="get|store|erase"),
        click.Option(
            ["--login"],
            default="",
            metavar="URL",
            help="Give the token for the server at this address, whose address for pushes is another one.",
        ),
    ],
)
def git_credential(action: str, login: str) -> None:
    """Give git the token for a server that this user is logged in to. `windlass init` sets it up.

    Git calls this command when it pushes to an application. The token is that of `windlass login`, or of
    WINDLASS_TOKEN for the address in WINDLASS_URL. Nothing is written for other servers, and git then asks.
    """
    asked = dict(line.split("=", 1) for line in sys.stdin.read(_MAX_INPUT).splitlines() if "=" in line)
    if action != "get":
        return
    pushed = f"{asked.get('protocol', '')}://{asked.get('host', '')}"
    if token := _token_for(login if login and not is_downgrade(login, pushed) else pushed):
        click.echo(f"username={_GIT_USER}\npassword={token}")


def _token_for(server: str) -> str:
    """Returns the token that belongs to exactly this server; empty if there is none."""
    _, environment, _ = access_candidates({})
    wanted = _origin(server)
    if environment.token and _origin(environment.url or DEFAULT_URL) == wanted:
        return environment.token
    contexts = ContextFile(settings_folder()).read()
    saved = [(name, each) for name, each in contexts.contexts.items() if _origin(each.url) == wanted]
    tokens = [each.token for name, each in saved if name == contexts.current]
    return (tokens or [each.token for _, each in saved] or [""])[0]


def _origin(url: str) -> str:
    parts = urlsplit(normal_url(url))
    return f"{parts.scheme}://{parts.netloc}"
