"""`windlass proxy`, `database connect` and `database client`: ports here that lead to a service."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import click

from windlass.base.environment import for_tools
from windlass.cli.deployments import say
from windlass.cli.everyday.call import (
    EverydayCall,
    FoundService,
    everyday,
    service_argument,
    service_option,
)
from windlass.cli.everyday.names import complete_services
from windlass.cli.everyday.terminal import CommandLineOfService
from windlass.cli.tunnel import Tunnel
from windlass.core.deploy.databases import DatabaseLogin, client_program, kind_of
from windlass.families import registry
from windlass.terminal.command_errors import CommandFailed, InvalidUsage, ended_by_user
from windlass.terminal.sections import Option
from windlass.terminal.tables import plain, print_json

_PORTS_PATTERN: Final = re.compile(r"(?:(?P<here>[0-9]{1,5}):)?(?P<there>[0-9]{1,5})")
_MAX_PORT: Final = 65_535


@everyday(
    "connect",
    service_argument(),
    Option(
        ["port", "--port"], type=click.IntRange(0, _MAX_PORT), default=0, help="The port here.  [a free one]"
    ),
)
def connect(name: str | None, port: int, **options: Any) -> None:
    """Open a port of this machine that leads to a database, until Ctrl-C.

    The database needs no public port. `windlass database master-credentials` shows login and password, and
    `windlass database client` opens a client such as psql.
    """
    call = EverydayCall(options)
    _serve(call, _database(call, name), local_port=port)


@everyday(
    "proxy",
    click.Argument(["words"], nargs=-1, metavar="[NAME] [[LOCAL:]PORT]", shell_complete=complete_services),
    service_option(),
)
def proxy(words: Sequence[str], name: str | None, **options: Any) -> None:
    """Open a port of this machine that leads to a service, until Ctrl-C: windlass proxy web 9000:8080

    The service needs no public port. PORT is a port on which its program listens, by default the lowest;
    LOCAL is the port here, by default a free one.
    """
    ports = [match for word in words if (match := _PORTS_PATTERN.fullmatch(word))]
    names = [word for word in words if not _PORTS_PATTERN.fullmatch(word)]
    if len(ports) > 1 or len(names) > 1 or (names and name and names[0] != name):
        raise InvalidUsage("give one service and one port, such as: windlass proxy web 9000:8080")
    here, there = (int(ports[0]["here"] or 0), int(ports[0]["there"])) if ports else (0, 0)
    if max(here, there) > _MAX_PORT:
        raise InvalidUsage(f"give a port up to {_MAX_PORT}")
    call = EverydayCall(options)
    _serve(call, call.service(name or next(iter(names), None)), local_port=here, remote_port=there)


@everyday(
    "client",
    click.Argument(["command"], nargs=-1, metavar="[NAME] [-- WORDS…]", type=click.UNPROCESSED),
    service_option(),
    kind=CommandLineOfService,
)
def client(command: Sequence[str], name: str | None, **options: Any) -> None:
    """Open the client of a database, such as psql, on this machine: windlass database client main-db

    It connects through the server, so the database needs no public port, and logs in as the superuser. Words
    after `--` are passed to the client; so is the input: windlass database client main-db < dump.sql
    """
    if name is None and len(command) == 1:
        [name], command = command, ()
    call = EverydayCall(options)
    service = _database(call, name)
    credentials = call.api.get(f"{service.path}/masterCredentials")
    kind = kind_of(call.api.get(service.path)["type"])
    login = DatabaseLogin(credentials["login"], credentials["password"], kind.database)
    with closing(Tunnel(call.api, service.path)) as tunnel:
        tunnel.serve_in_background()
        program = client_program(kind.type, login, *tunnel.address)
        code = _run([*program.command, *command], program.variables)
    click.get_current_context().exit(code)


client.context_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    try:
        with subprocess.Popen(command, env=for_tools() | dict(variables)) as process:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    continue  # Ctrl-C is for the client, which cancels a query
    except FileNotFoundError as missing:
        raise CommandFailed(
            f"install {command[0]} on this machine, or connect another client with `windlass database "
            f"connect`: it is not installed"
        ) from missing


def _database(call: EverydayCall, name: str | None) -> FoundService:
    """Returns the database with this name. Without a name, returns the only database."""
    if name is not None:
        service = call.service(name)
        if not _is_database(service.row):
            raise InvalidUsage(
                f"name a database, or use `windlass proxy {shlex.quote(plain(service.name))}`: "
                f"{plain(service.name)} is none"
            )
        return service
    return call.only_service([row for row in call.rows if _is_database(row)], "database")


def _is_database(row: Mapping[str, Any]) -> bool:
    family = registry().service_of_type(row["service_type"])
    return bool(registry().handled_by(f"{family.name}.masterCredentials"))


def _serve(call: EverydayCall, service: FoundService, *, local_port: int = 0, remote_port: int = 0) -> None:
    with (
        ended_by_user(),
        closing(Tunnel(call.api, service.path, local_port=local_port, remote_port=remote_port)) as tunnel,
    ):
        host, port = tunnel.address
        if call.as_json:
            print_json({"host": host, "port": port})
        else:
            say(f"{plain(service.name)} is at {host}:{port} until you press Ctrl-C.")
        tunnel.serve()
