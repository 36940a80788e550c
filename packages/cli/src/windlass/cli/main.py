"""The command `windlass`: everyday commands, commands for the operator on the server's machine, and commands
derived from the API.

Modules are imported when a command needs them: a server does not load the command line's tables, and `--help`
does not load the API's declarations.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from windlass.base.environment import wants_no_colour
from windlass.base.version import VERSION
from windlass.terminal.tables import FORMAT_PARAMETER

if TYPE_CHECKING:
    from windlass.cli.command_table import CommandTable

_EVERYDAY_COMMANDS = {
    "init": "folder.init",
    "detect": "detect.detect",
    "up": "up.up",
    "ps": "services.ps",
    "status": "environment_deployments.status",
    "history": "environment_deployments.history",
    "logs": "services.logs",
    "open": "services.open_command",
    "console": "services.console",
    "deploy": "changes.deploy",
    "restart": "changes.restart",
    "releases": "releases.releases",
    "rollback": "changes.rollback",
    "scale": "changes.scale",
    "env": "variables.env",
    "secrets": "variables.secrets",
    "settings": "settings.settings",
    "run": "run.run",
    "exec": "terminal.exec_command",
    "shell": "terminal.shell",
    "proxy": "connect.proxy",
    "link": "folder.link",
    "unlink": "folder.unlink",
    "git-credential": "credential.git_credential",
    "login": "login.login",
    "logout": "login.logout",
    "context": "login.context",
    "completion": "completion.completion",
}
"""The everyday commands, each with its module and attribute in `cli.everyday`."""
_GROUP_COMMANDS = {
    "database": {"connect": "connect.connect", "client": "connect.client"},
    "domain": {"check": "domains.check", "certificate": "domains.certificate"},
}
"""Commands in derived groups that need more than one API call."""
_EXTRA_COMMANDS = ("demo", "token", "api")
OWN_COMMANDS = (*_EVERYDAY_COMMANDS, *_EXTRA_COMMANDS)
"""The commands of this package that are not derived from the API."""


class Windlass(click.Group):
    """The top-level group: everyday commands, the operator's commands, and commands derived from the API."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*own_names(), *_table().groups]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in OWN_COMMANDS:
            return _find_own_command(name)
        place = import_module("windlass.cli.command_table").place_of(name)
        return _load_package_command(place) if place else _derived_group(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            suggestions = import_module("windlass.cli.suggestions")
            groups = dict.fromkeys(own_names(), ()) | {
                name: lines.words for name, lines in _table().groups.items()
            }
            suggestions.no_such_command(error.command_name, groups, ctx)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        table = _table()
        derived = {name: lines.about for name, lines in table.groups.items()}
        for title, names in (
            ("Every day, in the folder of an application", _EVERYDAY_COMMANDS),
            ("On the machine of a server", table.machine),
            ("Through the API of a server", (*_EXTRA_COMMANDS, *derived)),
        ):
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name, (table.others | derived)[name]) for name in names])


def own_names() -> tuple[str, ...]:
    """Returns the names of the commands that are not derived from the API."""
    return (*_EVERYDAY_COMMANDS, *_table().machine, *_EXTRA_COMMANDS)


def _find_own_command(name: str) -> click.Command:
    if name in _EVERYDAY_COMMANDS:
        return _load_everyday_command(_EVERYDAY_COMMANDS[name])
    command: click.Command = getattr(import_module("windlass.cli.extra_commands"), f"{name}_command")()
    return command


def _load_package_command(place: str) -> click.Command:
    module, _, attribute = place.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return command


def _load_everyday_command(path: str) -> click.Command:
    place, _, attribute = path.partition(".")
    command: click.Command = getattr(import_module(f"windlass.cli.everyday.{place}"), attribute)
    return command


def _derived_group(name: str) -> click.Group | None:
    """Returns a group whose commands are built on demand, because building all of them takes 30 ms."""
    name = import_module("windlass.core.words.naming").kebab(name)
    # A name that is missing in the table is nearly always a typing error, so loading the registry is
    # acceptable.
    lines = _table().groups.get(name) or import_module("windlass.cli.commands").group_lines().get(name)
    if lines is None:
        return None
    group: click.Group = import_module("windlass.cli.suggestions").Verbs(
        {word: partial(_derived_command, name, word) for word in lines.words},
        name=name,
        help=lines.about,
        lines=lines.words,
        context_settings={"token_normalize_func": import_module("windlass.core.words.naming").kebab},
    )
    return group


def _derived_command(group: str, command_name: str) -> click.Command:
    if own := _GROUP_COMMANDS.get(group, {}).get(command_name):
        return _load_everyday_command(own)
    commands = import_module("windlass.cli.commands")
    command: click.Command = commands.command(commands.all_commands()[group][command_name])
    return command


@cache
def _table() -> CommandTable:
    table: CommandTable = import_module("windlass.cli.command_table").command_table(compute_table)
    return table


def compute_table(digest: str) -> CommandTable:
    tables = import_module("windlass.cli.command_table")
    groups = import_module("windlass.cli.commands").group_lines()
    for group, words in _GROUP_COMMANDS.items():
        groups[group].words.update(
            {word: tables.line_about(_load_everyday_command(path)) for word, path in words.items()}
        )
    machine = tables.commands_of_packages()
    others = {name: tables.line_about(_find_own_command(name)) for name in OWN_COMMANDS}
    others |= {name: tables.line_about(_load_package_command(place)) for name, place in machine.items()}
    table: CommandTable = tables.CommandTable(digest, groups, others, machine)
    return table


def _show_version(ctx: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given:
        commit = import_module("windlass.base.commit").commit()
        schema = ""
        with suppress(ModuleNotFoundError):  # the command line is installed without the server
            schema = f", schema {import_module('windlass.store.migrate').newest()}"
        click.echo(f"windlass {VERSION} (commit {commit}{schema})")
        ctx.exit()


@click.group(cls=Windlass, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, its commit and its schema of the database, and exit.",
)
@click.option("--url", envvar="WINDLASS_URL", help="Address of the server.")
@click.option("--token", envvar="WINDLASS_TOKEN", help="API token; better in WINDLASS_TOKEN than here.")
@click.option("--context", help="A server of `windlass context list`.")
@click.option(
    "--json/--text", FORMAT_PARAMETER, default=None, help="Output as JSON, the default in pipes, or as text."
)
@click.pass_context
def main(ctx: click.Context, /, **options: Any) -> None:
    """Windlass: a self-hosted control plane for infrastructure.

    `windlass serve` starts a server, `windlass login` keeps a token for one, and `windlass init` and
    `windlass up` deploy the folder that you are in. Everything a server does is a command, too.
    """
    if wants_no_colour():
        ctx.color = False
