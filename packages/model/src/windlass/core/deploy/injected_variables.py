"""Variables that Windlass injects: the keys and values for each kind of owner. Pure.

They are listed with the prefix `QOVERY_`, for existing clients. Running services get each with the prefix
`WINDLASS_`, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.deploy import hosts
from windlass.core.words.naming import enum_value

LISTED: Final = "QOVERY_"
TWIN: Final = "WINDLASS_"
PREFIX: Final = (LISTED, TWIN)
_IDS: Final = uuid.UUID("3d9c5a0e-2f0b-4f6e-8a51-7d0f4a1c9b26")


_PLACEHOLDERS: Final = {f"{LISTED}PROJECT_ID": "||Q_PRJ_ID||"}


def placeholder(key: str) -> str | None:
    """Returns the text that existing clients get in lists instead of the value, if there is one."""
    return _PLACEHOLDERS.get(key)


class BuiltIn(Struct, frozen=True, kw_only=True):
    """An injected variable of one project, environment or service."""

    owner: str
    key: str
    value: str
    secret: bool = False
    description: str = ""

    @property
    def id(self) -> str:
        """The id of the variable: the same at every read and on every replica."""
        return identity(self.owner, self.key)


@lru_cache(4096)
def identity(owner: str, key: str) -> str:
    """Cached, because every service of an environment needs those of all its neighbours."""
    return str(uuid.uuid5(_IDS, f"{owner}/{key}"))


def prefixes_of(word: str, id: str) -> tuple[str, str]:
    """`POSTGRESQL`, `0c0b1dd2-…` → `QOVERY_POSTGRESQL_Z0C0B1DD2_`, and its twin."""
    rest = f"{word}_Z{id[:8].upper()}_"
    return LISTED + rest, TWIN + rest


def output_word(name: str) -> str:
    """Converts the name of an output to the end of its key: `bucket-name` → `BUCKET_NAME`."""
    return name.upper().replace("-", "_")


def twin(key: str) -> str:
    return TWIN + key.removeprefix(LISTED)


def of_level(family: str, id: str) -> list[BuiltIn]:
    """Returns the ids of a project, an environment or a service, as variables for itself and everything
    below."""
    return [BuiltIn(owner=id, key=f"{LISTED}{enum_value(family)}_ID", value=id)]


def address_variables(
    family: str, id: str, host: str, port: int | None, outside: str | None
) -> list[BuiltIn]:
    """Returns the variables with the addresses of a service; `outside` is given if its port is public."""
    prefix, _ = prefixes_of(enum_value(family), id)
    values = [("HOST_INTERNAL", host)]
    if port is not None:
        values.append(("PORT_INTERNAL", str(port)))
    if outside is not None:
        values.append(("HOST_EXTERNAL", outside))
    return [BuiltIn(owner=id, key=prefix + word, value=value) for word, value in values]


def without_secrets(variables: Iterable[BuiltIn]) -> list[BuiltIn]:
    """Returns variables as lists show them."""
    return [replace(variable, value="") if variable.secret else variable for variable in variables]


def with_compatible_keys(variables: Iterable[BuiltIn]) -> list[BuiltIn]:
    return [
        listed_or_twin
        for variable in variables
        for listed_or_twin in (variable, _compatible_variable(variable))
    ]


def _compatible_variable(variable: BuiltIn) -> BuiltIn:
    return replace(variable, key=twin(variable.key))


# Placeholders for lists, to which no client connects: existing clients read them.


def nominal_database_host(id: str, name: str) -> str:
    return f"z{id[:8]}-{hosts.label(name)}"


def nominal_host(word: str, id: str) -> str:
    return f"{word}-z{id[:8]}"
