"""Suggests commands and options after typing errors, or when the user types a command of another tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final, NoReturn

import click

_VERB_ALIASES: Final[Mapping[str, str]] = {
    "add": "create", "new": "create", "apps": "list", "applications": "list", "ls": "list", "ps": "list",
    "cancel": "cancel-deployment", "describe": "get", "info": "get", "show": "get", "destroy": "delete",
    "remove": "delete", "rm": "delete", "domains": "link", "open": "link", "url": "link", "urls": "link",
    "logs": "log", "tail": "log", "push": "deploy", "release": "deploy", "up": "deploy", "scale": "edit",
    "set": "edit", "update": "edit", "restart": "restart-service", "start": "redeploy",
}  # fmt: skip
_GROUP_ALIASES: Final[Mapping[str, str]] = {
    "app": "application", "db": "database", "env": "environment-variable", "var": "environment-variable",
    "variable": "environment-variable", "variables": "environment-variable", "secrets": "secret",
    "org": "organization", "builds": "deployment", "deployments": "deployment",
    "projects": "project", "databases": "database", "environments": "environment", "tokens": "token",
    "service": "application", "history": "deployment", "envs": "environment", "vars": "environment-variable",
}  # fmt: skip
_OPTION_ALIASES: Final[Mapping[str, str]] = {
    "--lines": "--tail", "--line": "--tail", "--num": "--tail",
    "--app": "--application", "--env": "--environment", "--org": "--organization", "--db": "--database",
    "--force": "--yes", "--watch": "--wait", "--grep": "--search", "--filter": "--search",
    "--output": "--json", "--format": "--json",
}  # fmt: skip
_DOMAINS_ANSWER: Final = (
    "`windlass domain create --application NAME --domain shop.example.com` adds a domain, and "
    "`windlass domain check` says what is missing. docs/domains.md tells the whole story."
)
_CERTIFICATES_ANSWER: Final = (
    "A domain with --generate-certificate gets one once it is proved, where https_port is set: "
    "`windlass domain check` says what is missing. docs/domains.md tells the whole story."
)
_NO_BACKUPS_ANSWER: Final = (
    "Windlass makes no backups of databases yet: `windlass database client NAME` and `windlass database "
    "connect NAME` lead to a database for tools such as pg_dump. `windlass backup` saves the installation "
    "itself, without the data of services."
)
_CLIENT_ANSWER: Final = "`windlass database client NAME` opens the client of a database, such as psql."
_COMMAND_ANSWERS: Final[Mapping[str, str]] = {
    "domains": _DOMAINS_ANSWER,
    "custom-domain": _DOMAINS_ANSWER,
    "certs": _CERTIFICATES_ANSWER,
    "certificates": _CERTIFICATES_ANSWER,
    "ssl": _CERTIFICATES_ANSWER,
    "tls": _CERTIFICATES_ANSWER,
    "backups": _NO_BACKUPS_ANSWER,
    "dump": _NO_BACKUPS_ANSWER,
    "psql": _CLIENT_ANSWER,
    "mysql": _CLIENT_ANSWER,
    "redis-cli": _CLIENT_ANSWER,
    "mongosh": _CLIENT_ANSWER,
    "pg": _CLIENT_ANSWER,
    "postgres": _CLIENT_ANSWER,
    "port-forward": "`windlass proxy NAME LOCAL:PORT` opens a port here that leads to a service.",
    "tunnel": "`windlass proxy NAME LOCAL:PORT` opens a port here that leads to a service.",
    "dashboard": "`windlass console` opens the web console.",
    "git": "`git push windlass main` deploys this branch, once `windlass init` has set up the remote.",
    "push": "`windlass up` deploys this folder: its pushed commit, or its files.",
    "publish": "`windlass up` deploys this folder: its pushed commit, or its files.",
    "launch": "`windlass init` creates an application from this folder, and `windlass up` deploys it.",
    "create": "`windlass init` creates an application from this folder, and `windlass up` deploys it.",
    "maintenance": "`windlass scale 0` stops all instances of a service, and `windlass scale 1` starts one.",
    "help": "`windlass --help` lists all commands.",
    "version": "`windlass --version` shows the version.",
    "ssh": "`windlass shell NAME` opens a shell in a service.",
    "auth": "`windlass login` keeps a token for this user.",
    "whoami": "`windlass context list` shows the servers that you are logged in to.",
    "start": "`windlass serve` starts the server, `windlass application deploy NAME` an application.",
    "status": "`windlass ps` lists the services of the environment with their states.",
    "addons": "`windlass database create --help` says how to create a database.",
    "addon": "`windlass database create --help` says how to create a database.",
    "volume": "`windlass application edit --help` says how to give an application storage.",
    "volumes": "`windlass application edit --help` says how to give an application storage.",
    "down": "`windlass stop --all` stops every service.",
}
"""Replies to commands of other tools that do not exist in Windlass."""
_COLON_COMMANDS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"(config|env|vars|variables):(set|add)"), "`windlass env set NAME=VALUE` sets a variable."),
    (
        re.compile(r"(config|env|vars|variables):(unset|remove|rm|delete)"),
        "`windlass env unset NAME` deletes a variable.",
    ),
    (re.compile(r"(config|env|vars|variables)(:.*)?"), "`windlass env` lists the variables."),
    (re.compile(r"(pg|postgres|mysql|redis|mongo|db):(backups?|dump|capture|restore).*"), _NO_BACKUPS_ANSWER),
    (re.compile(r"(pg|postgres|mysql|redis|mongo|db):.*"), _CLIENT_ANSWER),
    (re.compile(r"domains?:.*"), _DOMAINS_ANSWER),
    (re.compile(r"certs?:.*"), _CERTIFICATES_ANSWER),
    (re.compile(r"releases:rollback|rollback:.*"), "`windlass rollback` goes back to an earlier version."),
    (re.compile(r"releases:.*"), "`windlass releases` lists the versions of a service."),
    (re.compile(r"ps:scale"), "`windlass scale NAME=COUNT` sets the number of instances."),
    (
        re.compile(r"ps:(restart|stop|start)"),
        "`windlass application --help` lists restart-service, stop and deploy.",
    ),
    (re.compile(r"ps:exec"), "`windlass exec NAME -- COMMAND` runs a command in an instance."),
    (re.compile(r"addons:.*"), "`windlass database create --help` says how to create a database."),
    (
        re.compile(r"(apps|app):create"),
        "`windlass init` creates an application from this folder, and `windlass up` deploys it.",
    ),
    (re.compile(r"(apps|app):destroy"), "`windlass application delete NAME` deletes an application."),
    (
        re.compile(r"run:.*"),
        "`windlass run NAME -- COMMAND` runs a command once; with --detach, in the background.",
    ),
    (re.compile(r"logs:.*"), "`windlass logs NAME` shows the log of a service."),
)
"""Replies to commands with a colon, as other tools write subcommands."""
_BACKUP_WORDS: Final = frozenset({"backup", "backups", "dump", "restore", "snapshot"})
_READ_VERBS: Final = frozenset({"get", "show"})
# Users who name no resource usually mean an application.
_DEFAULT_GROUP: Final = "application"
_MAX_SUGGESTIONS: Final = 3
_MIN_SIMILARITY: Final = 0.7


def no_such_command(name: str, groups: Mapping[str, Collection[str]], ctx: click.Context) -> NoReturn:
    """Raises the error for an unknown command. `groups`: the top-level commands, each with its
    subcommands."""
    if answer := _answer_for_other_tool(name):
        raise click.UsageError(f"No such command {name!r}. {answer}", ctx)
    suggestions = [
        f"windlass {command}"
        for command in _usual_commands(name, groups)
        or get_close_matches(name, groups, cutoff=_MIN_SIMILARITY)
    ]
    raise click.UsageError(_unknown_name_message("command", name, suggestions), ctx)


def _answer_for_other_tool(name: str) -> str:
    """Returns the reply to a command of another tool; empty if there is none."""
    if ":" not in name:
        return _COMMAND_ANSWERS.get(name, "")
    return next((answer for pattern, answer in _COLON_COMMANDS if pattern.fullmatch(name)), "")


def _usual_commands(name: str, groups: Mapping[str, Collection[str]]) -> list[str]:
    """Returns the commands that users usually mean by this word."""
    if name in _GROUP_ALIASES:
        return [_GROUP_ALIASES[name]]
    verb = _VERB_ALIASES.get(name, name)
    with_verb = sorted(
        (group for group in groups if verb in groups[group]),
        key=lambda group: (group != _DEFAULT_GROUP, group),
    )
    if name in _VERB_ALIASES:
        return [f"{group} {verb}" for group in with_verb[:1]]
    is_clear = len(with_verb) <= _MAX_SUGGESTIONS or with_verb[0] == _DEFAULT_GROUP
    return [f"{group} {verb}" for group in with_verb[:_MAX_SUGGESTIONS]] if is_clear else []


def no_such_verb(name: str, verbs: Collection[str], ctx: click.Context) -> NoReturn:
    if name in _BACKUP_WORDS:  # `windlass backup` is for the operator
        raise click.UsageError(f"No such command {name!r}. {_NO_BACKUPS_ANSWER}", ctx)
    if name in _READ_VERBS and "list" in verbs and "get" not in verbs:
        raise click.UsageError(
            _unknown_name_message("command", name, [f"windlass {ctx.info_name} list"]), ctx
        )
    usual = [_VERB_ALIASES[name]] if _VERB_ALIASES.get(name) in verbs else []
    suggestions = [f"windlass {ctx.info_name} {alike}" for alike in usual or get_close_matches(name, verbs)]
    if "=" in name and "set" in verbs:
        suggestions = [f"windlass {ctx.info_name} set {name}"]
    if name in _COMMAND_ANSWERS and not usual:
        raise click.UsageError(f"No such command {name!r}. {_COMMAND_ANSWERS[name]}", ctx)
    root = ctx.find_root()
    if isinstance(root.command, click.Group) and name in root.command.list_commands(root) and not usual:
        suggestions = [f"windlass {name}"]
    elif name in _GROUP_ALIASES:
        suggestions = [f"windlass {_GROUP_ALIASES[name]}"]
    elif not suggestions and ctx.info_name and ctx.info_name in _GROUP_ALIASES:
        suggestions = [f"windlass {_GROUP_ALIASES[ctx.info_name]}"]
    raise click.UsageError(_unknown_name_message("command", name, suggestions), ctx)


def no_such_option(error: click.NoSuchOption, names: Collection[str]) -> NoReturn:
    """Raises the error for an unknown option, with a suggestion if another tool has the option, or if it is
    part of an option's name."""
    name = error.option_name
    suggestions = (
        [_OPTION_ALIASES[name]] if _OPTION_ALIASES.get(name) in names else _with_the_same_end(name, names)
    )
    if parts := [option for option in names if option.startswith(f"{name}.")]:
        suggestions = [f"--field {name.removeprefix('--').replace('-', '_')}=JSON", parts[0]]
    if not suggestions:
        raise error
    raise click.UsageError(_unknown_name_message("option", name, suggestions), error.ctx) from error


