"""Errors that end a command: one line with the reason and the remedy, and no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from windlass.terminal.tables import plain


class CommandRefused(Exception):
    """A command has refused to run and changed nothing. The message contains the reason and the remedy."""


INTERRUPTED_EXIT_CODE: Final = 130
"""The exit code of a command that was ended with Ctrl-C, as in shells."""


class CommandFailed(click.ClickException):
    """The command failed."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"windlass: {plain(self.format_message())}", file=file, err=True)


class InvalidUsage(CommandFailed):
    """The command was called with wrong arguments."""

    exit_code = 2


def in_sentence(message: str) -> str:
    """Returns a message with a lowercase first letter, to follow the prefix `windlass: `."""
    return message[:1].lower() + message[1:]


@contextmanager
def ended_by_user(remark: str = "") -> Iterator[None]:
    """Ends the command quietly on Ctrl-C. For commands that run until the user stops them."""
    try:
        yield
    except KeyboardInterrupt:
        if remark:
            click.echo(remark, err=True)
        click.get_current_context().exit(INTERRUPTED_EXIT_CODE)
