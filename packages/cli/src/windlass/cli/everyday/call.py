"""One call of an everyday command: the server that it calls, and the service or environment that it acts
on."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final, TypeVar, cast

import click
from msgspec import Struct

from windlass.cli.client import Api
from windlass.cli.connection import access_candidates, call_options, connect
from windlass.cli.contexts import normal_url
from windlass.cli.deployments import say
from windlass.cli.everyday.names import complete_environments, complete_services
from windlass.cli.linked_folder import LinkedFolder, current_folder, find_linked_folder
from windlass.cli.overviews import path_of_service, services_in
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.sections import Command, Option
from windlass.terminal.tables import FORMAT_PARAMETER, is_output_format_chosen, plain, wants_json

C = TypeVar("C", bound=Callable[..., Any])
_WHERE_SECTION: Final = "Where"
_CALL_SECTION: Final = "The call"
_MAX_NAMED_SERVICES: Final = 20
_SERVICE_PARAMETER: Final = "name"
"""The parameter of commands with the name of the service."""
_SAME_SERVICE: Final = "same_service"


class EnvironmentPlace(Struct, frozen=True):
    """An environment on the server; without an id, the whole organization."""

    organization: str
    id: str = ""
    path: str = ""


class FoundService(Struct, frozen=True):
    """A service on the server."""

    name: str
    path: str
    """The API path of the service: /application/…"""
    row: Mapping[str, Any]
    """The service's entry in the list of services."""


