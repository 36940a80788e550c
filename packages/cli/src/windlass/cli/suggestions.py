"""Suggests commands and options after typing errors, or when the user types a command of another tool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final, NoReturn

import click

_VERBS: Final[Mapping[str, str]] = {
    "add": "create", "new": "create", "apps": "list", "applications": "list", "ls": "list", "ps": "list",
    "cancel": "cancel-deployment", "describe": "get", "info": "get", "show": "get", "destroy": "delete",
    "remove": "delete", "rm": "delete", "domains": "link", "open": "link", "url": "link", "urls": "link",
    "logs": "log", "tail": "log", "push": "deploy", "release": "deploy", "up": "deploy", "scale": "edit",
    "set": "edit", "update": "edit", "restart": "restart-service", "start": "redeploy",
}  # fmt: skip
_GROUPS: Final[Mapping[str, str]] = {
    "app": "application", "db": "database", "env": "environment-variable", "var": "environment-variable",
    "variable": "environment-variable", "variables": "environment-variable", "secrets": "secret",
    "org": "organization", "releases": "deployment", "builds": "deployment", "deployments": "deployment",
    "projects": "project", "databases": "database", "environments": "environment", "tokens": "token",
    "service": "application", "history": "deployment", "envs": "environment", "vars": "environment-variable",
}  # fmt: skip
_OPTIONS: Final[Mapping[str, str]] = {
    "--lines": "--tail", "--line": "--tail", "--num": "--tail",
    "--app": "--application", "--env": "--environment", "--org": "--organization", "--db": "--database",
    "--force": "--yes", "--watch": "--wait", "--grep": "--search", "--filter": "--search",
    "--output": "--json", "--format": "--json",
}  # fmt: skip
_NO_DOMAINS: Final = (
    "Windlass serves no domains of your own yet, except the one that ends all names: the setting "
    "gateway_domain. `windlass application link` lists the addresses."
)
_ANSWERS: Final[Mapping[str, str]] = {
    "domain": _NO_DOMAINS,
    "custom-domain": _NO_DOMAINS,
    "help": "`windlass --help` lists all commands.",
    "version": "`windlass --version` shows the version.",
    "ssh": "`windlass shell NAME` opens a shell in a service.",
    "auth": "`windlass login` keeps a token for this user.",
    "whoami": "`windlass context list` shows the servers that you are logged in to.",
    "start": "`windlass serve` starts the server, `windlass application deploy NAME` an application.",
    "status": "`windlass ps` lists the services of the environment with their states.",
    "config:set": "`windlass env set NAME=VALUE` sets a variable.",
    "config:get": "`windlass env` lists the variables.",
    "addons": "`windlass database create --help` says how to create a database.",
    "addons:create": "`windlass database create --help` says how to create a database.",
    "volume": "`windlass application edit --help` says how to give an application storage.",
    "volumes": "`windlass application edit --help` says how to give an application storage.",
    "down": "`windlass stop --all` stops every service.",
}
"""Replies to commands of other tools that do not exist in Windlass."""
# Users who name no resource usually mean an application.
_USUAL: Final = "application"
_MOST: Final = 3
_ALIKE: Final = 0.7


def no_such_command(name: str, groups: Mapping[str, Collection[str]], ctx: click.Context) -> NoReturn:
    """Raises the error for an unknown command. `groups`: the top-level commands, each with its
    subcommands."""
    if name in _ANSWERS:
        raise click.UsageError(f"No such command {name!r}. {_ANSWERS[name]}", ctx)
    suggestions = [
        f"windlass {command}"
        for command in _commands(name, groups) or get_close_matches(name, groups, cutoff=_ALIKE)
    ]
    raise click.UsageError(_message("command", name, suggestions), ctx)


def _commands(name: str, groups: Mapping[str, Collection[str]]) -> list[str]:
    """Returns the commands that users usually mean by this word."""
    if name in _GROUPS:
        return [_GROUPS[name]]
    verb = _VERBS.get(name, name)
    with_verb = sorted(
        (group for group in groups if verb in groups[group]), key=lambda group: (group != _USUAL, group)
    )
    if name in _VERBS:
        return [f"{group} {verb}" for group in with_verb[:1]]
    is_clear = len(with_verb) <= _MOST or with_verb[0] == _USUAL
    return [f"{group} {verb}" for group in with_verb[:_MOST]] if is_clear else []


def no_such_verb(name: str, verbs: Collection[str], ctx: click.Context) -> NoReturn:
    usual = [_VERBS[name]] if _VERBS.get(name) in verbs else []
    suggestions = [f"windlass {ctx.info_name} {alike}" for alike in usual or get_close_matches(name, verbs)]
    if name in _ANSWERS and not usual:
        raise click.UsageError(f"No such command {name!r}. {_ANSWERS[name]}", ctx)
    root = ctx.find_root()
    if isinstance(root.command, click.Group) and name in root.command.list_commands(root) and not usual:
        suggestions = [f"windlass {name}"]
    elif name in _GROUPS:
        suggestions = [f"windlass {_GROUPS[name]}"]
    elif not suggestions and ctx.info_name and ctx.info_name in _GROUPS:
        suggestions = [f"windlass {_GROUPS[ctx.info_name]}"]
    raise click.UsageError(_message("command", name, suggestions), ctx)


def no_such_option(error: click.NoSuchOption, names: Collection[str]) -> NoReturn:
    """Raises the error for an unknown option, with a suggestion if another tool has the option, or if it is
    part of an option's name."""
    name = error.option_name
    suggestions = [_OPTIONS[name]] if _OPTIONS.get(name) in names else _with_the_same_end(name, names)
    if parts := [option for option in names if option.startswith(f"{name}.")]:
        suggestions = [f"--field {name.removeprefix('--').replace('-', '_')}=JSON", parts[0]]
    if not suggestions:
        raise error
    raise click.UsageError(_message("option", name, suggestions), error.ctx) from error


def _with_the_same_end(name: str, names: Collection[str]) -> list[str]:
    """Returns options of nested fields whose last part is this name. Empty if there are many."""
    alike = [option for option in names if option.endswith(f".{name.removeprefix('--')}")]
    return alike if len(alike) <= _MOST else []


def _message(kind: str, name: str, suggestions: Collection[str]) -> str:
    instead = (
        f" Did you mean {' or '.join(f'`{suggestion}`' for suggestion in suggestions)}?"
        if suggestions
        else ""
    )
    return f"No such {kind} {name!r}.{instead}"


class Verbs(click.Group):
    """A command group whose commands are built on demand, because building all of them takes 30 ms."""

    def __init__(
        self,
        builders: Mapping[str, Callable[[], click.Command]],
        *,
        usual: str = "",
        lines: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        """`usual`: the command that runs if none is given. `lines`: help lines of the commands, if they are
        available without building the commands."""
        super().__init__(no_args_is_help=not usual, **attributes)
        self._builders = builders
        self._usual = usual
        self._lines = lines

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else "-"
        if self._usual and first.startswith("-") and first not in ctx.help_option_names:
            args = [self._usual, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._builders)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._lines is None:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lines[name]) for name in self.list_commands(ctx)])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in self._builders and name not in self.commands:
            self.add_command(self._builders[name]())
        return self.commands.get(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            no_such_verb(error.command_name, self.list_commands(ctx), ctx)
