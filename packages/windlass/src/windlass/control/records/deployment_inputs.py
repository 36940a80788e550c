"""The settings and the versions of the variables with which a deployment runs, which are kept with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.store import Reads, Row


class LevelRows(Struct, frozen=True):
    """A level with its own variables and secrets."""

    level: Row
    variables: Sequence[Row]


class InputRows(Struct, frozen=True):
    """The resources from which the inputs of a deployment were read: the service, and its levels, the nearest
    first."""

    service: Row
    levels: Sequence[LevelRows] = ()


class KeptVariable(Struct, frozen=True, array_like=True):
    """The version of a variable or secret with which a deployment ran."""

    id: str
    tag: str
    family: str
    key: str


class KeptLevel(Struct, frozen=True):
    id: str
    family: str
    variables: list[KeptVariable]


class KeptInputs(Struct, frozen=True):
    """The kept inputs of a deployment."""

    service: str
    """The tag of the service."""
    levels: list[KeptLevel]

    def has(self, level: str) -> bool:
        return any(kept.id == level for kept in self.levels)

    def of(self, level: str) -> list[KeptVariable]:
        return next((kept.variables for kept in self.levels if kept.id == level), [])


_decode: Final = msgspec.json.Decoder(KeptInputs).decode


async def read_kept(reads: Reads, deployment: str) -> KeptInputs | None:
    """Returns the kept inputs of a deployment; None if an earlier version of Windlass kept none."""
    body = await reads.deployment_inputs.get(deployment)
    return _decode(body) if body else None
