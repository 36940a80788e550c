"""The command `windlass`: what an operator does on the machine itself, and everything of the API.

Commands are loaded when they are called: a server must not wait for the tables of the command line.
"""

from __future__ import annotations

from importlib import import_module

import click

from windlass import __version__
from windlass.base.show import FORM

_ON_THE_MACHINE = ("serve", "config", "doctor", "backup", "restore")
_URL, _TOKEN = "WINDLASS_URL", "WINDLASS_TOKEN"  # noqa: S105 (a name)


class Commands(click.Group):
    """The operator's, and those that follow from what the API offers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_ON_THE_MACHINE, *_of_the_api().names()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _ON_THE_MACHINE:
            found: click.Command = getattr(import_module("windlass.operate.commands"), name)
            return found
        return _of_the_api().command(name)
