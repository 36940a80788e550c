"""Kinds of databases, and names of variables by which programs expect a part of the access to one."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from windlass.base.lazy import lazy_pattern


class KnownDatabase(Struct, frozen=True):
    type: str
    title: str
    address: str
    """The usual name of the variable with its address."""
    names: re.Pattern[str]
    """Matches a part of the name of a variable."""
    words: re.Pattern[str]
    """Matches what its clients write, or the port on which they look for it."""


KINDS: Final = tuple(
    KnownDatabase(
        type, title, address, lazy_pattern(rf"(?:^|_)(?:{names})"), lazy_pattern(words, re.IGNORECASE)
    )
    for type, title, address, names, words in (
        ("MONGODB", "MongoDB", "MONGODB_URI", "MONGO", r"mongo|\b27017\b"),
        ("MYSQL", "MySQL", "DATABASE_URL", "MYSQL|MARIADB", r"mysql|mariadb|\b3306\b"),
        ("REDIS", "Redis", "REDIS_URL", "REDIS", r"redis|\b6379\b"),
        (
            "POSTGRESQL",
            "PostgreSQL",
            "DATABASE_URL",
            "PG|POSTGRES",
            r"postgres|psycopg|asyncpg|pgx\b|lib/pq|\b5432\b",
        ),
    )
)
USUAL_ADDRESS: Final = "DATABASE_URL"
MAIN_DATABASE: Final = "main-db"
"""The name of a database that advice proposes."""
_PART_PATTERN: Final = lazy_pattern(
    r"(?:[A-Z0-9]+_){0,2}?(?:PG|POSTGRES(?:QL)?|MYSQL|MARIADB|MONGO(?:DB)?|REDIS|DATABASE|DB|RDS|SQL)_?"
    r"(?:(?P<URL>UR[LI]|DSN|(?:CONNECTION|CONN)_?(?:STRING|STR|UR[LI]))|(?P<HOST>HOST(?:NAME)?|SERVER)|(?P<PORT>PORT)"
    r"|(?P<USER>USER(?:_?NAME)?|LOGIN)|(?P<PASSWORD>PASS(?:WORD)?|PWD)|(?P<NAME>NAME|DATABASE|DB(?:_?NAME)?))"
)
"""Matches the name of a variable with a part of the access to a database."""


def part_of(variable: str) -> str:
    """Returns the part of the access to a database that a variable holds, such as HOST; empty if none."""
    match = _PART_PATTERN.fullmatch(variable)
    return (match.lastgroup or "") if match else ""


def kind_in_name(variable: str) -> KnownDatabase | None:
    return next((kind for kind in KINDS if kind.names.search(variable)), None)


def kind_in_text(text: str) -> KnownDatabase | None:
    return next((kind for kind in KINDS if kind.words.search(text)), None)


def kind_of_type(type: str) -> KnownDatabase:
    return next(kind for kind in KINDS if kind.type == type)


def prefix_of(database: str) -> str:
    """Returns the prefix of the variables of a database: `main-db` → `MAIN_DB_`."""
    return f"{re.sub(r'[^A-Z0-9]+', '_', database.upper())}_"
