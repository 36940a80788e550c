"""The variables that contain a database's connection parameters for services. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from windlass.core.deploy.databases import TYPES, kind_of
from windlass.core.deploy.injected_variables import RESERVED_PREFIXES, prefixes_of


class ConnectionVariable(Struct, frozen=True):
    """A variable with a connection parameter of a database."""

    word: str
    """The suffix of the key after the prefix `QOVERY_POSTGRESQL_Z…_`."""
    friendly: str
    """The suffix of the key after a prefix that is derived from the database's name."""
    secret: bool


PARTS: Final = (
    ConnectionVariable("HOST_INTERNAL", "HOST", False),
    ConnectionVariable("PORT_INTERNAL", "PORT", False),
    ConnectionVariable("LOGIN", "USER", False),
    ConnectionVariable("DEFAULT_DATABASE_NAME", "NAME", False),
    ConnectionVariable("PASSWORD", "PASSWORD", True),
    ConnectionVariable("DATABASE_URL_INTERNAL", "URL", True),
)


def connection_variables(
    type: str, id: str, name: str, host: str, port: int, login: str, password: str, database: str
) -> dict[str, str]:
    """Returns the variables of a connection. Each exists under three prefixes: the listed prefix, its twin,
    and a prefix derived from the database's name."""
    values = dict(_variable_values(type, host, port, login, password, database))
    return {key: values[part.word] for key, part in _variable_keys(type, id, name)}


def secret_keys(type: str, id: str, name: str) -> frozenset[str]:
    """Returns the keys of a connection whose values are secret."""
    return frozenset(key for key, part in _variable_keys(type, id, name) if part.secret)


def keys(id: str, name: str) -> frozenset[str]:
    """Returns all keys that a database of any type could provide to services."""
    return frozenset(key for type in TYPES for key, _ in _variable_keys(type, id, name))


def _variable_keys(type: str, id: str, name: str) -> Iterator[tuple[str, ConnectionVariable]]:
    for part in PARTS:
        yield from ((prefix + part.word, part) for prefix in prefixes_of(type, id))
        yield friendly_prefix(name, id) + part.friendly, part


def _variable_values(
    type: str, host: str, port: int, login: str, password: str, database: str
) -> Iterator[tuple[str, str]]:
    yield "HOST_INTERNAL", host
    yield "PORT_INTERNAL", str(port)
    yield "LOGIN", login
    yield "DEFAULT_DATABASE_NAME", database
    yield "PASSWORD", password
    yield "DATABASE_URL_INTERNAL", url(type, host, port, login, password, database)


def url(type: str, host: str, port: int, login: str, password: str, database: str) -> str:
    kind = kind_of(type)
    place = f"[{host}]" if ":" in host else host
    who = f"{quote(login, safe='')}:{quote(password, safe='')}@"
    tail = f"?{kind.query}" if kind.query else ""
    return f"{kind.scheme}://{who}{place}:{port}/{quote(database, safe='')}{tail}"


_NOT_IN_KEYS_PATTERN = re.compile(r"[^A-Z0-9]+")


def friendly_prefix(name: str, id: str) -> str:
    """Returns the key prefix for a database's name: `main-db` → `MAIN_DB_`. If the name has no ASCII letters
    or digits, the id replaces it."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().upper()
    word = _NOT_IN_KEYS_PATTERN.sub("_", plain).strip("_")[:200].strip("_")
    if not word:
        return f"DB_{id[:8].upper()}_"
    # A key begins with a letter, and Windlass reserves its own prefix.
    taken = word[0].isdigit() or f"{word}_".startswith(RESERVED_PREFIXES)
    return f"DB_{word}_" if taken else f"{word}_"
