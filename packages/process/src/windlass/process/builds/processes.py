"""Resolves the commands of all processes of an application, so that an engine can start them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from windlass.base.shell import shell_command
from windlass.builders.builder import BuildError, BuildSettings, Say
from windlass.builders.dockerfile_hints import Command, text_of
from windlass.process.builds.command import Site, resolve_command
from windlass.process.builds.start import Start


class ProcessCommands(Struct, frozen=True):
    """The commands of an application, with the final paths of their programs."""

    web: tuple[str, ...]
    """The command of the web process, or of the only process. Empty if the application's settings define the
    command."""
    processes: Mapping[str, tuple[str, ...]]
    release: tuple[str, ...]


def resolve_processes(start: Start, site: Site, write_line: Say, settings: BuildSettings) -> ProcessCommands:
    """Resolves all commands of an application.

    Raises BuildError if the web process cannot be started and no setting replaces its command. Leaves out
    other processes that cannot be started, because no application may use them.
    """
    return ProcessCommands(
        web=_resolve_web(start, site, write_line, settings),
        processes=_resolve_others(start, site, write_line),
        release=_resolve_release(start.release, site, write_line),
    )


def _resolve_web(start: Start, site: Site, write_line: Say, settings: BuildSettings) -> tuple[str, ...]:
    if start.command is None:
        return ()
    try:
        return resolve_command(start.command, site, write_line)
    except BuildError as error:
        if not settings.has_command:
            raise
        write_line(f"The settings of the application name what runs. Otherwise: {error}")
        return ()


def _resolve_others(start: Start, site: Site, write_line: Say) -> Mapping[str, tuple[str, ...]]:
    resolved: dict[str, tuple[str, ...]] = {}
    for name, command in start.processes.items():
        try:
            resolved[name] = resolve_command(command, site, write_line)
        except BuildError as error:
            if command != start.command:
                write_line(f"The process {name} cannot be chosen: {error}")
    return resolved


def _resolve_release(command: Command | None, site: Site, write_line: Say) -> tuple[str, ...]:
    """Resolves the release command. If its program is missing, returns the command unresolved: a setting may
    replace it, and otherwise it fails when it runs."""
    if command is None:
        return ()
    try:
        return resolve_command(command, site, write_line)
    except BuildError as error:
        write_line(f"The release command will fail: {error}")
        return shell_command(text_of(command))
