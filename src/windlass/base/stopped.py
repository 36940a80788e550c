"""The end of a command that cannot do what it was asked: one line that says why, and no trace."""

from __future__ import annotations

from typing import IO, Any

import click

from windlass.base.show import plain


class Stopped(click.ClickException):
    """It did not work out."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"windlass: {plain(self.format_message())}", file=file, err=True)


class Misused(Stopped):
    """What was asked makes no sense."""

    exit_code = 2
