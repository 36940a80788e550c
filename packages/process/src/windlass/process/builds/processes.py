"""Resolves the commands of all processes of an application, so that an engine can start them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from windlass.base.shell import shell_command
from windlass.builders.builder import BuildError, BuildSettings, Say
from windlass.process.builds.command import Site, resolve_command
from windlass.process.builds.dockerfile_hints import Command
from windlass.process.builds.start import Start, text_of


class ProcessCommands(Struct, frozen=True):
    """The commands of an application, with the final paths of their programs."""

    web: tuple[str, ...]
    """The web process, or the only one; empty if the settings of the application name what runs."""
    processes: Mapping[str, tuple[str, ...]]
    release: tuple[str, ...]


def resolve_processes(start: Start, site: Site, say: Say, settings: BuildSettings) -> ProcessCommands:
    """Refuses a web process that cannot be started, unless a setting has its place. Other processes without a
    program are left out: it may be that no application chooses them."""
    return ProcessCommands(
        web=_resolve_web(start, site, say, settings),
        processes=_resolve_others(start, site, say),
        release=_resolve_release(start.release, site, say),
    )


def _resolve_web(start: Start, site: Site, say: Say, settings: BuildSettings) -> tuple[str, ...]:
    if start.command is None:
        return ()
    try:
        return resolve_command(start.command, site, say)
    except BuildError as error:
        if not settings.has_command:
            raise
        say(f"The settings of the application name what runs. Otherwise: {error}")
        return ()


def _resolve_others(start: Start, site: Site, say: Say) -> Mapping[str, tuple[str, ...]]:
    resolved: dict[str, tuple[str, ...]] = {}
    for name, command in start.processes.items():
        try:
            resolved[name] = resolve_command(command, site, say)
        except BuildError as error:
            if command != start.command:
                say(f"The process {name} cannot be chosen: {error}")
    return resolved


def _resolve_release(command: Command | None, site: Site, say: Say) -> tuple[str, ...]:
    """Replaces the program of a command by its path. Keeps the command if the program is missing: a
    setting may replace it, or it fails when it runs."""
    if command is None:
        return ()
    try:
        return resolve_command(command, site, say)
    except BuildError as error:
        say(f"The release command will fail: {error}")
        return shell_command(text_of(command))
