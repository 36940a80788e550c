"""Declares the commands for sealing keys. Their implementations are imported when a command runs."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from windlass.operate.one_line_errors import one_line_errors
from windlass.operate.settings import flags, settings_from
from windlass.terminal.sections import Command
from windlass.terminal.tables import FORMAT_PARAMETER, pairs, print_json, wants_json


@click.group("key")
def key() -> None:
    """The keys that seal secrets in the database."""


@key.command("list", cls=Command, params=flags("data_dir"))
@click.option("--json/--text", FORMAT_PARAMETER, default=None, help="JSON (the default in pipes), or text.")
def list_keys(as_json: bool | None, **options: Any) -> None:
    """Show all keys: their ids, since when they seal, and how many values each has sealed.

    The id of a key reveals nothing about the key.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.keys import describe_keys  # noqa: PLC0415 (imports both drivers)

        keys = asyncio.run(describe_keys(settings))
    if wants_json(as_json):
        print_json(msgspec.to_builtins(keys))
        return
    for listed_key in keys:
        retired = f"retired at {listed_key.retired_at}" if listed_key.retired_at else "being replaced"
        pairs(
            (
                (listed_key.id, "seals" if listed_key.is_present else retired, ""),
                ("  since", listed_key.since or "the first start", ""),
                ("  values", str(listed_key.values), ""),
                ("  here", "yes" if listed_key.is_here else "no", ""),
            )
        )


@key.command("rotate", cls=Command, params=flags("data_dir"))
@click.option("--keep", is_flag=True, help="Keep the former key in the file, after the new one.")
def rotate_key(keep: bool, **options: Any) -> None:
    """Replace the key, and seal all secrets with the new one.

    Servers may keep running. The command may be interrupted at any moment: repeat it, and it continues. The
    former key is removed from the file `key` as soon as nothing is sealed with it any more.

    Backups that were made before need the former key: copy the file `key` to a safe place before, or use
    --keep.
    """
    with one_line_errors():
        settings, _ = settings_from(options)
        from windlass.operate.keys import rotate  # noqa: PLC0415 (imports both drivers)

        asyncio.run(rotate(settings, lambda text: click.echo(text, err=True), keep_old_key=keep))


@key.command("new", cls=Command)
def new_key() -> None:
    """Print a new key, for WINDLASS_KEY. It is stored nowhere."""
    from windlass.operate.keys import make_key  # noqa: PLC0415 (imports both drivers)

    click.echo(make_key())
