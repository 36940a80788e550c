"""Variables that Windlass injects: keys and values for each kind of owner. Pure.

Lists show them with the prefix `QOVERY_`, for existing clients. Running services also get each variable with
the prefix `WINDLASS_`.
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

LISTED_PREFIX: Final = "QOVERY_"
TWIN_PREFIX: Final = "WINDLASS_"
RESERVED_PREFIXES: Final = (LISTED_PREFIX, TWIN_PREFIX)
_ID_NAMESPACE: Final = uuid.UUID("3d9c5a0e-2f0b-4f6e-8a51-7d0f4a1c9b26")


_VARIABLE_PLACEHOLDERS: Final = {f"{LISTED_PREFIX}PROJECT_ID": "||Q_PRJ_ID||"}


def placeholder(key: str) -> str | None:
    """Returns the text that lists show instead of the value, as existing clients expect; None if there is
    none."""
    return _VARIABLE_PLACEHOLDERS.get(key)


class BuiltIn(Struct, frozen=True, kw_only=True):
    """An injected variable of a project, environment or service."""

    owner: str
    key: str
    value: str
    secret: bool = False
    description: str = ""

    @property
    def id(self) -> str:
        """The id of the variable, which is the same in every response and on every replica."""
        return identity(self.owner, self.key)


@lru_cache(4096)
def identity(owner: str, key: str) -> str:
    """Returns the id of an injected variable. Cached, because every service of an environment needs the ids
    of all other services' variables."""
    return str(uuid.uuid5(_ID_NAMESPACE, f"{owner}/{key}"))


def prefixes_of(service_type: str, id: str) -> tuple[str, str]:
    """Returns the key prefix for a service, and its twin: `POSTGRESQL`, `0c0b1dd2-…` →
    `QOVERY_POSTGRESQL_Z0C0B1DD2_`, `WINDLASS_POSTGRESQL_Z0C0B1DD2_`."""
    rest = f"{service_type}_Z{id[:8].upper()}_"
    return LISTED_PREFIX + rest, TWIN_PREFIX + rest


def output_word(name: str) -> str:
    """Converts the name of an output to the suffix of its key: `bucket-name` → `BUCKET_NAME`."""
    return name.upper().replace("-", "_")


def twin(key: str) -> str:
    return TWIN_PREFIX + key.removeprefix(LISTED_PREFIX)


def of_level(family: str, id: str) -> list[BuiltIn]:
    """Returns the variable with the id of a project, environment or service. The resource itself and
    everything below it receive the variable."""
    return [BuiltIn(owner=id, key=f"{LISTED_PREFIX}{enum_value(family)}_ID", value=id)]


def address_variables(
    family: str, id: str, host: str, port: int | None, outside: str | None
) -> list[BuiltIn]:
    """Returns the variables with the addresses of a service. `outside`: the public address, if there is
    one."""
    prefix, _ = prefixes_of(enum_value(family), id)
    values = [("HOST_INTERNAL", host)]
    if port is not None:
        values.append(("PORT_INTERNAL", str(port)))
    if outside is not None:
        values.append(("HOST_EXTERNAL", outside))
    return [BuiltIn(owner=id, key=prefix + word, value=value) for word, value in values]


def without_secrets(variables: Iterable[BuiltIn]) -> list[BuiltIn]:
    """Returns the variables with empty values in place of secrets, as lists show them."""
    return [replace(variable, value="") if variable.secret else variable for variable in variables]


def with_compatible_keys(variables: Iterable[BuiltIn]) -> list[BuiltIn]:
    return [
        listed_or_twin
        for variable in variables
        for listed_or_twin in (variable, _compatible_variable(variable))
    ]


def _compatible_variable(variable: BuiltIn) -> BuiltIn:
    return replace(variable, key=twin(variable.key))


# Placeholders that existing clients read from lists. No client connects to them.


def nominal_database_host(id: str, name: str) -> str:
    return f"z{id[:8]}-{hosts.label(name)}"


def nominal_host(service_type: str, id: str) -> str:
    return f"{service_type}-z{id[:8]}"
