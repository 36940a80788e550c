"""Facts about each kind of database."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples
from tests.tables import rows
from windlass.core.deploy.database_variables import connection_variables, friendly_prefix, secret_keys, url
from windlass.core.deploy.databases import (
    MODES,
    TYPES,
    DatabaseLogin,
    alive,
    command,
    configurations,
    environment,
    image,
    kind_of,
    mount,
    obstacle,
    ready,
    upgrades,
)
from windlass.core.words.variables import DeclaredVariable, resolve
from windlass.engines.workload import ProbeKind

ID = "0c0b1dd2-3f0e-4a52-9d3b-5f8a9c1e7b60"
KNOWN = DatabaseLogin("admin", "s3cret", "shop")
every_type = pytest.mark.parametrize("type", TYPES)
many = examples(100)


# How to reach one


def test_services_get_the_database_connection_under_three_prefixes():
    found = connection_variables("POSTGRESQL", ID, "main-db", "db.local", 5432, "postgres", "pw", "shop")
    whole = "postgresql://postgres:pw@db.local:5432/shop"
    words = {
        "HOST_INTERNAL": "db.local", "PORT_INTERNAL": "5432", "LOGIN": "postgres", "PASSWORD": "pw",
        "DEFAULT_DATABASE_NAME": "shop", "DATABASE_URL_INTERNAL": whole,
    }  # fmt: skip
    assert found == {
        **{f"QOVERY_POSTGRESQL_Z0C0B1DD2_{word}": value for word, value in words.items()},
        **{f"WINDLASS_POSTGRESQL_Z0C0B1DD2_{word}": value for word, value in words.items()},
        "MAIN_DB_HOST": "db.local",
        "MAIN_DB_PORT": "5432",
        "MAIN_DB_USER": "postgres",
        "MAIN_DB_PASSWORD": "pw",
        "MAIN_DB_NAME": "shop",
        "MAIN_DB_URL": whole,
    }


@every_type
def test_exactly_the_variables_with_the_password_are_secret(type: str):
    found = connection_variables(type, ID, "main-db", "h", 1, "l", "the-password", "d")
    assert {key for key, value in found.items() if "the-password" in value} == secret_keys(
        type, ID, "main-db"
    )


@pytest.mark.parametrize(
    ("type", "login", "expected"),
    [
        ("POSTGRESQL", "postgres", "postgresql://postgres:p%40%2F%3A%25w@h:1/a%2Fb"),
        ("MYSQL", "root", "mysql://root:p%40%2F%3A%25w@h:1/a%2Fb"),
        ("MONGODB", "root", "mongodb://root:p%40%2F%3A%25w@h:1/a%2Fb?authSource=admin"),
        ("REDIS", "", "redis://:p%40%2F%3A%25w@h:1/a%2Fb"),
    ],
)
def test_a_connection_url_contains_all_parts_with_special_characters_escaped(
    type: str, login: str, expected: str
):
    assert url(type, "h", 1, login, "p@/:%w", "a/b") == expected


@many
@given(
    type=st.sampled_from(TYPES),
    host=st.sampled_from(["db", "10.0.0.1", "fd00::1", "db.example.com"]),
    port=st.integers(1, 65_535),
    login=st.text(),
    password=st.text(),
    database=st.text(),
)
def test_a_database_url_can_be_parsed_into_the_parts_it_was_built_from(
    type: str, host: str, port: int, login: str, password: str, database: str
):
    parts = urlsplit(url(type, host, port, login, password, database))
    assert (parts.hostname, parts.port) == (host, port)
    assert (unquote(parts.username or ""), unquote(parts.password or "")) == (login, password)
    assert unquote(parts.path) == f"/{database}"
    assert parse_qs(parts.query) == ({"authSource": ["admin"]} if type == "MONGODB" else {})


@rows(
    ("name", "prefix"),
    [
        ("main-db", "MAIN_DB_"),
        ("Main DB", "MAIN_DB_"),
        ("données", "DONNEES_"),
        ("db2", "DB2_"),
        ("2nd", "DB_2ND_"),
        ("--x--", "X_"),
        ("数据库", "DB_0C0B1DD2_"),
        ("qovery", "DB_QOVERY_"),
        ("windlass project", "DB_WINDLASS_PROJECT_"),
        ("windlassy", "WINDLASSY_"),
    ],
)
def test_the_variable_prefix_of_a_database_is_derived_from_its_name(name: str, prefix: str):
    assert friendly_prefix(name, ID) == prefix


@many
@given(name=st.text(max_size=255))
def test_any_name_of_a_database_makes_valid_names_of_variables(name: str):
    found = connection_variables("REDIS", ID, name, "h", 1, "", "pw", "0")
    entries = [
        DeclaredVariable(id=key, key=key, value=value, interpolated=False) for key, value in found.items()
    ]
    assert resolve([entries]).variables == found
    assert all(key.replace("_", "").isalnum() and key.isascii() and not key[0].isdigit() for key in found)
    assert len(found) == 18


# How one is run


def test_each_database_type_runs_the_docker_image_of_its_program():
    assert [image(type, "9") for type in TYPES] == ["postgres:9", "mysql:9", "mongo:9", "redis:9"]


@every_type
def test_an_image_receives_the_password_that_its_start_requires(type: str):
    told = [*environment(type, "16", KNOWN).values(), *command(type, KNOWN)]
    assert KNOWN.password in told


def test_postgresql_data_is_mounted_where_each_major_version_of_the_image_expects_it():
    known = DatabaseLogin("postgres", "pw", "postgres")
    assert mount("POSTGRESQL", "17.2") == "/var/lib/postgresql/data"
    assert environment("POSTGRESQL", "17.2", known)["PGDATA"].startswith("/var/lib/postgresql/data/")
    assert mount("POSTGRESQL", "18") == "/var/lib/postgresql"
    assert "PGDATA" not in environment("POSTGRESQL", "18", known)
    assert mount("POSTGRESQL", "latest") == "/var/lib/postgresql/data"


def test_redis_requires_its_password_and_persists_its_data():
    line = command("REDIS", KNOWN)
    assert line[:3] == ("redis-server", "--requirepass", "s3cret")
    assert line[line.index("--appendonly") + 1] == "yes"
    assert mount("REDIS", "7") == line[line.index("--dir") + 1]


@every_type
def test_a_readiness_probe_queries_the_database_without_a_password_in_its_command(type: str):
    probe = ready(type)
    assert probe.kind is ProbeKind.EXEC
    assert KNOWN.password not in " ".join(probe.command)
    used = {word for word in environment(type, "16", KNOWN) if f'"${word}"' in " ".join(probe.command)}
    assert used, "what the probe needs is in the environment"
    assert alive(type).port == probe.port == kind_of(type).port


# Versions


@every_type
def test_every_version_that_is_offered_is_offered_in_both_modes(type: str):
    (one,) = [one for one in configurations() if one["database_type"] == type]
    offered = [(entry["name"], entry["supported_mode"]) for entry in one["version"]]  # type: ignore[attr-defined]
    assert offered == [(version, mode) for version in kind_of(type).versions for mode in MODES]


@rows(
    ("type", "old", "new", "fine"),
    [
        ("POSTGRESQL", "16", "16", True),
        ("POSTGRESQL", "16.1", "16.4", True),
        ("POSTGRESQL", "16", "16.4", True),
        ("POSTGRESQL", "16", "17", False),
        ("POSTGRESQL", "17", "16", False),
        ("POSTGRESQL", "16.4", "16.1", False),
        ("MYSQL", "8.0", "8.4", True),
        ("MYSQL", "8.4", "9", True),
        ("MYSQL", "8.0", "9", False),
        ("MYSQL", "9", "8", False),
        ("MONGODB", "6", "7", True),
        ("MONGODB", "6.0", "8.0", False),
        ("MONGODB", "7", "6", False),
        ("REDIS", "6", "8", True),
        ("REDIS", "8", "7", False),
        ("REDIS", "7", "7.2", True),
        ("POSTGRESQL", "latest", "16", True),
        ("POSTGRESQL", "16", "latest", True),
        ("POSTGRESQL", "16-alpine", "17-alpine", False),
    ],
)
def test_a_version_change_that_cannot_use_the_existing_data_is_refused_with_a_reason(
    type: str, old: str, new: str, fine: bool
):
    reason = obstacle(type, old, new)
    assert (reason == "") is fine, reason
    assert fine or reason.startswith("version: ")


@every_type
def test_each_offered_upgrade_is_accepted(type: str):
    for version in kind_of(type).versions:
        for better in upgrades(type, version):
            assert obstacle(type, version, better) == ""
