"""The limits of an engine: what it can give to one instance at most and at least. Pure.

They are asked when a service is created or changed, and by the engine itself before it starts an instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct


class Demand(Struct, frozen=True):
    """The resources that a service asks for, for each instance; the fields are those of its settings."""

    cpu: int
    memory: int
    gpu: int = 0


class EngineLimits(Struct, frozen=True, kw_only=True):
    """The resources that an engine can give to one instance. A maximum of None is not known."""

    cpu: int | None = None
    """Thousandths of a core."""
    memory: int | None = None
    """Megabytes."""
    gpu: int | None = None
    least_cpu: int = 1
    least_memory: int = 1


UNKNOWN: Final = EngineLimits()


def unmet(limits: EngineLimits, demand: Demand) -> Iterator[tuple[str, str]]:
    """Yields each field that asks for more or less than the engine can give, and what it should be."""
    rows = (
        ("cpu", demand.cpu, limits.cpu, limits.least_cpu, "thousandths of a core"),
        ("memory", demand.memory, limits.memory, limits.least_memory, "MB"),
        ("gpu", demand.gpu, limits.gpu, 0, "GPUs"),
    )
    for field, asked, most, least, unit in rows:
        if most is not None and asked > most:
            yield field, f"must be at most {most}: the engine of this cluster has {most or 'no'} {unit}"
        elif asked < least:
            yield field, f"must be at least {least}: the engine of this cluster gives no fewer {unit}"