def _with_the_same_end(name: str, names: Collection[str]) -> list[str]:
    """Returns options of nested fields whose last part is this name. Empty if there are many."""
    alike = [option for option in names if option.endswith(f".{name.removeprefix('--')}")]
    return alike if len(alike) <= _MAX_SUGGESTIONS else []


def _unknown_name_message(kind: str, name: str, suggestions: Collection[str]) -> str:
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
        usual_takes_name: bool = False,
        lines: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        """`usual`: the command that runs if none is given. `usual_takes_name`: whether a word that is no
        command and resembles none is an argument of the usual command. `lines`: help lines of the commands,
        if they are available without building the commands."""
        super().__init__(no_args_is_help=not usual, **attributes)
        self._builders = builders
        self._usual = usual
        self._usual_takes_name = usual_takes_name
        self._lines = lines

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else "-"
        is_option = first.startswith("-") and first not in ctx.help_option_names
        if self._usual and (is_option or (self._usual_takes_name and self._is_name(first))):
            args = [self._usual, *args]
        return super().parse_args(ctx, args)

    def _is_name(self, word: str) -> bool:
        is_word_of_commands = (
            word in self._builders or word in _VERB_ALIASES or word in _COMMAND_ANSWERS or word == "get"
        )
        is_alike = get_close_matches(word, self._builders, cutoff=_MIN_SIMILARITY)
        return not (word.startswith("-") or "=" in word or is_word_of_commands or is_alike)

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
