"""Commands that are not derived from the API: raw API calls, token commands with shorter names, and the
demo."""

from __future__ import annotations

import http.client
import sys
from typing import Any

import click

from windlass.cli.client import ApiAnswer, ResponseStream
from windlass.cli.commands import all_commands, command
from windlass.cli.connection import call_options, connect
from windlass.cli.demo import demo_command
from windlass.cli.time_options import TimeOption
from windlass.terminal.command_errors import CommandFailed, ended_by_user
from windlass.terminal.sections import Command, Option

__all__ = ["api_command", "demo_command", "token_command"]

_HTTP_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def api_command() -> click.Command:
    return Command(
        "api",
        callback=_api,
        params=[
            click.Argument(
                ["method"], type=click.Choice(_HTTP_METHODS, case_sensitive=False), metavar="METHOD"
            ),
            click.Argument(["path"]),
            Option(["data", "--data"], metavar="JSON", help="The body; - is the standard input."),
            Option(["include", "--include"], is_flag=True, help="Print the status and the headers too."),
            *call_options()[:2],
        ],
        short_help="Call any operation of the API.",
        help="""Call any operation of the API, and print the answer as it came.

        PATH is one of the server's reference at /docs, as in: windlass api GET /organization?page_size=10""",
    )


def _api(method: str, path: str, data: str | None, include: bool, **options: Any) -> None:
    body = sys.stdin.read() if data == "-" else data
    answer = connect(options).call(method, "/" + path.lstrip("/"), body.encode() if body else None)
    if include:
        _print_head(answer)
    if answer.going_on is None:
        click.echo(answer.body, nl=bool(answer.body) and not answer.body.endswith(b"\n"))
    else:
        _print_stream(answer.going_on)


def _print_stream(stream: ResponseStream) -> None:
    try:
        with ended_by_user():
            for piece in stream.pieces():
                click.echo(piece, nl=False)
    except BrokenPipeError:
        raise  # The reader of the output has closed the pipe, as `head` does.
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(
            f"repeat the command: the connection was lost: {str(error) or type(error).__name__}"
        ) from error


def _print_head(answer: ApiAnswer) -> None:
    click.echo(f"HTTP {answer.status}")
    for name, value in answer.headers.items():
        click.echo(f"{name}: {value}")
    click.echo()


def token_command() -> click.Group:
    """Returns the commands of `api-token` under shorter names: `revoke` for `delete`, and two shorter
    options."""
    words = all_commands()["api-token"]
    return click.Group(
        "token",
        help="API tokens of the organization. `windlass api-token` can say more of them.",
        commands={
            "create": _make_create(command(words["create"])),
            "list": command(words["list"]),
            "revoke": _make_revoke(command(words["delete"])),
        },
    )


def _make_create(create: click.Command) -> click.Command:
    # The option of the deprecated field `scope` is removed, because `--scope` now sets `scopes`.
    create.params = [param for param in create.params if param.opts != ["--scope"]]
    for param in create.params:
        if "--scopes" in param.opts:
            param.opts.insert(0, "--scope")
        if "--expires-at" in param.opts:
            param.opts.insert(0, "--expires")
            param.type = TimeOption()
            param.help = "In how long, such as 12h or 30d, or a time.  [never]"
    return create


def _make_revoke(delete: click.Command) -> click.Command:
    delete.name = "revoke"
    delete.short_help = "Revoke an API token, with effect at once."
    return delete
