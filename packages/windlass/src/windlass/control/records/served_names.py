"""The names that a service holds, looked up by its ports. Reserving them is in `names`."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.deploy.hosts import label
from windlass.engines.workload import WorkloadPort
from windlass.store import NameRow

INSIDE = "inside "
"""Prefix of names in an environment, followed by its id and a space."""


def row_of(port: WorkloadPort, rows: Sequence[NameRow]) -> NameRow | None:
    """The name under which a port is served, if its service holds it."""
    return next((row for row in rows if row.name == port.host), None)


def newest(key: str, rows: Sequence[NameRow]) -> NameRow | None:
    """Returns the name under which the next deployment serves this port."""
    return next((row for row in reversed(host_names(rows)) if row.port == key), None)


def host_names(rows: Sequence[NameRow]) -> list[NameRow]:
    return [row for row in rows if " " not in row.name]


def known_as(name: str, rows: Sequence[NameRow]) -> NameRow | None:
    """Returns the name by which others of its environment find a service, as it was called when it was
    deployed."""
    wish = label(name)
    return next((row for row in rows if row.name.startswith(INSIDE) and row.wish == wish), None)
