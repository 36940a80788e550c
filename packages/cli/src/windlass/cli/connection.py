"""Chooses the server that a command calls, and the token for it.

Options override environment variables, which override a linked folder and saved contexts. A token from the
environment is never sent to an address that comes from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource
from msgspec import Struct

from windlass.cli.client import TIMEOUT, Api
from windlass.cli.contexts import ContextFile, Contexts
from windlass.cli.user_folders import settings_folder
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.sections import Option
from windlass.terminal.tables import FORMAT_PARAMETER

DEFAULT_URL: Final = "http://127.0.0.1:8080"
"""The address of a server on this machine with default settings."""
_CALL_SECTION: Final = "The call"


class ServerAccess(Struct, frozen=True):
    """An address and a token; either may be empty."""

    url: str = ""
    token: str = ""


def choose_access(
    options: ServerAccess,
    environment: ServerAccess,
    contexts: Callable[[], Contexts],
    *,
    context: str = "",
    linked: str = "",
) -> ServerAccess:
    """Chooses address and token. `context`: the name passed as an option. `linked`: the address in the linked
    folder's file, which may come from a stranger."""
    if context and options.url:
        raise InvalidUsage("give --url or --context, and not both")
    if context:
        saved = contexts().named(context)
        return ServerAccess(saved.url, options.token or saved.token)
    url = options.url or environment.url
    if options.token:
        return ServerAccess(url or contexts().current_url or DEFAULT_URL, options.token)
    if environment.token:
        return ServerAccess(url or DEFAULT_URL, environment.token)
    url = url or linked or contexts().current_url or DEFAULT_URL
    return ServerAccess(url, contexts().token_for(url))


def connect(
    options: Mapping[str, Any], *, linked: str = "", default_url: str = "", seconds: float = TIMEOUT
) -> Api:
    """Returns a client for the server that is chosen by options of the command or of `windlass`, environment
    variables, the linked folder, or the current context.

    `default_url`: the address of the server on this machine. Commands for this machine call another server
    only if an option or the environment names it.
    """
    by_option, environment, context = access_candidates(options)
    if default_url and not (by_option.url or environment.url):
        environment = ServerAccess(default_url, environment.token)
    file = ContextFile(settings_folder())
    chosen = choose_access(by_option, environment, file.read, context=context, linked=linked)
    return Api(chosen.url, chosen.token, seconds=seconds)


def access_candidates(options: Mapping[str, Any]) -> tuple[ServerAccess, ServerAccess, str]:
    """Returns the servers and tokens that options and environment variables name, and the name of the given
    context."""
    root = click.get_current_context().find_root()
    by_option, by_environment = (
        ServerAccess(*(_root_value(root, name, source) for name in ("url", "token")))
        for source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    )
    own = ServerAccess(options.get("url") or by_option.url, options.get("token") or by_option.token)
    return own, by_environment, str(options.get("context") or root.params.get("context") or "")


def _root_value(root: click.Context, name: str, source: ParameterSource) -> str:
    return str(root.params.get(name) or "") if root.get_parameter_source(name) is source else ""


def call_options() -> list[click.Option]:
    return [
        Option(["url", "--url"], help="Address of the server.", section=_CALL_SECTION),
        Option(["token", "--token"], help="API token.", section=_CALL_SECTION),
        Option(
            [FORMAT_PARAMETER, "--json/--text"],
            default=None,
            help="As JSON, which is usual in pipes, or as text, which is usual on a terminal.",
            section=_CALL_SECTION,
        ),
    ]
