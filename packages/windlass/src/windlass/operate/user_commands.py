"""Declares the commands for people with a password. Their implementations are imported when a command
runs."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from windlass.operate.one_line_errors import one_line_errors
from windlass.operate.settings import flags, settings_from
from windlass.terminal.sections import Command
from windlass.terminal.tables import FORMAT_PARAMETER, plain, print_json, table, wants_json

_FORMAT_OPTION = click.option(
    "--json/--text", FORMAT_PARAMETER, default=None, help="JSON (the default in pipes), or text."
)


@click.group("user")
def user() -> None:
    """People who sign in with an e-mail address and a password."""


@user.command("list", cls=Command, params=flags("data_dir"))
@_FORMAT_OPTION
def list_users(as_json: bool | None, **options: Any) -> None:
    """List the people who have a password here. The server may be running or not."""
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.users import list_people  # noqa: PLC0415 (imports both drivers)

        people = asyncio.run(list_people(settings))
    if wants_json(as_json):
        print_json({"results": msgspec.to_builtins(people)})
    elif not people:
        click.echo("There are none: nobody has chosen a password yet.", err=True)
    else:
        cells = [(person.email, person.name, str(person.organizations)) for person in people]
        titles = ("EMAIL", "NAME", "ORGANIZATIONS")
        widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
        table(titles, widths, cells)


@user.command("providers", cls=Command, params=flags("data_dir"))
@_FORMAT_OPTION
def list_providers(as_json: bool | None, **options: Any) -> None:
    """List the providers with which people can sign in, and the callback address to enter at each.

    A provider is set up with the setting oidc_providers.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.control.people.provider_protocol import shown_providers  # noqa: PLC0415 (see above)

        providers = shown_providers(settings)
    if wants_json(as_json):
        print_json({"results": msgspec.to_builtins(providers)})
        return
    cells = [(shown.title, "yes" if shown.is_set_up else "no", shown.callback_url) for shown in providers]
    titles = ("PROVIDER", "SET UP", "CALLBACK ADDRESS")
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    table(titles, widths, cells)


@user.command("reset", cls=Command, params=flags("data_dir"))
@click.argument("email")
@click.option(
    "--second-factor", is_flag=True, help="The link removes the authenticator app and all passkeys, too."
)
@_FORMAT_OPTION
def reset_user(email: str, second_factor: bool, as_json: bool | None, **options: Any) -> None:
    """Print a link with which the person with the address EMAIL chooses a new password.

    For an Admin who is locked out. The link works once, within an hour, at the address of the server. The
    server may be running or not, and the settings must be those of the server. Passkeys stay: after a theft,
    remove those of others, or give --second-factor.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.users import make_reset_link  # noqa: PLC0415 (imports both drivers)

        made = asyncio.run(make_reset_link(settings, email, second_factor=second_factor))
    if wants_json(as_json):
        print_json(msgspec.to_builtins(made))
    else:
        click.echo(f"{plain(made.email)} chooses a new password with this link, once, within an hour:")
        click.echo(made.url)
