"""Saves a response that is a file."""

from __future__ import annotations

from email.message import Message
from pathlib import Path
from typing import Final

import click

from windlass.cli.client import ApiAnswer
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.tables import plain

_STANDARD_OUTPUT: Final = "-"
_UNNAMED: Final = "windlass.out"


def save_file(answer: ApiAnswer, output: str | None) -> None:
    """Saves a file under a name, or else under the name that the server gives it, unless that exists."""
    if output == _STANDARD_OUTPUT:
        click.echo(answer.body, nl=False)
        return
    path = Path(output or _name_of(answer))
    try:
        with path.open("wb" if output else "xb") as file:
            file.write(answer.body)
    except FileExistsError as error:
        raise CommandFailed(f"choose another name with --output: {path} exists already") from error
    except OSError as error:
        raise CommandFailed(f"choose another name with --output: {path}: {error.strerror}") from error
    click.echo(f"Saved {plain(str(path))}.", err=True)


def _name_of(answer: ApiAnswer) -> str:
    """Returns the name that the server gives the file, without folders."""
    header = Message()
    header["content-disposition"] = answer.headers.get("content-disposition", "")
    return Path(header.get_filename() or "").name or _UNNAMED
