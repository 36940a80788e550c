"""The databases that an application needs, with the variables from which its code takes the access."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from windlass.detect.database_names import (
    KINDS,
    MAIN_DATABASE,
    USUAL_ADDRESS,
    KnownDatabase,
    kind_in_name,
    kind_of_type,
    prefix_of,
)
from windlass.detect.database_reads import DIALECT, SSL, FoundReads, ReadVariable, read_variables
from windlass.detect.known_files import KnownFiles
from windlass.detect.recipe import DatabaseVariable, NeededDatabase, Recipe
from windlass.detect.spring_databases import spring_databases, spring_secrets

_MANIFEST_FILES: Final = (
    "package.json", "requirements.txt", "pyproject.toml", "Pipfile", "go.mod", "Cargo.toml", "pom.xml",
    "build.gradle", "build.gradle.kts", "Gemfile", "composer.json", "mix.exs", "prisma/schema.prisma",
)  # fmt: skip
_CLIENT_PACKAGE_PATTERNS: Final = {
    "POSTGRESQL": r"[\"'/](?:pg|pg-promise|postgres|postgresql|@neondatabase/serverless)[\"'/]"
    r"|\bpsycopg|\basyncpg\b|\bpg8000\b|lib/pq\b|jackc/pgx|gorm\.io/driver/postgres|go-pg/pg|tokio-postgres|org\.postgresql"
    r"|\bpostgrex\b|deadpool-postgres",
    "MYSQL": r"[\"'/](?:mysql2?|mariadb)[\"'/]|\bmysqlclient\b|\b(?:py|aio)mysql\b|\bmysql-connector"
    r"|\basyncmy\b|go-sql-driver/mysql|gorm\.io/driver/mysql|\bmyxql\b",
    "MONGODB": r"[\"'/](?:mongoose|mongodb|mongoid)[\"'/]|\b(?:pymongo|motor|mongoengine|beanie|djongo)\b"
    r"|mongo-driver|starter-data-mongodb",
    "REDIS": r"[\"'/](?:redis|ioredis)[\"'/]|^redis\b|^django-redis\b|go-redis/|redigo\b|starter-data-redis",
}  # fmt: skip
"""For each kind, a pattern for its clients in files that declare packages."""
_MAX_NAMED_FILES: Final = 2
_MAX_INNER: Final = 6
"""Maximum number of files of folders that are read."""
_DATABASE_ORDER: Final = ("POSTGRESQL", "MYSQL", "MONGODB", "REDIS")
"""The kinds: the first one that an application needs is its main database."""
_RELATIONAL_TYPES: Final = ("POSTGRESQL", "MYSQL")
_DIALECT_NAMES: Final = {"POSTGRESQL": "postgres", "MYSQL": "mysql"}
_PROVIDER_PATTERN: Final = re.compile(r"\bprovider\s*+=\s*+\"(postgresql|mysql|mongodb|sqlite)\"")


def choose_databases(files: KnownFiles, recipe: Recipe) -> None:
    """Chooses the databases whose access the code takes from variables, the variables with its secrets, and
    those without which it fails."""
    reads = read_variables(files)
    found = spring_databases(files) if recipe.language == "Java" else list(_by_code(files, reads))
    if found:
        recipe.choose(" ".join(reason for _, reason in found), databases=[need for need, _ in found])
    elif reads.local_address and recipe.language != "Java" and _kinds_in(_package_texts(files)):
        recipe.problems.append(
            f"Read the address of the database from a variable, such as {USUAL_ADDRESS}: "
            f"{reads.local_address} names one on the same machine, where there is none."
        )
    own_secrets = {**reads.own_secrets, **(spring_secrets(files) if recipe.language == "Java" else {})}
    if own_secrets:
        file = next(iter(own_secrets.values()))
        recipe.choose(f"{file} takes a secret of the application from it.", own_secrets=list(own_secrets))
    named = {variable.name for need in recipe.databases for variable in need.variables}
    if required := {name: file for name, file in reads.required.items() if name not in named}:
        readers = list(dict.fromkeys(required.values()))[:_MAX_NAMED_FILES]
        verb = "read" if len(readers) > 1 else "reads"
        reason = f"{' and '.join(readers)} {verb} them without a default."
        recipe.choose(reason, required_variables=list(required))


def _by_code(files: KnownFiles, reads: FoundReads) -> Iterator[tuple[NeededDatabase, str]]:
    if not reads.variables:
        return
    packages = _package_texts(files)
    usual = _usual_kind(packages, reads)
    found: dict[str, list[ReadVariable]] = {}
    for variable in reads.variables:
        kind = kind_in_name(variable.name.upper()) or usual
        if kind is not None and (kind is usual or _has_client(kind, packages)):
            found.setdefault(kind.type, []).append(variable)
    # Without one of these parts, its address is in the code, or is that of another service.
    by_kind = {
        type: variables
        for type, variables in found.items()
        if any(variable.part in ("URL", "HOST") for variable in variables)
    }
    first = next((type for type in _DATABASE_ORDER if type in by_kind), "")
    for type, variables in sorted(by_kind.items(), key=lambda entry: _DATABASE_ORDER.index(entry[0])):
        kind = kind_of_type(type)
        name = MAIN_DATABASE if type == first else f"{kind.title.lower()}-db"
        value = _value_function(kind, prefix_of(name), packages, reads.text)
        named = [DatabaseVariable(variable.name, value(variable)) for variable in variables]
        yield NeededDatabase(type, name, named), _reason(kind, variables)


def _reason(kind: KnownDatabase, variables: Sequence[ReadVariable]) -> str:
    shown = ", ".join(variable.name for variable in variables)
    return f"{variables[0].file} takes the access to a {kind.title} database from {shown}."


def _package_texts(files: KnownFiles) -> str:
    """Returns the text of the files that declare packages."""
    names = sorted(
        name
        for name in files.tree.names()
        if name.endswith(".txt") and "req" in name and name not in _MANIFEST_FILES
    )
    inner = [
        f"{folder}/{name}"
        for folder in sorted(files.tree.folders())
        if "/" not in folder
        for name in _MANIFEST_FILES
        if files.has(f"{folder}/{name}")
    ]
    return "\n".join(files.text(name) for name in (*_MANIFEST_FILES, *names[:5], *inner[:_MAX_INNER]))


def _has_client(kind: KnownDatabase, packages: str) -> bool:
    return bool(re.search(_CLIENT_PACKAGE_PATTERNS[kind.type], packages, re.MULTILINE | re.IGNORECASE))


def _kinds_in(packages: str) -> list[KnownDatabase]:
    return [kind for kind in KINDS if _has_client(kind, packages)]


def _usual_kind(packages: str, reads: FoundReads) -> KnownDatabase | None:
    """Returns the kind of the variables whose names tell none, such as DB_HOST: that of the only client, or
    of the only client that the code names. None if that is not certain."""
    if provider := _PROVIDER_PATTERN.search(reads.text):
        return next((kind for kind in KINDS if kind.type == provider[1].upper()), None)
    kinds = _kinds_in(packages)
    relational = [kind for kind in kinds if kind.type in _RELATIONAL_TYPES]
    if len(relational) > 1:
        relational = [kind for kind in relational if kind.words.search(reads.text)]
        return relational[0] if len(relational) == 1 else None
    others = [kind for kind in kinds if kind.type == "MONGODB"]
    return next(iter((*relational, *others)), None)


def _value_function(
    kind: KnownDatabase, prefix: str, packages: str, code: str
) -> Callable[[ReadVariable], str]:
    """Returns a function for the value of each variable, in the form that the client understands."""

    def reference(access_field: str) -> str:
        return f"{{{{{prefix}{access_field}}}}}"

    place = f"{reference('USER')}:{reference('PASSWORD')}@{reference('HOST')}:{reference('PORT')}"
    address = _database_address(kind.type, reference, place, packages, code)

    def value(variable: ReadVariable) -> str:
        if variable.part == "URL":
            return address
        if variable.part == SSL:
            return "disable" if variable.name.upper().endswith("MODE") else "false"
        if variable.part == DIALECT:
            dialect = _DIALECT_NAMES.get(kind.type, kind.type.lower())
            of_django = "postgresql" if kind.type == "POSTGRESQL" else dialect
            return f"django.db.backends.{of_django}" if variable.name.endswith("ENGINE") else dialect
        return reference(variable.part)

    return value


def _database_address(
    type: str, reference: Callable[[str], str], address_field: str, packages: str, code: str
) -> str:
    def with_scheme(scheme: str) -> str:
        return f"{scheme}://{address_field}/{reference('NAME')}"

    replaces = ".replace(" in code and "://" in code
    is_sqlalchemy = bool(re.search(r"sqlalchemy|sqlmodel", packages, re.IGNORECASE)) and not replaces
    is_asynchronous = "create_async_engine" in code or "+asyncpg" in code or "+aiomysql" in code
    if type == "POSTGRESQL":
        if "lib/pq" in packages and "jackc/pgx" not in packages and "sslmode" not in code:
            return f"{reference('URL')}?sslmode=disable"
        if is_sqlalchemy and "asyncpg" in packages and (is_asynchronous or "psycopg" not in packages):
            return with_scheme("postgresql+asyncpg")
        if is_sqlalchemy and "psycopg" in packages and "psycopg2" not in packages:
            return with_scheme("postgresql+psycopg")
    if type == "MYSQL" and (of_rails := re.search(r"\badapter: *+(mysql2|trilogy)\b", code)):
        return with_scheme(of_rails[1])
    if type == "MYSQL":
        if re.search(r"go-sql-driver/mysql|gorm\.io/driver/mysql", packages):
            before, _, after = address_field.partition("@")
            return f"{before}@tcp({after})/{reference('NAME')}?parseTime=true"
        if is_sqlalchemy and "aiomysql" in packages and is_asynchronous:
            return with_scheme("mysql+aiomysql")
        if is_sqlalchemy and re.search(r"pymysql", packages, re.IGNORECASE):
            return with_scheme("mysql+pymysql")
        if is_sqlalchemy and "mysql-connector" in packages:
            return with_scheme("mysql+mysqlconnector")
    return reference("URL")