class EverydayCall:
    """One call of an everyday command: the server, the linked folder, and the options that choose service and
    environment."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.linked: LinkedFolder | None = find_linked_folder(current_folder())
        self.as_json = wants_json(options.get(FORMAT_PARAMETER))
        self.is_output_format_chosen = is_output_format_chosen(options.get(FORMAT_PARAMETER))

    @cached_property
    def api(self) -> Api:
        linked = self.linked.link.url if self.linked else ""
        api = connect(self._options, linked=linked)
        by_option, environment, _ = access_candidates(self._options)
        if linked and not by_option.url and environment.url and normal_url(linked) != normal_url(api.url):
            say(f"WINDLASS_URL goes before {linked}, the server of this folder: {plain(api.url)} is used.")
        return api

    @property
    def environment(self) -> str:
        """The path of the environment, from the option or from the linked folder; empty if neither names
        one."""
        path = str(self._options.get("environment") or "")
        if self.linked is None:
            return path
        if path and "/" not in path:
            return f"{self.linked.link.project}/{path}"
        return path or self.linked.link.place

    def command_line(self, command_name: str, name: str | None) -> str:
        """Returns the command line of another everyday command for the same service."""
        words = ["windlass", command_name, *([name] if name else [])]
        for option, field in (("-e", "environment"), ("--context", "context")):
            if value := self._options.get(field):
                words += [option, str(value)]
        return shlex.join(words)

    def deploy_line(self, name: str) -> str:
        """Returns the command line that deploys a service, without its name if it is the linked one."""
        is_linked = self.linked is not None and self.linked.link.application == name
        return self.command_line("deploy", None if is_linked else name)

    @cached_property
    def place(self) -> EnvironmentPlace:
        if not self.environment:
            return EnvironmentPlace(self.api.get("/organization")["id"])
        matches = self.api.get("/resource", family="environment", path=self.environment)["results"]
        if len(matches) != 1:
            ways = ", ".join(plain(match["path"]) for match in matches) or "none"
            raise InvalidUsage(f"choose one with --environment: {self.environment!r} could be {ways}")
        return EnvironmentPlace(matches[0]["organization_id"], matches[0]["id"], matches[0]["path"])

    @cached_property
    def rows(self) -> list[Any]:
        """All services of the environment. If no environment is chosen, all services of the organization."""
        place = self.place
        return services_in(self.api, place.organization, **({"environment_id": place.id} if place.id else {}))

    def service(self, name: str | None = None) -> FoundService:
        """Returns the service with this name, path or id. Without a name, returns the linked service, or the
        only service."""
        wanted = name or (self.linked.link.application if self.linked else "")
        rows = self.rows
        if wanted:
            rows = [row for row in rows if _is_named(row, wanted)]
            if not rows:
                raise InvalidUsage(self._unknown_service_hint(wanted))
        if not rows:
            raise InvalidUsage("create a service first, with `windlass init`: there is none here")
        return self.only_service(rows)

    def only_service(self, rows: Sequence[Any], noun: str = "service") -> FoundService:
        """Returns the service of the only row. Raises InvalidUsage if there are several or none."""
        if not rows:
            raise InvalidUsage(f"create a {noun} first: there is none here")
        if len(rows) > 1:
            raise InvalidUsage(f"name one of these: {_join_names(rows)}")
        [row] = rows
        return FoundService(row["name"], path_of_service(row), row)

    def has_service(self, name: str) -> bool:
        """Returns whether there is a service with this name, path or id."""
        return any(_is_named(row, name) for row in self.rows)

    def split_service(self, name: str | None, words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
        """Returns the service and the other words of a command such as `env set web A=1`. The first of
        several words is the service if there is one of this name, and no option names another."""
        if name is None and len(words) > 1 and "=" not in words[0] and self.has_service(words[0]):
            return words[0], words[1:]
        return name, words

    def _unknown_service_hint(self, wanted: str) -> str:
        where = f" in {plain(self.place.path)}" if self.place.path else ""
        names = {str(row["name"]): row for row in self.rows}
        if alike := get_close_matches(wanted, names):
            return f"did you mean {plain(alike[0])}? There is no service {wanted!r}{where}"
        others = f": {_join_names(self.rows)}" if self.rows else ""
        advice = "name a service that exists" if self.rows else "create it first, with `windlass init`"
        return f"{advice}{others}. There is no service {wanted!r}{where}"


def everyday(
    name: str, *params: click.Parameter, environment: bool = True, kind: type[Command] = Command
) -> Callable[[C], click.Command]:
    """Declares an everyday command with the options that all everyday commands have. A command whose
    argument is a service takes the service with `-a`, too."""

    def declare(callback: C) -> click.Command:
        has_argument = any(
            isinstance(param, click.Argument) and param.name == _SERVICE_PARAMETER for param in params
        )
        where = [service_option(_SAME_SERVICE)] if has_argument else []
        where += [environment_option()] if environment else []
        built = click.command(name, cls=kind, params=[*params, *where, context_option(), *call_options()])
        return built(_with_one_service(callback) if has_argument else callback)

    return declare


def _with_one_service(callback: C) -> C:
    """Returns a callback that gets the service from the argument or from the option `-a`."""

    @functools.wraps(callback)
    def call(**options: Any) -> Any:
        named, same = options[_SERVICE_PARAMETER], options.pop(_SAME_SERVICE)
        if named and same and named != same:
            raise InvalidUsage(f"name one service, and not both {named!r} and {same!r}")
        return callback(**options | {_SERVICE_PARAMETER: named or same})

    return cast("C", call)


def service_argument() -> click.Argument:
    return click.Argument(
        [_SERVICE_PARAMETER], required=False, metavar="[NAME]", shell_complete=complete_services
    )


def service_option(parameter: str = _SERVICE_PARAMETER) -> Option:
    return Option(
        [parameter, "-a", "--application"],
        metavar="NAME",
        help="Name of the service, if it is not that of the linked folder.",
        section=_WHERE_SECTION,
        shell_complete=complete_services,
    )


def environment_option() -> Option:
    return Option(
        ["environment", "-e", "--environment"],
        metavar="PATH",
        help="Another environment than that of the linked folder, such as shop/staging.",
        section=_WHERE_SECTION,
        shell_complete=complete_environments,
    )


def context_option() -> Option:
    return Option(
        ["context", "--context"],
        metavar="NAME",
        help="A server of `windlass context list`.",
        section=_CALL_SECTION,
    )


def _is_named(row: Mapping[str, Any], name: str) -> bool:
    path = "/".join((row["project_name"], row["environment_name"], row["name"]))
    parts = name.casefold().split("/")
    return name == row["id"] or path.casefold().split("/")[-len(parts) :] == parts


def _join_names(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [plain(f"{row['project_name']}/{row['environment_name']}/{row['name']}") for row in rows]
    more = f" and {len(names) - _MAX_NAMED_SERVICES} more" if len(names) > _MAX_NAMED_SERVICES else ""
    return ", ".join(names[:_MAX_NAMED_SERVICES]) + more
