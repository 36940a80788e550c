"""The end of a command that cannot do what it was asked: one line that says why, and no trace."""

from __future__ import annotations

from typing import IO, Any

import click

USAGE = 2


class Stopped(click.ClickException):
    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = code

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"windlass: {self.format_message()}", file=file, err=True)
