"""Names of services and environments for shell completion, cached for half a minute."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec import Struct

from windlass.base.atomic_files import write_whole
from windlass.base.private import private_folder
from windlass.cli.client import Api
from windlass.cli.connection import connect
from windlass.cli.linked_folder import current_folder, find_linked_folder
from windlass.cli.user_folders import cache_folder
from windlass.terminal.command_errors import CommandFailed

_FRESH_SECONDS: Final = 30.0
"""Seconds for which names are cached, because completion runs at each key press."""
_TIMEOUT: Final = 2.0
"""The timeout of a request for completion in seconds."""


class KnownNames(Struct, frozen=True):
    """The services of a server that are visible to one token."""

    services: list[tuple[str, str, str, str]]
    """The project, environment, name and type of each service."""


def complete_services(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Returns service names that begin with the typed text. In a linked folder, only services of its
    environment are offered."""
    linked = _linked_place()
    items = []
    for project, environment, name, kind in _service_names(ctx):
        if linked is None or "/" in typed:
            items.append((f"{project}/{environment}/{name}", kind.lower()))
        elif (project, environment) == linked:
            items.append((name, kind.lower()))
    return _completion_items(items, typed)


def complete_paths(
    ctx: click.Context, param: click.Parameter, typed: str, kind: str = ""
) -> list[CompletionItem]:
    """Returns the paths of all services of this type, for commands that do not use the linked folder."""
    rows = [row for row in _service_names(ctx) if row[3] == kind]
    return _completion_items((("/".join(row[:3]), kind.lower()) for row in rows), typed)


def complete_environments(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    paths = {f"{project}/{environment}" for project, environment, _, _ in _service_names(ctx)}
    return _completion_items(((path, "environment") for path in sorted(paths)), typed)


def _completion_items(items: Iterable[tuple[str, str]], typed: str) -> list[CompletionItem]:
    return [
        CompletionItem(text, help=about)
        for text, about in items
        if text.startswith(typed) and text.isprintable()  # shells read one name per line
    ]


def _linked_place() -> tuple[str, str] | None:
    try:
        folder = find_linked_folder(current_folder())
    except (CommandFailed, OSError):
        return None
    return (folder.link.project, folder.link.environment) if folder else None


def _service_names(ctx: click.Context) -> list[tuple[str, str, str, str]]:
    """Returns the services on the server. Returns none after an error, because completion cannot show
    messages."""
    with ctx, suppress(CommandFailed, OSError, msgspec.MsgspecError, KeyError, TypeError):
        folder = find_linked_folder(current_folder())
        api = connect(ctx.params, linked=folder.link.url if folder else "", seconds=_TIMEOUT)
        kept = cache_folder() / f"names-{api.digest[:24]}.json"
        return (_read_cache(kept) or _fetch_names(api, kept)).services
    return []


def _read_cache(file: Path) -> KnownNames | None:
    with suppress(FileNotFoundError):
        if abs(time.time() - file.stat().st_mtime) < _FRESH_SECONDS:
            return msgspec.json.decode(file.read_bytes(), type=KnownNames)
    return None


def _fetch_names(api: Api, file: Path) -> KnownNames:
    organization = api.get("/organization")["id"]
    rows: list[Any] = api.everything(f"/organization/{organization}/services")
    names = KnownNames(
        [(row["project_name"], row["environment_name"], row["name"], row["service_type"]) for row in rows]
    )
    private_folder(file.parent)
    write_whole(file, msgspec.json.encode(names), durable=False, draft=f"new{os.getpid()}")
    return names
