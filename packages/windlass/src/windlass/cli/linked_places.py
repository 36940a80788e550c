"""The environment and the project of a linked folder, for commands that need one and get none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.cli.derived_commands import DerivedCommand
from windlass.cli.linked_folder import FolderLink, current_folder, find_linked_folder
from windlass.cli.options import CommandOptions


def link_of_folder(
    command: DerivedCommand, options: CommandOptions, arguments: Mapping[str, Any]
) -> FolderLink | None:
    """Returns the link of the present folder, if the command needs a place of it and none was named. Lists of
    services are of all environments without one."""
    is_named = any(arguments.get(f"above_{name}") is not None for name in options.above)
    if is_named or len(command.paths) > 1 or command.lists_services:
        return None
    if not {name for name, _ in command.paths[0].above} & {"environment", "project"}:
        return None
    linked = find_linked_folder(current_folder())
    return linked.link if linked else None


def places_of(command: DerivedCommand, link: FolderLink) -> dict[str, str]:
    """Returns the places in a command's path, as its options would name them."""
    places = {"environment": link.place, "project": link.project}
    return {f"above_{name}": places[name] for name, _ in command.paths[0].above if name in places}
