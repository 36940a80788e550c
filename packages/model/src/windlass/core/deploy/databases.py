"""The properties of each database type: image, start command, probes and addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from windlass.engines.workload import HealthProbe, ProbeKind

Type = Literal["POSTGRESQL", "MYSQL", "MONGODB", "REDIS"]
Mode = Literal["CONTAINER", "MANAGED"]
MODES: Final[tuple[Mode, ...]] = ("CONTAINER", "MANAGED")


class DatabaseType(Struct, frozen=True, kw_only=True):
    """The properties of a database type."""

    type: Type
    port: int
    login: str
    """The login of the superuser; empty if there is only a password."""
    database: str
    """The name of the initial database."""
    scheme: str
    query: str = ""
    """The query string of its URLs."""
    image: str
    versions: tuple[str, ...]
    """Image tags, newest first."""
    leaps: bool
    """Returns whether a new major version can read the data of an older major version."""
    stepwise: bool = False
    """Returns whether an upgrade must not skip major versions."""


_DATABASE_TYPES: Final[Mapping[str, DatabaseType]] = {
    kind.type: kind
    for kind in (
        DatabaseType(
            type="POSTGRESQL",
            port=5432,
            login="postgres",
            database="postgres",
            scheme="postgresql",
            image="postgres",
            versions=("18", "17", "16", "15", "14"),
            leaps=False,
        ),
        DatabaseType(
            type="MYSQL",
            port=3306,
            login="root",
            database="main",
            scheme="mysql",
            image="mysql",
            versions=("9", "8.4", "8.0", "8"),
            leaps=True,
            stepwise=True,
        ),
        DatabaseType(
            type="MONGODB",
            port=27017,
            login="root",
            database="main",
            scheme="mongodb",
            query="authSource=admin",
            image="mongo",
            versions=("8.0", "8", "7.0", "7", "6.0", "6", "5.0", "5"),
            leaps=True,
            stepwise=True,
        ),
        DatabaseType(
            type="REDIS",
            port=6379,
            login="",
            database="0",
            scheme="redis",
            image="redis",
            versions=("8", "7.4", "7.2", "7", "6.2", "6"),
            leaps=True,
        ),
    )
}
TYPES: Final[tuple[Type, ...]] = tuple(kind.type for kind in _DATABASE_TYPES.values())


def kind_of(type: str) -> DatabaseType:
    return _DATABASE_TYPES[type]


class DatabaseLogin(Struct, frozen=True):
    """The credentials of the superuser."""

    login: str
    password: str
    database: str


def image(type: str, version: str) -> str:
    return f"{kind_of(type).image}:{version}"


class ClientProgram(Struct, frozen=True):
    """A client program for a database that runs on the user's own machine."""

    command: tuple[str, ...]
    variables: Mapping[str, str]
    """Environment variables with what other users of the machine must not see."""


def client_program(type: str, credentials: DatabaseLogin, host: str, port: int) -> ClientProgram:
    """Returns the usual client of a database. `mongosh` asks for the password, because it reads none from a
    variable."""
    match type:
        case "POSTGRESQL":
            words = ("psql", f"--host={host}", f"--port={port}", f"--username={credentials.login}")
            return ClientProgram(
                (*words, f"--dbname={credentials.database}"), {"PGPASSWORD": credentials.password}
            )
        case "MYSQL":
            words = ("mysql", f"--host={host}", f"--port={port}", f"--user={credentials.login}")
            return ClientProgram((*words, credentials.database), {"MYSQL_PWD": credentials.password})
        case "MONGODB":
            url = f"mongodb://{host}:{port}/{credentials.database}?authSource=admin"
            return ClientProgram(("mongosh", url, "--username", credentials.login), {})
        case _:
            return ClientProgram(
                ("redis-cli", "-h", host, "-p", str(port)), {"REDISCLI_AUTH": credentials.password}
            )


# How the official images are started


def environment(type: str, version: str, credentials: DatabaseLogin) -> dict[str, str]:
    """Returns the environment variables of the image. The image reads them when it initializes its data; the
    probes always read them."""
    match type:
        case "POSTGRESQL":
            settings = {
                "POSTGRES_USER": credentials.login,
                "POSTGRES_PASSWORD": credentials.password,
                "POSTGRES_DB": credentials.database,
            }
            # A subfolder of the volume is used, because initdb rejects a non-empty folder, and the volume's
            # top folder may contain lost+found.
            return (
                settings
                if _uses_version_folder(version)
                else {**settings, "PGDATA": f"{_PGDATA_FOLDER}/pgdata"}
            )
        case "MYSQL":
            return {"MYSQL_ROOT_PASSWORD": credentials.password, "MYSQL_DATABASE": credentials.database}
        case "MONGODB":
            return {
                "MONGO_INITDB_ROOT_USERNAME": credentials.login,
                "MONGO_INITDB_ROOT_PASSWORD": credentials.password,
                "MONGO_INITDB_DATABASE": credentials.database,
            }
        case _:
            return {"REDIS_PASSWORD": credentials.password}


def command(type: str, credentials: DatabaseLogin) -> tuple[str, ...]:
    """Returns the command that replaces the image's command; empty to keep the image's command."""
    if type != "REDIS":
        return ()
    return ("redis-server", "--requirepass", credentials.password, "--appendonly", "yes", "--dir", "/data")


_PGDATA_FOLDER: Final = "/var/lib/postgresql/data"


