"""`windlass login`, `logout` and `context`: servers and their saved tokens."""

from __future__ import annotations

import sys
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import click

from windlass.cli.client import Api, ApiRefused, is_this_machine
from windlass.cli.connection import DEFAULT_URL, ServerAccess, access_candidates
from windlass.cli.contexts import ContextFile, Contexts, SavedContext, normal_url
from windlass.cli.deployments import say
from windlass.cli.suggestions import Verbs
from windlass.cli.user_folders import settings_folder
from windlass.terminal.command_errors import CommandFailed, InvalidUsage
from windlass.terminal.sections import Command, Option
from windlass.terminal.tables import FORMAT_PARAMETER, plain, print_json, table, wants_json

_MAX_TOKEN_LENGTH: Final = 16_384
"""Maximum characters of a token. Tokens of an OpenID Connect issuer can have several thousand."""
_FORMAT_OPTION: Final = partial(
    Option, [FORMAT_PARAMETER, "--json/--text"], default=None, help="As JSON, or as text."
)


@click.command(
    "login",
    cls=Command,
    params=[
        click.Argument(["url"], required=False, metavar="[URL]"),
        Option(["token_stdin", "--token-stdin"], is_flag=True, help="Read the token from standard input."),
        Option(["name", "--name"], metavar="NAME", help="Name of the context.  [the host of the URL]"),
        _FORMAT_OPTION(),
    ],
)
def login(url: str | None, token_stdin: bool, name: str | None, as_json: bool | None) -> None:
    """Log in to the server at URL: try a token, and keep it for this user.

    Without URL: the server in WINDLASS_URL with the token in WINDLASS_TOKEN, or that of the current context.
    Otherwise asks for an API token, without showing it. The token is kept in a file that only this user can
    read, and is sent to this address only. The server becomes the current context.
    """
    by_option, environment, _ = access_candidates({})
    token = "" if token_stdin or url else by_option.token or environment.token
    file = ContextFile(settings_folder())
    before = file.read()
    address = normal_url(_with_scheme(url) if url else _present_context(by_option, environment, before))
    _warn_of_plain_http(address)
    token = token or _read_token(token_stdin, address)
    organization = _try_token(address, token)
    name = name or _context_name_of(address)
    with file.changing() as contexts:
        _refuse_another_server(contexts, name, address)
        contexts.save(name, SavedContext(address, token))
    if wants_json(as_json):
        print_json({"context": name, "url": address, "organization": organization})
    else:
        click.echo(f"Logged in to {address}, organization {plain(organization)} (context {plain(name)})")
    _note_environment(environment, address)


@click.command(
    "logout",
    cls=Command,
    params=[click.Argument(["name"], required=False, metavar="[CONTEXT]"), _FORMAT_OPTION()],
)
def logout(name: str | None, as_json: bool | None) -> None:
    """Forget the token of a context, or of the current one.

    The token stays valid on its server: `windlass token revoke NAME` ends it.
    """
    with ContextFile(settings_folder()).changing() as contexts:
        name = name or contexts.current
        if not name:
            raise InvalidUsage("name a context: none is the current one")
        url = contexts.named(name).url
        contexts.remove(name)
    if wants_json(as_json):
        print_json({"context": name, "url": url})
    else:
        click.echo(f"Logged out of {url} (context {plain(name)}). The token itself stays valid")


@click.command("list", cls=Command, params=[_FORMAT_OPTION()])
def list_contexts(as_json: bool | None) -> None:
    """List the servers that you are logged in to."""
    saved = ContextFile(settings_folder()).read()
    rows = [(name, context.url, name == saved.current) for name, context in sorted(saved.contexts.items())]
    if wants_json(as_json):
        print_json({"results": [{"name": name, "url": url, "current": now} for name, url, now in rows]})
    elif not rows:
        say("There are none: `windlass login URL` makes one.")
    else:
        cells = [(name, url, "yes" if now else "") for name, url, now in rows]
        titles = ("NAME", "URL", "CURRENT")
        table(titles, [max(map(len, column)) for column in zip(titles, *cells, strict=True)], cells)


@click.command("use", cls=Command, params=[click.Argument(["name"], metavar="CONTEXT")])
def use_context(name: str) -> None:
    """Make a context the current one."""
    with ContextFile(settings_folder()).changing() as contexts:
        url = contexts.named(name).url
        contexts.current = name
    say(f"Commands go to {url} now.")
    _note_environment(access_candidates({})[1], url)


@click.command("remove", cls=Command, params=[click.Argument(["name"], metavar="CONTEXT")])
def remove_context(name: str) -> None:
    """Forget a context and its token."""
    with ContextFile(settings_folder()).changing() as contexts:
        contexts.remove(name)
    say(f"Removed the context {plain(name)}. The token itself stays valid.")


context = Verbs(
    {"list": lambda: list_contexts, "use": lambda: use_context, "remove": lambda: remove_context},
    name="context",
    help="List the servers that you are logged in to, and choose one.",
    usual="list",
)


def _with_scheme(url: str) -> str:
    """Adds the default scheme to an address without a scheme: http for this machine, https for other
    hosts."""
    if "://" in url:
        return url
    try:
        host = urlsplit(f"//{url}").hostname or ""
    except ValueError:
        host = ""
    return f"{'http' if is_this_machine(host) else 'https'}://{url}"


def _present_context(by_option: ServerAccess, environment: ServerAccess, contexts: Contexts) -> str:
    return by_option.url or environment.url or contexts.current_url or DEFAULT_URL


def _warn_of_plain_http(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        say(f"Use https if {parts.hostname} has it: over http, others on the way can read the token.")


def _read_token(from_stdin: bool, address: str) -> str:
    if from_stdin:
        token = sys.stdin.read(_MAX_TOKEN_LENGTH + 1).strip()
    elif sys.stdin.isatty():
        say(
            f"Paste an API token of {address}. The first start of a server prints one; "
            "`windlass token create` makes more."
        )
        token = str(click.prompt("Token", hide_input=True, err=True)).strip()
    else:
        raise InvalidUsage("give the token on standard input, with --token-stdin: this is no terminal")
    if (
        not token
        or len(token) > _MAX_TOKEN_LENGTH
        or not token.isprintable()
        or not token.isascii()
        or " " in token
    ):
        raise InvalidUsage("give one token, as `windlass token create` shows it")
    return token


def _try_token(address: str, token: str) -> str:
    """Returns the name of the token's organization. Raises CommandFailed if the server rejects the token."""
    try:
        answer = Api(address, token).get("/organization")
    except ApiRefused as refused:
        if refused.status != 401:
            raise
        raise CommandFailed(
            f"check the token, or make another one: {address} refuses it. Nothing was saved"
        ) from refused
    try:
        return str(answer["name"])
    except (KeyError, TypeError) as error:
        raise CommandFailed(f"check the address: {address} answers, but not as Windlass does") from error


def _context_name_of(address: str) -> str:
    return urlsplit(address).netloc


def _refuse_another_server(contexts: Contexts, name: str, address: str) -> None:
    other = contexts.contexts.get(name)
    if other is not None and other.url != address:
        raise InvalidUsage(f"choose another name with --name: {name!r} is {other.url}")


def _note_environment(environment: ServerAccess, address: str) -> None:
    """Warns if environment variables override the saved context."""
    names = [
        variable
        for variable, value in (("WINDLASS_URL", environment.url), ("WINDLASS_TOKEN", environment.token))
        if value and not (variable == "WINDLASS_URL" and value.rstrip("/") == address)
    ]
    if names:
        say(f"Run `unset {' '.join(names)}` to use it in this terminal: variables win over it.")
