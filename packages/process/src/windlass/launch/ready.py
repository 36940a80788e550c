"""`python -m windlass.launch.ready KIND`: checks whether the database that the variables describe accepts
queries.

The server's own client program logs in and sends a query. The exit code is 0 if the database replies.
Otherwise, the exit code is not 0 and the error output contains the reason. The client gets passwords in its
environment, which only its own user can read.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from windlass.launch.instance import find_server
from windlass.launch.launch_variables import LOOPBACK, SERVER_VARIABLE

TIMEOUT: Final = 4.0


class ReadinessCheck(NamedTuple):
    words: tuple[str, ...]
    secrets: dict[str, str]
    """Additional environment variables for the client."""
    answer: str
    """The expected end of the client's output. The client's exit code alone does not always show a
    failure."""


def _postgresql(variables: Mapping[str, str]) -> ReadinessCheck:
    user = variables.get("POSTGRES_USER") or "postgres"
    place = ("-h", LOOPBACK, "-p", variables["PORT"], "-U", user, "-d", variables.get("POSTGRES_DB") or user)
    plain = {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"}
    login = {"PGPASSWORD": variables.get("POSTGRES_PASSWORD", "")}
    return ReadinessCheck(("-X", "-A", "-t", *place, "-c", "SELECT 1"), plain | login, "1")


def _mysql(variables: Mapping[str, str]) -> ReadinessCheck:
    user = variables.get("MYSQL_USER") or "root"
    names = ("MYSQL_ROOT_PASSWORD", "MYSQL_PASSWORD")
    passwords = [variables.get(name, "") for name in (names if user == "root" else names[::-1])]
    login = {"MYSQL_PWD": passwords[0] or passwords[1]}
    place = ("--protocol=tcp", "-h", LOOPBACK, "-P", variables["PORT"], "-u", user)
    return ReadinessCheck(("--no-defaults", *place, "ping"), login, "alive")


def _redis(variables: Mapping[str, str]) -> ReadinessCheck:
    login = {"REDISCLI_AUTH": variables.get("REDIS_PASSWORD", "")}
    return ReadinessCheck(("-h", LOOPBACK, "-p", variables["PORT"], "ping"), login, "PONG")


READINESS_CHECKS: Final[Mapping[str, Callable[[Mapping[str, str]], ReadinessCheck]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "redis": _redis,
}
CLIENT_PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "postgresql": ("psql",),
    "mysql": ("mariadb-admin", "mysqladmin"),
    "redis": ("redis-cli", "valkey-cli"),
}


def client_of(kind: str, server: Path) -> Path | None:
    """Returns the client program for a server. It is searched for beside the server, in the neighbouring
    `bin` and in the default PATH, because the server's path may be a link or in `sbin`."""
    beside = (server.parent, server.resolve().parent, server.parent.parent / "bin")
    folders = (*beside, *map(Path, os.defpath.split(":")))
    places = (folder / name for folder in folders for name in CLIENT_PROGRAMS[kind])
    return next((place for place in places if os.access(place, os.X_OK)), None)


def main(words: list[str], variables: Mapping[str, str]) -> int:
    if len(words) != 1 or words[0] not in READINESS_CHECKS:
        return _report_not_ready(f"choose one: {', '.join(READINESS_CHECKS)}", 2)
    if not variables.get("PORT", "").isdecimal():
        return _report_not_ready(
            f"PORT must be the port of the database, and is {variables.get('PORT', '')!r}", 2
        )
    variables = find_server(words[0].upper(), variables)
    client = client_of(words[0], Path(variables.get(SERVER_VARIABLE, "/")))
    if client is None:
        return _report_not_ready(
            f"{CLIENT_PROGRAMS[words[0]][0]} is not on this machine any more: install it again"
        )
    return _run_client(client, READINESS_CHECKS[words[0]](variables))


def _run_client(client: Path, question: ReadinessCheck) -> int:
    try:
        done = subprocess.run(
            [client, *question.words],
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **question.secrets},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _report_not_ready("the server does not answer")
    if done.returncode == 0 and done.stdout.strip().endswith(question.answer):
        return 0
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return _report_not_ready(lines[-1] if lines else f"{client.name} ended with {done.returncode}")


def _report_not_ready(message: str, code: int = 1) -> int:
    print(f"not ready: {message}", file=sys.stderr)  # noqa: T201 (it is a program)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))  # noqa: TID251 (the variables of an instance)