def _uses_version_folder(version: str) -> bool:
    """Returns whether the image has a folder per major version and rejects a volume at `data`, as images from
    version 18 on do."""
    major = _version_numbers(version)[0]
    return major is not None and major >= 18


def mount(type: str, version: str) -> str:
    """Returns the mount path of the data volume."""
    match type:
        case "POSTGRESQL":
            return "/var/lib/postgresql" if _uses_version_folder(version) else _PGDATA_FOLDER
        case "MYSQL":
            return "/var/lib/mysql"
        case "MONGODB":
            return "/data/db"
        case _:
            return "/data"


# While an image initializes its data, it runs a temporary server. This server does not listen on TCP
# (PostgreSQL, MySQL) or only on 127.0.0.1 (MongoDB). The probes use addresses at which it does not respond.
_READINESS_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "POSTGRESQL": (
        "sh",
        "-c",
        'exec pg_isready -q -h 127.0.0.1 -p 5432 -U "$POSTGRES_USER" -d "$POSTGRES_DB"',
    ),
    # `ping` exits with 0 even if the login is rejected; only its output differs.
    "MYSQL": (
        "sh",
        "-c",
        'MYSQL_PWD="$MYSQL_ROOT_PASSWORD" mysqladmin ping -h 127.0.0.1 -P 3306 -u root 2>&1 | grep -q alive',
    ),
    "MONGODB": (
        "sh",
        "-c",
        'exec mongosh --quiet --host "$(hostname)" --port 27017 -u "$MONGO_INITDB_ROOT_USERNAME" '
        '-p "$MONGO_INITDB_ROOT_PASSWORD" --authenticationDatabase admin '
        "--eval 'quit(db.adminCommand({ping: 1}).ok ? 0 : 1)'",
    ),
    "REDIS": (
        "sh",
        "-c",
        'REDISCLI_AUTH="$REDIS_PASSWORD" redis-cli -h 127.0.0.1 -p 6379 ping 2>&1 | grep -q ^PONG',
    ),
}


def ready(type: str) -> HealthProbe:
    """Returns the readiness probe, whose command uses the variables of `environment`."""
    # mongosh contains a JavaScript engine and needs seconds to start on a small machine.
    slow = type == "MONGODB"
    return HealthProbe(
        kind=ProbeKind.EXEC,
        port=kind_of(type).port,
        command=_READINESS_COMMANDS[type],
        period=5.0 if slow else 1.0,
        timeout=20.0 if slow else 5.0,
    )


def alive(type: str) -> HealthProbe:
    """Returns the liveness probe, which only opens a TCP connection."""
    return HealthProbe(
        kind=ProbeKind.TCP, port=kind_of(type).port, initial_delay=30.0, period=10.0, timeout=5.0, failures=9
    )


# Versions


INSTALLED_VERSION: Final = "latest"
"""Stands for the version that a machine has."""


def configurations(*, runs_installed: bool = False) -> list[dict[str, object]]:
    """Returns all database types with their versions and modes. `runs_installed`: whether the engine runs the
    servers of the machine: then its version comes first, unless the data would not outlive a newer one."""
    return [
        {
            "database_type": kind.type,
            "version": [{"name": name, "supported_mode": mode} for name in names for mode in MODES],
        }
        for kind in _DATABASE_TYPES.values()
        for names in [((INSTALLED_VERSION,) if runs_installed and kind.leaps else ()) + kind.versions]
    ]


def upgrades(type: str, version: str) -> list[str]:
    """Returns the versions that can read the data of this version, newest first."""
    versions = kind_of(type).versions
    return [name for name in versions if name != version and not obstacle(type, version, name)]


def obstacle(type: str, old: str, new: str) -> str:
    """Returns why version `new` cannot read the data of version `old`; empty if it can. Versions that are not
    numeric are not compared."""
    kind, before, after = kind_of(type), _version_numbers(old), _version_numbers(new)
    if old == new or before[0] is None or after[0] is None:
        return ""
    if not kind.leaps and before[0] != after[0]:
        return (
            f"version: {type} {new} cannot read the data of {old}: "
            f"create a database of version {new} and move the data with a dump"
        )
    if _is_older(after, before):
        return f"version: {type} {new} is older than {old} and cannot read its data"
    if step := _skipped_version(kind, before, after):
        return f"version: {type} {new} cannot read the data of {old} at once: deploy {step} in between"
    return ""


def _skipped_version(
    kind: DatabaseType, old_version: tuple[int | None, int | None], new_version: tuple[int | None, int | None]
) -> str:
    """Returns the intermediate version that an upgrade must not skip; empty if there is none."""
    assert old_version[0] is not None
    assert new_version[0] is not None
    if kind.type == "MYSQL" and old_version == (8, 0) and new_version[0] > 8:
        return "8.4"
    return str(old_version[0] + 1) if kind.stepwise and new_version[0] > old_version[0] + 1 else ""


def _version_numbers(version: str) -> tuple[int | None, int | None]:
    """Returns the major and minor number of a version; None for a missing number. `16` stands for the newest
    16."""
    match = re.match(r"(\d{1,9})(?:\.(\d{1,9}))?(?![0-9])", version)
    if match is None:
        return None, None
    return int(match[1]), int(match[2]) if match[2] else None


def _is_older(first: tuple[int | None, int | None], other: tuple[int | None, int | None]) -> bool:
    assert first[0] is not None
    assert other[0] is not None
    if first[0] != other[0]:
        return first[0] < other[0]
    return first[1] is not None and other[1] is not None and first[1] < other[1]
