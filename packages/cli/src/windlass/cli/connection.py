"""The server that a command calls, and the token that it sends there.

Options win over variables of the environment, and these over a linked folder and saved contexts. A token from
the environment goes to no address that a file names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource
from msgspec import Struct

from windlass.cli.client import PATIENT, Api
from windlass.cli.contexts import ContextFile, Contexts
from windlass.cli.user_folders import settings_folder
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.sections import Option
from windlass.terminal.tables import FORM

USUAL: Final = "http://127.0.0.1:8080"
"""The address of a server that runs on this machine with its default settings."""
_CALL: Final = "The call"


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
    """Chooses address and token. `context` is the name that was given as an option, `linked` the address in
    the file of the linked folder, which a stranger may have written."""
    if context and options.url:
        raise InvalidUsage("give --url or --context, and not both")
    if context:
        saved = contexts().named(context)
        return ServerAccess(saved.url, options.token or saved.token)
    url = options.url or environment.url
    if options.token:
        return ServerAccess(url or contexts().current_url or USUAL, options.token)
    if environment.token:
        return ServerAccess(url or USUAL, environment.token)
    url = url or linked or contexts().current_url or USUAL
    return ServerAccess(url, contexts().token_for(url))


def connect(
    options: Mapping[str, Any], *, linked: str = "", usual: str = "", seconds: float = PATIENT
) -> Api:
    """Returns the API with the options of the command, of `windlass` before it, or of the environment.

    `usual` is the address of the server of this machine, for commands on it: they call no other server unless
    it is named.
    """
    by_option, environment, context = access_candidates(options)
    if usual and not (by_option.url or environment.url):
        environment = ServerAccess(usual, environment.token)
    file = ContextFile(settings_folder())
    chosen = choose_access(by_option, environment, file.read, context=context, linked=linked)
    return Api(chosen.url, chosen.token, seconds=seconds)


def access_candidates(options: Mapping[str, Any]) -> tuple[ServerAccess, ServerAccess, str]:
    """Returns the server and token from options and environment, and the name of the given context."""
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
        Option(["url", "--url"], help="Address of the server.", section=_CALL),
        Option(["token", "--token"], help="API token.", section=_CALL),
        Option([FORM, "--json/--text"], default=None, help="As JSON, or as text.", section=_CALL),
    ]
