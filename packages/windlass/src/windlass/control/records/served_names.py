"""Finds the reserved names of a service by its ports. `names` reserves them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.deploy.hosts import label
from windlass.engines.workload import WorkloadPort
from windlass.store import NameRow

INSIDE_PREFIX = "inside "
"""The prefix of names inside an environment, followed by the environment's id and a blank."""


def row_of(port: WorkloadPort, rows: Sequence[NameRow]) -> NameRow | None:
    """Returns the reserved name under which a port is served; None if the service does not have it any
    more."""
    return next((row for row in rows if row.name == port.host), None)


def newest(key: str, rows: Sequence[NameRow]) -> NameRow | None:
    """Returns the reserved name under which the next deployment serves a port."""
    return next((row for row in reversed(host_names(rows)) if row.port == key), None)


def host_names(rows: Sequence[NameRow]) -> list[NameRow]:
    return [row for row in rows if " " not in row.name]


def known_as(name: str, rows: Sequence[NameRow]) -> NameRow | None:
    """Returns the name under which other services of the environment reach a service that was deployed as
    `name`."""
    wish = label(name)
    return next((row for row in rows if row.name.startswith(INSIDE_PREFIX) and row.wish == wish), None)
