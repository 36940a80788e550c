"""The end of a command that cannot do what it was asked: one line that says why, and no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from windlass.terminal.tables import plain

INTERRUPTED: Final = 130
"""How a program ends that somebody has ended with Ctrl-C, as shells say it."""


class Stopped(click.ClickException):
    """It did not work out."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"windlass: {plain(self.format_message())}", file=file, err=True)


class Misused(Stopped):
    """What was asked makes no sense."""

    exit_code = 2


@contextmanager
def ended_by_hand(remark: str = "") -> Iterator[None]:
    """What goes on for as long as somebody watches: Ctrl-C is its usual end, and no failure."""
    try:
        yield
    except KeyboardInterrupt:
        if remark:
            click.echo(remark, err=True)
        click.get_current_context().exit(INTERRUPTED)
