"""The command `windlass`: what an operator does on the machine itself, and everything of the API.

Commands are loaded when they are called: a server must not wait for the tables of the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from windlass import __version__
from windlass.config import wants_no_colour
from windlass.terminal.tables import FORM

_MACHINE = ("serve", "stop", "config", "doctor", "backup", "restore", "set-aside", "audit", "key", "detect")
_ELSEWHERE = {"key": "windlass.operate.key_commands", "detect": "windlass.cli.detect"}
"""Modules of commands that are not in `operate.commands`."""
_EXTRA = ("demo", "token", "api")
_WHOLE = 1000


class Windlass(click.Group):
    """The operator's commands, and those that follow from what the API offers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_MACHINE, *_EXTRA, *_load_commands().all_commands()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command: click.Command | None
        if name in _MACHINE:
            module = import_module(_ELSEWHERE.get(name, "windlass.operate.commands"))
            command = getattr(module, name.replace("-", "_"))
        elif name in _EXTRA:
            command = getattr(import_module("windlass.cli.extra"), f"{name}_command")()
        else:
            command = _load_commands().group(name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            suggestions = import_module("windlass.cli.suggestions")
            groups = dict.fromkeys((*_MACHINE, *_EXTRA), ()) | _load_commands().all_commands()
            suggestions.no_such_command(error.command_name, groups, ctx)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        through = self.list_commands(ctx)[len(_MACHINE) :]
        for title, names in (("On this machine", _MACHINE), ("Through the API of a server", through)):
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, command.get_short_help_str(_WHOLE)) for name, command in commands if command]
                )


def _show_version(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        commit = import_module("windlass.base.commit").commit()
        schema = import_module("windlass.store.migrate").newest()
        click.echo(f"windlass {__version__} (commit {commit}, schema {schema})")
        ctx.exit()


def _load_commands() -> Any:
    return import_module("windlass.cli.commands")


@click.group(cls=Windlass, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, its commit and its schema of the database, and exit.",
)
@click.option("--url", envvar="WINDLASS_URL", default="http://127.0.0.1:8080", help="Address of the server.")
@click.option("--token", envvar="WINDLASS_TOKEN", help="API token; better in WINDLASS_TOKEN than here.")
@click.option("--json/--text", FORM, default=None, help="Output as JSON, the default in pipes, or as text.")
@click.pass_context
def main(ctx: click.Context, /, **options: Any) -> None:
    """Windlass: a self-hosted control plane for infrastructure.

    `windlass serve` starts a server. Everything a server does is a command too: windlass project list
    """
    if wants_no_colour():
        ctx.color = False
